"""A finished run that languages are added to."""

from pathlib import Path

import pytest

from additions import german_recipe, write_pairs
from isogloss.runs.pipeline import run


@pytest.fixture(scope="module")
def place(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `pairs.tsv` and a finished run in German."""
    folder = tmp_path_factory.mktemp("adding")
    run(german_recipe(models, write_pairs(folder / "pairs.tsv"), folder / "run"))
    return folder
