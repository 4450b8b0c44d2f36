"""One small lab for all tests of this folder: systems are made in it once, as in a real one."""

from pathlib import Path

import pytest

from isogloss_papers.workshop import Workshop
from papers_world import TOY, write_data, write_models


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data`, `models` and, as they are made, `out`."""
    folder = tmp_path_factory.mktemp("lab")
    write_models(folder / "models")
    write_data(folder / "data")
    return folder


@pytest.fixture
def workshop(lab: Path) -> Workshop:
    return Workshop(scale="lab", data=lab / "data", out=lab / "out", models=lab / "models", device="cpu", overrides=TOY)
