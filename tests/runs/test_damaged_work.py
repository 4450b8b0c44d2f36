"""Whatever happens to the files in RUN/work: the next run completes, and ends with the weights of an undisturbed one."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from isogloss.config import Recipe
from isogloss.corpora import store
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from isogloss.storage import weights_hash
from isogloss.training.data import growing_files
from isogloss.training.data.growing_files import STATE
from tiny import OFTEN, PAIRS, tiny_recipe

MORE = (OFTEN, "losses.hard_negatives=1", "losses.ranking=0.2", "training.dev_share=0.2", "training.epochs=2")


class Stop(BaseException):
    """Whatever ends a process."""


@pytest.fixture(scope="module")
def place(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one recipe: `whole`, and `cut`, which was stopped while it was trained."""
    folder = tmp_path_factory.mktemp("damaged")
    german = [f"{pair.split}\t{pair.source}\t{pair.target}" for pair in PAIRS if pair.language == "de"]
    (folder / "pairs.tsv").write_text("\n".join(["split\ten\tde", *german]) + "\n", encoding="utf-8")
    run(recipe(models, folder, "whole"))
    seen: list[Step] = []

    def stop(step: Step) -> None:
        seen.extend([step] if step.stage == "distill" else [])
        if len(seen) == 3:
            raise Stop

    with pytest.raises(Stop):
        run(recipe(models, folder, "cut"), stop)
    assert any((folder / "cut").glob("work/checkpoints-*/step-*.pt")) and any((folder / "cut").glob("work/activations-*/*"))
    return folder


def recipe(models: Path, folder: Path, name: str) -> Recipe:
    return tiny_recipe(models, folder / "pairs.tsv", folder / name, *MORE)


def half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def garbage(path: Path) -> None:
    path.write_bytes(b"\x00\xffgarbage" * 7)


def strange(path: Path) -> None:
    """JSON that is well written and says nothing sensible; other files lose their last byte."""
    if path.suffix == ".json":
        path.write_text(json.dumps({key: ["strange"] for key in json.loads(path.read_text())} | {"finished": True}))
    else:
        path.write_bytes(path.read_bytes()[:-1])


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "foreign.txt").write_text("x")


@pytest.mark.parametrize("damage", [half, garbage, strange, folder])
def test_any_damage_to_the_files_of_a_run_is_made_good(
    models: Path, place: Path, damage: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(place / "cut", place / damage.__name__)
    files = [path for path in (place / damage.__name__ / "work").rglob("*") if path.is_file() and path.name != ".lock"]
    assert len(files) > 15
    for path in files:
        damage(path)
    result = run(recipe(models, place, damage.__name__))
    assert weights_hash(result.model) == weights_hash(place / "whole" / "model")
    assert caplog.messages, "what is made again is said"


def test_files_in_the_place_of_folders_are_removed(models: Path, place: Path) -> None:
    shutil.copytree(place / "cut", place / "files")
    folders = [path for path in (place / "files" / "work").iterdir() if path.is_dir()]
    for path in folders:
        shutil.rmtree(path)
        path.write_text("x")
    (place / "files" / "work" / "notes.txt").write_text("of somebody")
    result = run(recipe(models, place, "files"))
    assert weights_hash(result.model) == weights_hash(place / "whole" / "model")
    assert (place / "files" / "work" / "notes.txt").exists()


@pytest.mark.parametrize("name", [STATE, "source.i64", "keys.read", "ids.read", "texts.utf8"])
def test_training_data_that_was_damaged_before_it_was_finished_is_made_again(
    models: Path, place: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_files, "SAVE_SECONDS", 0.0)
    monkeypatch.setattr(store, "ROWS_A_BLOCK", 8)

    def stop(step: Step) -> None:
        if step.stage == "tokens" and step.done > 8:
            raise Stop

    out = place / name
    with pytest.raises(Stop):
        run(recipe(models, place, name), stop)
    (data,) = (out / "work").glob("data-*")
    half(data / name)
    result = run(recipe(models, place, name))
    assert weights_hash(result.model) == weights_hash(place / "whole" / "model")
