"""Cleaning: sizes by kind, what can be made again goes, what is a result stays, and so does what is in use."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

import isogloss as ig
from isogloss.cli.app import main
from isogloss.errors import IsoglossError
from isogloss.progress import Step
from isogloss.runs.clean import DAY, clean
from isogloss.runs.pipeline import run
from isogloss.storage import LOCK, folder_lock, weights_hash, write_json
from tiny import tiny_recipe


def write(path: Path, size: int, days: float = 0.0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    for one in (path, path.parent):
        os.utime(one, (time.time() - days * DAY,) * 2)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for name, size in {"work/data-1/rows/keys": 10, "work/teacher-1.npy": 20, "work/checkpoints-1-plain/step-1.pt": 40}.items():
        write(folder / name, size)
    for name in ("model/modules.json", "results.json", "pairs/manifest.json", "metrics.jsonl", "work/notes.txt", "mine.txt"):
        write(folder / name, 3)
    write(folder / ".model.partial-12345678" / "x", 80)
    write_json(folder / "run.json", {"status": "finished"})
    return folder


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != LOCK}


KEPT = {"model/modules.json", "results.json", "pairs/manifest.json", "metrics.jsonl", "work/notes.txt", "mine.txt", "run.json"}


def test_a_finished_run_keeps_its_results(finished: Path) -> None:
    before = files(finished)
    told = clean([finished], dry_run=True)
    assert files(finished) == before and told.removed == 150 and told.dry_run
    done = clean([finished])
    assert {item.kind: item.bytes for item in done.items} == {
        "temporary files": 80,
        "training data": 10,
        "teacher vectors": 20,
        "checkpoints": 40,
    }
    assert files(finished) == KEPT and done.removed == 150
    assert clean([finished]).items == ()


def test_the_progress_of_an_unfinished_run_stays(finished: Path) -> None:
    write_json(finished / "run.json", {"status": "stopped"})
    done = clean([finished])
    assert done.removed == 80 and {item.kept for item in done.items if item.kind == "checkpoints"} == {
        "the run has not finished and continues from it"
    }
    assert (finished / "work" / "teacher-1.npy").exists()
    assert clean([finished], unfinished=True).removed == 70 and files(finished) == KEPT


def test_a_run_that_is_at_work_is_left_alone_and_others_are_cleaned(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "busy")
    before = files(tmp_path / "busy")
    with folder_lock(tmp_path / "busy", "x", "y"):
        done = clean([tmp_path / "busy", finished])
    assert done.skipped == {str(tmp_path / "busy"): "a process is working there"}
    assert files(tmp_path / "busy") == before and files(finished) == KEPT


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, finished: Path) -> None:
    write(tmp_path / "other" / "data-1" / "thesis", 5)
    with pytest.raises(IsoglossError, match="not the folder of a run"):
        clean([finished, tmp_path / "other"])
    assert files(tmp_path / "other") and (finished / "work" / "teacher-1.npy").exists(), "nothing was touched before"


def test_of_the_cache_only_what_is_old_goes(tmp_path: Path) -> None:
    write(tmp_path / "vectors" / "old" / "a.npy", 10, days=40)
    write(tmp_path / "vectors" / "new" / "a.npy", 20, days=2)
    write(tmp_path / "vectors" / "now" / "a.npy", 30)
    write(tmp_path / "token-tables" / "a.npy", 40, days=31)
    write(tmp_path / "corpora" / "tatoeba" / "v1" / "en-de.tsv", 50, days=31)
    write(tmp_path / "corpora" / ".kept" / "tatoeba" / "note.json", 1, days=99)
    write(tmp_path / "vectors" / "new" / ".x.npy.partial-12345678", 60, days=1.5)
    write(tmp_path / "vectors" / "now" / ".x.npy.partial-12345678", 70)
    (tmp_path / "photos").mkdir()
    write(tmp_path / "photos" / "cat.jpg", 100, days=999)
    done = clean(cache=tmp_path)
    assert done.removed == 60 and {item.kept for item in done.items} == {"", "name an age to remove it", "just used"}
    done = clean(cache=tmp_path, older_than=30)
    assert done.removed == 100 and not (tmp_path / "vectors" / "old").exists()
    assert (tmp_path / "vectors" / "new").exists() and (tmp_path / "corpora" / ".kept" / "tatoeba" / "note.json").exists()
    clean(cache=tmp_path, older_than=0)
    assert files(tmp_path) == {
        "vectors/now/a.npy",
        "vectors/now/.x.npy.partial-12345678",
        "corpora/.kept/tatoeba/note.json",
        "photos/cat.jpg",
    }, "what was just used stays"


def test_the_command_shows_sizes_by_kind(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def called(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["clean", *map(str, arguments)])
        return int(caught.value.code or 0), *capsys.readouterr()

    code, out, _ = called(finished, "--dry-run")
    assert code == 0 and "checkpoints              40 bytes   would be removed" in out
    assert "150 bytes would be removed, of 150 bytes" in out
    code, out, _ = called(finished, "--json")
    assert json.loads(out)["removed"] == 150 and files(finished) == KEPT
    code, _, err = called()
    assert code == 2 and "there is nothing to clean" in err
    code, out, _ = called("--cache")
    assert code == 0 and "0 bytes removed, of 0 bytes" in out


def test_a_finished_run_leaves_no_more_than_it_can_use_again(models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=1")
    run(tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=2", "student.max_tokens=16"))
    result = run(recipe, replace=True)
    alone = run(tiny_recipe(models, tsv, tmp_path / "alone", "training.epochs=1"))
    names = [{path.name for path in (one.folder / "work").iterdir()} for one in (result, alone)]
    assert names[0] == names[1], "of the first recipe nothing is left"
    steps: list[Step] = []
    run(recipe, steps.append)
    assert {"reused"} <= {step.note for step in steps if step.stage in ("tokens", "teacher", "untouched student")}
    before = weights_hash(result.model)
    assert ig.clean([result.folder]).removed > 0
    assert weights_hash(run(recipe).model) == before
