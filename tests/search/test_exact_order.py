"""The lists of candidates against sorting by definition: repeated candidates, equal values, any order of merging."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.search.blockwise import Best, shortlisted

OWNERS, OTHERS = 4, 9
# A cosine is the same whenever it is computed: the value of a pair depends on the pair alone.
VALUES = np.random.default_rng(0).integers(-3, 4, (OWNERS, OTHERS)) / 4
TABLE = torch.from_numpy(VALUES).float()
candidates = st.lists(st.tuples(st.integers(0, OWNERS - 1), st.integers(0, OTHERS - 1)), max_size=30)


@settings(max_examples=60, deadline=None)
@given(st.lists(candidates, max_size=4), st.integers(1, 4))
def test_merging_keeps_the_best_of_all_that_came(batches: list[list[tuple[int, int]]], k: int) -> None:
    best = Best(OWNERS, k, "cpu")
    for batch in batches:
        if batch:
            owner, other = torch.tensor(sorted(batch)).T
            best.merge(owner, other, TABLE[owner, other])
    seen = {pair for batch in batches for pair in batch}
    for owner in range(OWNERS):
        order = sorted((-VALUES[pair], pair[1]) for pair in seen if pair[0] == owner)[:k]
        there = best.ids[owner] >= 0
        assert best.ids[owner][there].tolist() == [other for _, other in order]
        assert best.similarity[owner][there].tolist() == [-value for value, _ in order]
        assert float(best.similarity[owner, -1]) == (-order[-1][0] if len(order) == k else -np.inf)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, OWNERS - 1), st.integers(0, OTHERS - 1)), min_size=1), st.integers(1, 4))
def test_the_shortlist_has_what_is_near_the_last_of_the_best(pairs: set[tuple[int, int]], k: int) -> None:
    owner, other = torch.tensor(list(pairs)).T
    rough = TABLE[owner, other]
    slack = 0.25
    found = shortlisted(owner, other, rough, k, slack)
    wanted = set()
    for one in range(OWNERS):
        own = sorted((VALUES[pair] for pair in pairs if pair[0] == one), reverse=True)
        least = own[k - 1] - slack if len(own) >= k else -np.inf
        wanted |= {pair for pair in pairs if pair[0] == one and VALUES[pair] >= least}
    assert set(zip(found[0].tolist(), found[1].tolist(), strict=True)) == wanted
    assert found[0].tolist() == sorted(found[0].tolist())
    assert found[2].tolist() == TABLE[found[0], found[1]].tolist()
