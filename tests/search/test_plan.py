"""The plan of a search: within memory whatever is asked, and never less thorough for a higher recall."""

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.config.mining import Search, SearchSettings
from isogloss.errors import DataError, IsoglossError
from isogloss.search.plan import CPU_RATE, PATIENCE, Machine, choose, code_bytes, index_width

SEARCHES = get_args(Search)
SIZES = st.integers(1, 50_000_000)
DIMENSIONS = st.integers(1, 2048)
MEMORIES = st.integers(2**20, 2**38)
RECALLS = st.floats(0.01, 0.9999)


@settings(max_examples=300, deadline=None)
@given(SIZES, SIZES, DIMENSIONS, MEMORIES, RECALLS, st.sampled_from(SEARCHES), st.integers(1, 64))
def test_an_index_fits_into_memory(
    left: int, right: int, dimension: int, memory: int, recall: float, asked: str, threads: int
) -> None:
    try:
        plan = choose(left, right, dimension, memory, recall, asked, Machine(threads))
    except DataError:
        plan = None
    if plan is None:
        assert asked not in ("auto", "exact")
        return
    assert plan.memory <= 3 * memory // 4
    assert plan.why
    if asked in ("cells", "hnsw", "ivf-pq", "exact"):
        assert plan.kind == asked
    if plan.kind == "ivf-pq":
        rows = max(left, right)
        assert plan.memory >= rows * code_bytes(dimension, plan.code_width)
        assert 1 <= plan.probes <= plan.lists <= max(rows // 8, 1)
    if plan.kind == "cells":
        assert plan.memory >= (left + right) * dimension * 2
        assert 1 <= plan.probes <= plan.lists <= 32_000


@settings(max_examples=300, deadline=None)
@given(SIZES, SIZES, DIMENSIONS, MEMORIES, RECALLS, RECALLS, st.sampled_from(SEARCHES))
def test_a_higher_recall_is_never_looked_for_less(
    left: int, right: int, dimension: int, memory: int, one: float, other: float, asked: str
) -> None:
    low, high = sorted((one, other))
    try:
        plans = [choose(left, right, dimension, memory, recall, asked) for recall in (low, high)]
    except DataError:
        return
    if plans[0].kind == plans[1].kind:
        assert plans[0].probes <= plans[1].probes
        assert plans[0].lists == plans[1].lists
    else:
        assert (plans[0].kind, plans[1].kind) == ("ivf-pq", "hnsw")


@settings(max_examples=200, deadline=None)
@given(SIZES, SIZES, DIMENSIONS, MEMORIES, RECALLS, st.integers(1, 8))
def test_more_memory_never_gives_coarser_codes(
    left: int, right: int, dimension: int, memory: int, recall: float, more: int
) -> None:
    order = ["ivf-pq", "hnsw", "cells"]
    try:
        little = choose(left, right, dimension, memory, recall, "approximate")
    except DataError:
        return
    much = choose(left, right, dimension, memory * (1 + more), recall, "approximate")
    assert (order.index(much.kind), -much.code_width) >= (order.index(little.kind), -little.code_width)


def test_what_is_chosen_by_size_and_memory() -> None:
    def kind(rows: int, memory: int, recall: float = 0.97, asked: str = "auto", threads: int = 2) -> str:
        return choose(rows, rows, 384, memory, recall, asked, Machine(threads)).kind

    assert kind(100_000, 2**30) == "exact"
    assert kind(300_000, 2**30) == "cells"
    assert kind(1_000_000, 2**30) == "ivf-pq"
    assert kind(1_000_000, 2**31, 0.995) == "hnsw"
    assert kind(1_000_000, 2**32) == "cells"
    assert kind(1_000_000, 2**24) == "exact"  # nothing fits
    assert kind(100, 2**30, asked="approximate") == "cells"
    assert kind(300_000, 2**30, recall=1.0) == "exact"
    at_most = int((PATIENCE * CPU_RATE / 768) ** 0.5)
    assert kind(at_most - 1, 2**32, threads=1) == "exact" and kind(at_most + 1, 2**32, threads=1) == "cells"
    assert choose(10**6, 10**6, 384, 2**32, 0.97, "auto", Machine(1, cuda=True)).kind == "exact"


def test_codes_and_widths() -> None:
    assert [index_width(dimension) for dimension in (1, 14, 15, 384)] == [16, 16, 32, 400]
    assert code_bytes(384, 2) == 100 and code_bytes(384, 16) == 13


def test_what_cannot_be_planned_is_a_sentence() -> None:
    with pytest.raises(IsoglossError, match="search"):
        SearchSettings(search="fast")  # type: ignore[arg-type]
    for recall in (0.0, 1.01, float("nan")):
        with pytest.raises(IsoglossError, match="recall"):
            SearchSettings(recall=recall)
    with pytest.raises(DataError, match=r"an index of 2,000,000 sentences \(ivf-pq\) takes") as caught:
        choose(10**6, 10**6, 384, 2**24, 0.9, "approximate")
    enough = int(str(caught.value.hint).split(": ")[1].split("M")[0]) * 2**20
    assert choose(10**6, 10**6, 384, enough, 0.9, "approximate").kind == "ivf-pq"
