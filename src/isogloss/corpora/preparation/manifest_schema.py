"""The schema of a store's manifest, which is checked before use: a store may come from someone else."""

from collections import Counter
from pathlib import Path
from typing import Any

from isogloss.corpora.leaks.scan import LEVELS
from isogloss.shapes import COUNT, FILE_NAME, FLAG, NOTHING, NUMBER, OBJECT, SHA256, TEXT, Each, Leaf, Misfit, check
from isogloss.types import TEST, TRAIN

CODE = Leaf("a language", lambda value: FILE_NAME.fits(value) and not value.startswith("."))  # part of file names
LEVEL = Leaf(f"one of {', '.join(LEVELS)}", lambda value: isinstance(value, str) and value in LEVELS)
COUNTS = Each(TEXT, COUNT)
SPLITS = {"rows_in": COUNT, TRAIN: COUNT, TEST: COUNT}
PAIR = dict.fromkeys(("source", "target", "language", "corpus"), TEXT)
EXAMPLE = PAIR | {"score": (NUMBER, NOTHING), "line": (COUNT, NOTHING)}
SCANNED_SET = {"name": TEXT, "texts": COUNT, "hash": TEXT, "level?": LEVEL, "before?": FLAG}
LEAK_SCAN = {"level": LEVEL, "sets": [SCANNED_SET], "removed": COUNTS}
CORPORA = Each(TEXT, {**SPLITS, "license": TEXT, "version": TEXT, "dictionary": FLAG})
LINE = {"corpus": TEXT, "language": CODE, **SPLITS, "dropped": COUNTS}
MANIFEST: dict[str, Any] = {
    "hash": TEXT,
    "source_language": CODE,
    "rows_in": COUNT,
    "rows_out": COUNT,
    "dropped": [{"rule": TEXT, "count": COUNT, "examples": [EXAMPLE]}],
    "languages": Each(CODE, SPLITS),
    "corpora": CORPORA,
    "waterfall": [LINE],
    "sources": [{"first_fault": TEXT}],
    "skipped_lines": COUNT,
    "passed_over?": COUNTS,
    "settings": {"cleaning": OBJECT},
    "thresholds": [{"rule": TEXT, "language": TEXT, "value": NUMBER, "reason": TEXT}],
    "leak_scan": LEAK_SCAN,
    "parts": [{"file": FILE_NAME, "corpus": TEXT, "rows": COUNT, "sha256": SHA256}],
}
# what a model records about its training text (`isogloss_training.json`)
TRAINING = {
    **{key: MANIFEST[key] for key in ("hash", "rows_in", "rows_out", "languages", "corpora", "leak_scan")},
    "dropped": COUNTS,
    "added?": [OBJECT],
}


def check_manifest(manifest: dict[str, Any], folder: Path, parts: str) -> None:
    """Raise a Misfit if the manifest does not fit the schema, does not add up, or names files outside of the store."""
    check(manifest, MANIFEST)
    _check_sums(manifest)
    place = (folder / parts).resolve()
    for part in manifest["parts"]:
        if (place / part["file"]).resolve().parent != place:
            raise Misfit(f"{part['file']} is outside of the store")
        if part["corpus"] not in manifest["corpora"]:
            raise Misfit(f"{part['file']} belongs to no listed corpus")


def _check_sums(manifest: dict[str, Any]) -> None:
    dropped: Counter[str] = Counter()
    for number, line in enumerate(manifest["waterfall"]):
        for key in line.keys() - LINE.keys():
            raise Misfit(f"waterfall[{number}]: the key {key[:40]!r} is not known")
        if line["rows_in"] != sum(line["dropped"].values()) + line[TRAIN] + line[TEST]:
            raise Misfit(f"waterfall[{number}] does not add up")
        dropped.update(line["dropped"])
    if {drop["rule"]: drop["count"] for drop in manifest["dropped"] if drop["count"]} != {**+dropped}:
        raise Misfit("dropped and waterfall differ")
    if {line["corpus"] for line in manifest["waterfall"]} != set(manifest["corpora"]):
        raise Misfit("corpora and waterfall name different ones")
    kept = sum(line[TRAIN] + line[TEST] for line in manifest["waterfall"])
    if not kept or not (manifest["rows_out"] == kept == sum(part["rows"] for part in manifest["parts"])):
        raise Misfit("rows_out, waterfall and parts have different numbers of rows")
    if {line["language"] for line in manifest["waterfall"]} != set(manifest["languages"]):
        raise Misfit("languages and waterfall name different ones")
