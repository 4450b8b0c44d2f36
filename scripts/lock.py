"""Write the files in requirements/ from pyproject.toml and constraints.txt: every version with the hashes of all its files.

`python scripts/lock.py`, with uv installed (`pip install uv`). Change a version in constraints.txt, then run this. The packages
of `RUNTIMES` are beside those of the environment, for tests in other processes (`make runtimes`). npm locks transformers.js:
`cd requirements/runtimes && npm install --package-lock-only --ignore-scripts --omit-lockfile-registry-resolved`.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "requirements"
# fastembed asks for an older huggingface_hub than accelerate does; our tests run it with this one.
OVERRIDES = "huggingface-hub>=2\n"
BUILD = "hatchling\neditables\n"  # what pip needs to install isogloss itself, without fetching anything that has no hash
CUDA = ("cuda-", "nvidia-", "triton")  # what torch needs where it comes as a CUDA build, and not where it comes for the CPU
# The build of torch for the CPU alone, a tenth of the size, where pip is set up to find it: CPython 3.11, Linux x86_64.
CPU_BUILD = "6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"

# Backends of sentence-transformers that need an older transformers than the environment has. Each is installed into a folder of
# its own, which comes before the environment in the path of a process: what is not named here is taken from the environment.
RUNTIMES = {
    "onnx-backend": (
        "datasets==4.0.0",
        "huggingface-hub==0.36.2",
        "optimum==2.1.0",
        "optimum-onnx==0.1.0",
        "sentence-transformers==5.7.0",
        "tokenizers==0.22.2",
        "transformers==4.57.6",
    ),
    "openvino-backend": (
        "datasets==4.0.0",
        "huggingface-hub==1.21.0",
        "optimum==2.3.0",
        "optimum-intel==2.2.0",
        "tokenizers==0.22.2",
        "transformers==5.5.4",
    ),
}


def compiled(*extras: str) -> dict[str, str]:
    """What pip must be told to install isogloss with these extras anywhere: a requirement with its hashes, by name."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "build.in").write_text(BUILD, encoding="utf-8")
        (Path(folder) / "overrides.txt").write_text(OVERRIDES, encoding="utf-8")
        words = ["-c", "constraints.txt", "pyproject.toml", f"{folder}/build.in", "--override", f"{folder}/overrides.txt"]
        return hashed([*words, *(word for extra in extras for word in ("--extra", extra))])


def alone(requirements: Sequence[str]) -> dict[str, str]:
    """These packages with their hashes, without what they depend on."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "alone.in").write_text("\n".join(requirements), encoding="utf-8")
        return hashed(["--no-deps", f"{folder}/alone.in"])


def hashed(words: Sequence[str]) -> dict[str, str]:
    """What uv resolves: a requirement with its hashes, by name."""
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-header", "--no-annotate"]
    command += ["--python-version", "3.11", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found = re.findall(r"^([a-z0-9.-]+)[^\n]*\\\n(?:    --hash=[^\n]*\n?)+", done.stdout, flags=re.MULTILINE)
    texts = re.split(r"^(?=[a-z])", done.stdout, flags=re.MULTILINE)[1:]
    assert len(found) == len(texts), "each has a version and hashes"
    return {name: text.rstrip("\n") for name, text in zip(found, texts, strict=True)}


def write(name: str, sentence: str, requirements: dict[str, str]) -> None:
    """One file for `pip install --require-hashes --no-deps -r`."""
    lines = [f"# {sentence} Written by scripts/lock.py.", *(requirements[one] for one in sorted(requirements))]
    (FOLDER / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    base, everything = compiled("quickstart"), compiled("quickstart", "dev")
    cuda = {name: text for name, text in everything.items() if name.startswith(CUDA)}
    torch = everything["torch"]
    here = {name: everything[name] for name in base if name not in cuda and name != "torch"}
    dev = {name: text for name, text in everything.items() if name not in {*here, *cuda, "torch"}}
    write("torch.txt", "The usual build of torch.", {"torch": torch})
    cpu = f"{torch.split()[0]}+cpu \\\n    --hash=sha256:{CPU_BUILD}"
    write("torch-cpu.txt", "The build of torch for the CPU alone, taken where pip finds it.", {"torch": cpu})
    write("quickstart.txt", "What isogloss needs to run, with the models of the quickstart.", here)
    write("dev.txt", "What the tests need beside quickstart.txt.", dev | {"triton": everything["triton"]})
    write("cuda.txt", "What torch needs beside quickstart.txt where it comes as a CUDA build.", cuda)
    (FOLDER / "runtimes").mkdir(exist_ok=True)
    for runtime, requirements in RUNTIMES.items():
        write(f"runtimes/{runtime}.txt", f"sentence-transformers' {runtime.replace('-', ' ')}.", alone(requirements))
