"""A finished run of the tiny models, made once."""

from pathlib import Path

import pytest

from isogloss.runs.pipeline import run
from tiny import PAIRS, tiny_recipe


@pytest.fixture(scope="session")
def finished(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose student has four layers and its whole vocabulary."""
    folder = tmp_path_factory.mktemp("finished")
    rows: dict[str, dict[str, str]] = {}
    for pair in PAIRS:
        rows.setdefault(pair.source, {"split": pair.split})[pair.language] = pair.target
    lines = ["split\ten\tde\tru"] + [f"{row['split']}\t{en}\t{row['de']}\t{row['ru']}" for en, row in rows.items()]
    (folder / "pairs.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    changes = ("student.trim=off", "training.train_layers=0", "output.license=mit")
    return run(tiny_recipe(models, folder / "pairs.tsv", folder / "run", *changes)).folder
