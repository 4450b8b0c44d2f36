"""Names of texts: equal for equal texts, different for different ones, the same tomorrow."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.text.hashing import among, combine, distinct
from isogloss.corpora.text.side import Side

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=12), min_size=1, max_size=20)
NUMBERS = st.lists(st.integers(0, 2**64 - 1), max_size=30)


@given(texts=TEXTS)
def test_hashes_are_equal_exactly_where_texts_are(texts: list[str]) -> None:
    hashes = Side(pa.array(texts, pa.string()), "").exact_hashes.tolist()
    for one, first in zip(texts, hashes, strict=True):
        for other, second in zip(texts, hashes, strict=True):
            assert (one == other) == (first == second)


def test_many_similar_texts_do_not_collide() -> None:
    texts = [f"{a} {b}" for a in range(300) for b in range(300)]
    side = Side(pa.array(texts), "")
    assert len(distinct(side.exact_hashes)) == len(texts)


def test_normalised_names_see_letters_and_digits_only() -> None:
    hashes = Side(pa.array(["Hello, World 2!", "hello world2", "HELLO WORLD 3", "…"]), "").normalized_hashes
    assert hashes[0] == hashes[1] != hashes[2]


def test_names_stay_the_same_from_version_to_version() -> None:
    side = Side(pa.array(["", "a", "Grüße"]), "")
    assert side.exact_hashes.tolist() == [12035550249420947055, 701441379477201763, 1607560699823280907]


def test_the_order_of_combined_names_matters() -> None:
    one, other = np.array([1], dtype=np.uint64), np.array([2], dtype=np.uint64)
    assert combine(one, other) != combine(other, one)


@given(NUMBERS, NUMBERS)
def test_distinct_and_among_are_set_and_in(values: list[int], known: list[int]) -> None:
    some, others = np.array(values, dtype=np.uint64), np.array(known + values[:3], dtype=np.uint64)
    assert distinct(some).tolist() == sorted(set(values))
    assert among(some, distinct(others)).tolist() == [value in set(others.tolist()) for value in values]
