"""Blocks that other processes work on come back in order; what goes wrong there is said here."""

import os
from pathlib import Path

import pyarrow as pa
import pytest

from isogloss.corpora.preparation.workers import Workers, _packed, cpu_count
from isogloss.errors import DataError, IsoglossError


def total(block: pa.Table, context: int, shared: object) -> tuple[int, int]:
    return sum(block.column("n").to_pylist()) * context + int(str(shared)), os.getpid()


def same(block: pa.Table, context: int, shared: object) -> pa.Table:
    return block


def refuse(block: pa.Table, context: int, shared: object) -> None:
    raise DataError("line 7: no", hint="try another")


def vanish(block: pa.Table, context: int, shared: object) -> None:
    os._exit(3)


def blocks(count: int) -> list[pa.Table]:
    return [pa.table({"n": [number, number]}) for number in range(count)]


@pytest.mark.parametrize("count", [1, 2])
def test_results_come_in_order(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    with Workers(count, shared=5) as workers:
        found = list(workers.map(total, blocks(9), 10))
    assert [value for value, _ in found] == [20 * number + 5 for number in range(9)]
    assert (os.getpid() in {process for _, process in found}) == (count == 1)


def test_a_slice_travels_without_the_table_it_was_cut_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    whole = pa.table({"n": ["x" * 1000] * 5000})
    assert len(_packed(whole.slice(7, 2))) < 5000
    with Workers(2) as workers:
        (found,) = workers.map(same, [whole.slice(7, 2)], 0)
    assert found.to_pydict() == {"n": ["x" * 1000] * 2}


def test_errors_of_the_work_are_raised_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    with Workers(2) as workers, pytest.raises(DataError, match="line 7: no") as caught:
        list(workers.map(refuse, blocks(3), 0))
    assert caught.value.hint == "try another"


def test_a_process_that_dies_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    with Workers(2) as workers, pytest.raises(IsoglossError, match="a worker process ended early"):
        list(workers.map(vanish, blocks(3), 0))


def test_there_is_at_least_one_processor() -> None:
    assert cpu_count() >= 1
