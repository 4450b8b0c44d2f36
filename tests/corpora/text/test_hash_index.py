"""The hash table over arrays against a dictionary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.text.hash_index import HashIndex

# Few slots and few different low bits, so that names meet.
NAMES = st.lists(st.integers(0, 40).map(lambda n: (n % 5) + (n << 40)), unique=True, max_size=30)


@given(batches=st.lists(st.tuples(NAMES, st.booleans()), max_size=6))
def test_it_answers_as_a_dictionary_does(batches: list[tuple[list[int], bool]]) -> None:
    table, known = HashIndex(41), dict[int, int]()
    for batch, forget in batches:
        if forget:
            table.clear()
            known.clear()
        names = np.array(batch, dtype=np.uint64)
        assert table.find(names).tolist() == [known.get(name, -1) for name in batch]
        fresh = [name for name in batch if name not in known]
        given_places = table.add(np.array(fresh, dtype=np.uint64)).tolist()
        assert given_places == list(range(len(known), len(known) + len(fresh)))
        known.update(zip(fresh, given_places, strict=True))
        assert len(table) == len(known)
        assert table.find(names).tolist() == [known[name] for name in batch]


def test_zero_is_a_name_like_any_other_and_a_full_table_says_so() -> None:
    table = HashIndex(1)
    assert table.find(np.zeros(1, dtype=np.uint64)).tolist() == [-1]
    assert table.add(np.zeros(1, dtype=np.uint64)).tolist() == [0]
    assert table.find(np.zeros(1, dtype=np.uint64)).tolist() == [0]
    with pytest.raises(ValueError, match="full"):
        table.add(np.ones(1, dtype=np.uint64))
