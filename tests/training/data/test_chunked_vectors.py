"""Vectors in parts: those of all rows at once, told of as one way, and not in memory."""

import errno
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from isogloss.errors import IsoglossError, ModelError
from isogloss.models.static import StaticStudent, static_student
from isogloss.models.token_store import TokenStore
from isogloss.progress import Step
from isogloss.training.data import chunked_vectors as module
from isogloss.training.data.chunked_vectors import vectors_in_parts
from tiny import TEXTS, unigram

ROWS = np.arange(11)


@pytest.fixture
def student(monkeypatch: pytest.MonkeyPatch) -> StaticStudent:
    monkeypatch.setattr(module, "AT_ONCE", 4)
    return static_student(unigram(), 8)


@pytest.fixture
def tokens(student: StaticStudent) -> TokenStore:
    return student.tokenize(TEXTS[: len(ROWS)])


@pytest.mark.parametrize("count", [1, 4, 5, 8, 11])
@pytest.mark.parametrize("with_folder", [True, False])
def test_parts_are_the_whole(count: int, with_folder: bool, student: StaticStudent, tokens: TokenStore, tmp_path: Path) -> None:
    rows, steps = ROWS[::-1][:count], list[Step]()
    found = vectors_in_parts(student, tokens, rows, None, tmp_path if with_folder else None, steps.append, "untouched")
    assert np.array_equal(found, student.vectors_of(tokens, rows))
    assert found.dtype == np.float32
    assert isinstance(found.base, np.memmap) == (count > 4), "many are mapped"
    assert not list(tmp_path.iterdir())
    assert torch.from_numpy(found).shape == (count, 8), "without a warning"
    assert {(step.stage, step.total) for step in steps} == {("untouched", count)}
    assert [step.done for step in steps] == [*range(4, count, 4), count]


def test_what_is_not_finite_is_refused_in_any_part(student: StaticStudent, tokens: TokenStore) -> None:
    with torch.no_grad():
        student.table[int(tokens.row(10)[0])] = torch.nan
    with pytest.raises(ModelError, match="untouched: some of its vectors are not finite"):
        vectors_in_parts(student, tokens, ROWS, None, None, lambda _: None, "untouched")


def test_a_full_disk_is_said(
    student: StaticStudent, tokens: TokenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(module, "TemporaryFile", lambda **_: Full())
    with pytest.raises(IsoglossError, match="no space left"):
        vectors_in_parts(student, tokens, ROWS, None, tmp_path, lambda _: None, "untouched")
