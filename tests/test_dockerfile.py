"""The Dockerfile, which is not built here: rules of hadolint that apply to it, and whether it installs what is needed."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from isogloss.config.serving import ServeSettings
from serve.services import save_onnx

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
CODE = """
import json, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in hidden:
            raise ModuleNotFoundError(f"{name} is not in the image", name=name)

hidden = set(json.loads(sys.argv[2]))
sys.meta_path.insert(0, Missing())
from isogloss.cli import app
from isogloss.cli.screens import progress
from isogloss.config.serving import ServeSettings
from isogloss.serve.server import make_server, open_models
settings = ServeSettings(threads=1)
server, service = make_server(settings)
open_models(service, [sys.argv[1]], ["tiny"], settings)
print(len(service.prepare(b'{"input": "the cat"}').rows))
service.close()
"""


def instructions() -> list[tuple[str, str]]:
    """Instruction and arguments of each line, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", TEXT)
    lines = [line for line in joined.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def installed() -> list[str]:
    """The packages that pip is told to install."""
    (command,) = [text for name, text in instructions() if name == "RUN"]
    first = command.split("&&")[0].split()
    return [word for word in first[first.index("constraints.txt") + 1 :] if not word.startswith("-")]


def test_rules_of_the_linter() -> None:
    by_name = dict(instructions())
    assert next(name for name, _text in instructions()) == "FROM"
    assert re.fullmatch(r"python:\d+\.\d+-slim", by_name["FROM"])  # DL3006, DL3007: a tag, and not the latest
    assert "ADD" not in by_name and "MAINTAINER" not in by_name and "sudo" not in TEXT  # DL3020, DL4000, DL3004
    assert all(Path(text.split()[-1]).is_absolute() for name, text in instructions() if name == "WORKDIR")  # DL3000
    for pip in re.findall(r"pip install[^&]*", by_name["RUN"]):
        assert "--no-cache-dir" in pip and ("--constraint" in pip or "--no-deps ." in pip)  # DL3042, DL3013
    for name in ("ENTRYPOINT", "CMD"):
        assert all(isinstance(word, str) for word in json.loads(by_name[name]))  # DL3025
    assert json.loads(by_name["HEALTHCHECK"].split("CMD ")[1])[0] == "python"
    names = [name for name, _text in instructions()]
    assert by_name["USER"].isdigit() and by_name["USER"] != "0" and names.index("USER") > names.index("RUN")  # DL3002
    assert len(names) == len(set(names) - {"COPY"}) + names.count("COPY")  # DL3012, DL4003, DL4004: one of each
    assert by_name["EXPOSE"] == str(ServeSettings().port)
    for name, text in instructions():
        if name == "COPY":
            assert all((ROOT / source).exists() for source in text.split()[:-1])


def test_packages_are_dependencies_with_a_pinned_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = [*project["dependencies"], *project["optional-dependencies"]["serve"], *project["optional-dependencies"]["export"]]
    names = {canonicalize_name(Requirement(one).name) for one in known}
    pinned = {
        canonicalize_name(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }
    assert set(installed()) <= names & pinned


def test_they_are_all_that_the_service_needs(tmp_path: Path) -> None:
    save_onnx(tmp_path)
    kept = closure(installed()) | {"isogloss", "isogloss-papers"}
    hidden = [name for name, owners in packages_distributions().items() if not {*map(canonicalize_name, owners)} & kept]
    assert {"torch", "transformers", "sentence_transformers", "scipy"} <= {*hidden}
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CODE, f"onnx:{tmp_path}", json.dumps(hidden)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert found.stdout == "1\n", found.stderr


def closure(packages: list[str]) -> set[str]:
    """The packages and all that they need here."""
    known: set[str] = set()
    waiting = list(packages)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name not in known:
            known.add(name)
            needed = [Requirement(one) for one in distribution(name).requires or []]
            waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return known
