"""The margin of neighbors against the formula of the paper."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.evaluation.metrics import unit
from isogloss.mining.margin import best_by_margin
from isogloss.search.neighbors import both_ways, nearest
from isogloss.types import FloatArray


def margin_by_definition(x: FloatArray, y: FloatArray, i: int, j: int, k: int) -> float:
    near_x = sorted((float(x[i] @ other) for other in y), reverse=True)[:k]
    near_y = sorted((float(y[j] @ other) for other in x), reverse=True)[:k]
    return float(x[i] @ y[j]) / ((sum(near_x) / len(near_x) + sum(near_y) / len(near_y)) / 2)


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12), st.integers(1, 5))
@settings(deadline=None)
def test_the_best_by_margin_has_the_highest_margin_by_the_formula(seed: int, lefts: int, rights: int, k: int) -> None:
    generator = np.random.default_rng(seed)
    x, y = (unit(generator.uniform(0.1, 1, (rows, 4)).astype(np.float32)) for rows in (lefts, rights))
    for i, found in enumerate(best_by_margin(*both_ways(x, y, k))[0]):
        candidates = sorted(range(rights), key=lambda j: -float(x[i] @ y[j]))[:k]
        margins = {j: margin_by_definition(x, y, i, j, k) for j in candidates}
        assert margins[int(found)] == pytest.approx(max(margins.values()), rel=1e-5)


def test_the_margin_sees_through_a_sentence_that_is_near_to_everything() -> None:
    # Row 2 of the targets is near to everything: by cosine all three sources find it, by margin none but its own.
    sources = np.array([[1, 0.3, 0.2], [0.3, 1, 0.2], [0.6, 0.6, 1]], dtype=np.float32)
    targets = np.array([[1, -0.6, 0.1], [-0.6, 1, 0.1], [1, 1, 0.6]], dtype=np.float32)
    assert nearest(sources, targets).tolist() == [2, 2, 2]
    assert best_by_margin(*both_ways(sources, targets, 3))[0].tolist() == [0, 1, 2]
    assert best_by_margin(*both_ways(sources, targets[[1, 0, 2]], 3))[0].tolist() == [1, 0, 2]
