"""A flipped bit in what a run keeps never changes what comes out: it is computed again, or refused with one sentence.

`benchmarks/faults.py` flips bits one by one, in every kind of kept file; here all files of a stopped run are hit at once.
"""

import json
import shutil
from pathlib import Path

import pytest

from isogloss.corpora.store import open_store
from isogloss.errors import DataError, IsoglossError, ModelError
from isogloss.models.encoder import load
from isogloss.progress import Step
from isogloss.runs.finished import open_finished
from isogloss.runs.pipeline import run
from tiny import OFTEN, tiny_recipe

UNREAD = (".lock", "settings.json", "metrics.jsonl")  # a lock, what a message is made from, and a log


class Stopped(Exception):
    """In place of a kill: by then there is a checkpoint."""


def stopping(after: int) -> "list[Step]":
    class Steps(list[Step]):
        def append(self, step: Step) -> None:
            super().append(step)
            if sum(one.stage == "distill" for one in self) == after:
                raise Stopped

    return Steps()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x20
    path.write_bytes(data)


def weights(folder: Path) -> str:
    return str(json.loads((folder / "run.json").read_text())["hashes"]["weights"])


def test_a_stopped_run_with_a_flipped_bit_in_every_file_ends_with_the_same_weights(
    models: Path, tsv: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tiny_recipe(models, tsv, tmp_path / "whole", OFTEN))
    cut = tmp_path / "cut"
    with pytest.raises(Stopped):
        run(tiny_recipe(models, tsv, cut, OFTEN), stopping(7).append)
    kept = [path for path in cut.rglob("*") if path.is_file() and path.stat().st_size and path.name not in UNREAD]
    assert {path.suffix for path in kept} == {"", ".pt", ".npy", ".i32", ".i64", ".utf8", ".json", ".parquet", ".rows"}
    for path in kept:
        flip(path)
    caplog.clear()
    run(tiny_recipe(models, tsv, cut, OFTEN))
    assert weights(cut) == weights(tmp_path / "whole")
    assert sum("damaged" in record.getMessage() for record in caplog.records) >= 5, "each is reported"


def test_a_damaged_model_and_a_damaged_record_are_refused(models: Path, tsv: Path, tmp_path: Path) -> None:
    done = run(tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=0"))
    load(str(done.folder))
    for name in ("model.safetensors", "tokenizer.json", "config_sentence_transformers.json"):
        file = done.model / name
        before = file.read_bytes()
        flip(file)
        with pytest.raises(ModelError, match=rf"{name} is damaged: it does not match SHA256SUMS") as caught:
            load(str(done.folder))
        assert "remove SHA256SUMS" in caught.value.hint
        file.write_bytes(before)
    load(str(done.model))
    for name in ("run.json", "results.json"):
        (done.folder / name).write_text((done.folder / name).read_text().replace("tiny", "tinz", 1))
        with pytest.raises(ModelError, match=f"{name}: cannot be read .*damaged or edited"):
            open_finished(str(done.folder))
        (done.folder / name).write_text((done.folder / name).read_text().replace("tinz", "tiny", 1))
    assert open_finished(str(done.folder)).recipe["name"] == "tiny"


def test_a_damaged_store_is_refused_and_prepared_again(models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=0")
    first = open_store(run(recipe).folder / "pairs")
    for path in [*first.folder.rglob("*.parquet"), first.folder / "manifest.json"]:
        copy = shutil.copytree(first.folder, tmp_path / "copy", dirs_exist_ok=True)
        flip(copy / path.relative_to(first.folder))
        if "scored" not in path.parts and "dropped" not in path.parts:  # these two are not read by who opens a store
            with pytest.raises((DataError, IsoglossError), match="damaged"):
                open_store(copy).bitext()
        flip(path)
        run(recipe)
        assert open_store(first.folder).manifest == first.manifest
        assert list(open_store(first.folder).bitext()) == list(first.bitext())
