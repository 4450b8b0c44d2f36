"""Which teacher's index is searched: the one that is named, or that of the run a model is from."""

import json
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.teachers import NamedTeacher, open_teacher_of, teacher_of
from isogloss.models.encoder import Encoder, load
from isogloss.models.encoders.roles import in_role


def made_by(folder: Path, teacher: str, prompt: str = "", **more: str) -> str:
    (folder / "model").mkdir(parents=True)
    record = {"recipe": {"teacher": {"model": teacher, "prompt": prompt, **more}}}
    (folder / "run.json").write_text(json.dumps(record))
    return str(folder)


def same(one: Encoder | None, other: Encoder) -> bool:
    return one is not None and np.array_equal(one.encode(["a cat"]), other.encode(["a cat"]))


def test_the_teacher_of_a_run(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(models / "teacher")
    mine = made_by(tmp_path / "mine", name, "query: ")
    assert teacher_of(mine) == teacher_of(f"{mine}/model") == (name, "query: ", "", "")
    monkeypatch.chdir(mine)
    assert teacher_of("org/name") == teacher_of(name) == NamedTeacher(), "a name is no folder, though run.json is here"
    assert same(open_teacher_of([mine, "org/name"]), load(name, "query: "))
    assert not same(load(name, "query: "), load(name))
    by_role = made_by(tmp_path / "roles", name, "x ", query_prompt="query: ", document_prompt="passage: ")
    assert teacher_of(by_role) == (name, "x ", "query: ", "passage: ")
    opened = open_teacher_of([by_role])
    assert opened is not None and same(opened, load(name, "x "))
    assert same(in_role(opened, "query"), load(name, "query: ")) and same(in_role(opened, "document"), load(name, "passage: "))
    with pytest.raises(
        DataError,
        match=r"teacher \(prompt 'query: '\) and .*\(prompt 'x ', query prompt 'query: ', document prompt 'passage: '\)",
    ):
        open_teacher_of([mine, by_role])
    assert open_teacher_of([mine], "") is None and open_teacher_of(["org/name"]) is None
    other = made_by(tmp_path / "other", str(models / "student"))
    with pytest.raises(DataError, match=r"these models have different teachers: .*student and .*teacher"):
        open_teacher_of([mine, other])
    assert same(open_teacher_of([mine, other], name), load(name))


def test_a_damaged_record_names_no_teacher(tmp_path: Path) -> None:
    for text in ("{", "[]", '{"recipe": {"teacher": {"model": 5}}}'):
        (tmp_path / "run.json").write_text(text)
        assert teacher_of(str(tmp_path)) == NamedTeacher()
