"""Numbers of sentences: what a dictionary gives, in memory that does not depend on how many there are."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.models.vector_cache import KEY, Keys, text_keys
from isogloss.training.data.sentence_table import SentenceTable


def distinct(texts: list[int]) -> tuple[list[str], Keys]:
    names = [str(text) for text in dict.fromkeys(texts)]
    return names, text_keys(names)


@given(st.lists(st.tuples(st.lists(st.integers(0, 150), max_size=90), st.booleans()), max_size=8))
@settings(deadline=None, max_examples=60)
def test_numbers_are_those_of_dictionaries(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[tuple[list[int], bool]]
) -> None:
    table = SentenceTable(tmp_path_factory.getbasetemp(), sum(len(texts) for texts, _ in blocks))
    number_of: dict[str, dict[str, int]] = {"sentence": {}, "source": {}}
    for texts, are_sources in blocks:
        names, keys = distinct(texts)
        for column in ("sentence", "source")[: 1 + are_sources]:
            known = number_of[column]
            numbers, new = table.number(keys, column, len(known))
            assert new.tolist() == [name not in known for name in names]
            assert numbers.tolist() == [known.setdefault(name, len(known)) for name in names]


def test_a_table_that_is_as_full_as_can_be(tmp_path: Path) -> None:
    names, keys = distinct(list(range(20_000)))
    table = SentenceTable(tmp_path, len(names))
    assert table.number(keys, "sentence", 0)[0].tolist() == list(range(len(names)))
    again, new = table.number(keys[::-1].copy(), "sentence", len(names))
    assert again.tolist() == list(range(len(names)))[::-1] and not new.any()
    assert not list(tmp_path.iterdir()), "its file has no name"


def test_keys_that_share_their_first_half_are_told_apart(tmp_path: Path) -> None:
    keys = np.array([b"A" * 8 + b"B" * 8, b"A" * 8 + b"C" * 8, b"\xff" * 16, bytes(16)], dtype=KEY)
    table = SentenceTable(tmp_path, 4)
    assert table.number(keys, "sentence", 0)[0].tolist() == [0, 1, 2, 3]
    assert table.number(keys[[1, 0, 3, 2]], "sentence", 4)[0].tolist() == [1, 0, 3, 2]


def test_memory_does_not_grow_with_the_keys(tmp_path: Path) -> None:
    keys = text_keys(map(str, range(50_000)))
    tracemalloc.start()
    table = SentenceTable(tmp_path, len(keys))
    for start in range(0, len(keys), 1_000):
        table.number(keys[start : start + 1_000], "sentence", start)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 500_000  # the table has 2,400,000 bytes
