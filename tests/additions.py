"""A small finished run in German, and what is needed to add Russian to it: shared by the tests of `add`."""

import json
from pathlib import Path
from typing import Any

from isogloss.config import AddingSettings, Recipe
from isogloss.storage import content_hash
from tiny import PAIRS, tiny_recipe

# All layers learn, in few checkpoints, and no dev pair decides: of two or three dev pairs the first weights would win.
LEARNING = (
    "training.train_layers=0",
    "training.dev_pairs=0",
    "training.learning_rate=3e-3",
    "training.batch_pairs=16",
    "training.checkpoint_seconds=60.0",
    "cleaning.min_language=0.0",
)


def write_pairs(path: Path, languages: tuple[str, ...] = ("de", "ru")) -> Path:
    """The tiny pairs as a table with a split column; "bg" is Russian backwards."""
    rows: dict[str, dict[str, str]] = {}
    for pair in PAIRS:
        row = rows.setdefault(pair.source, {"split": pair.split})
        row[pair.language] = pair.target
        if pair.language == "ru":
            row["bg"] = " ".join(reversed(pair.target.strip(".").split())) + "."
    lines = ["\t".join(("split", "en", *languages))]
    lines += ["\t".join((row["split"], source, *(row[one] for one in languages))) for source, row in rows.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def german_recipe(models: Path, tsv: Path, folder: Path, *more: str) -> Recipe:
    """Distils German alone, so that the vocabulary is trimmed of Cyrillic."""
    return tiny_recipe(models, tsv, folder, "languages=de", "training.epochs=20", *LEARNING, *more)


def record_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return record


def snapshot(folder: Path) -> dict[str, str]:
    """Every file below a folder and a hash of it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): content_hash(path.read_bytes()) for path in files}


def asked(place: Path, out: str, *languages: str) -> AddingSettings:
    """Russian, or other languages, for the run in `place`."""
    tsv = place / "pairs.tsv"
    return AddingSettings(run=str(place / "run"), languages=languages or ("ru",), pairs=(str(tsv),), out=str(place / out))
