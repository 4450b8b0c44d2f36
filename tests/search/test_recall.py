"""What is missed: measured by the half that was not tuned by, and told where it is more than was allowed."""

import numpy as np
import pytest

from isogloss.search.approximate import Sample, SearchAccount, measure_recall, recall_of, target_recall
from isogloss.search.neighbors import Neighbors


def account(recall: float | None, wanted: float | None, sampled: int = 1000) -> SearchAccount:
    return SearchAccount(kind="cells", why="", recall_wanted=wanted, recall=recall, sampled=sampled)


def test_it_falls_short_by_more_than_chance_explains() -> None:
    assert account(0.90, 0.95).falls_short
    assert not account(0.94, 0.95).falls_short  # a standard error is 0.7 points
    assert not account(0.97, 0.95).falls_short
    assert account(0.94, 0.95, sampled=100_000).falls_short
    assert not account(None, None).falls_short  # nothing can be missed


def test_a_sample_aims_higher_than_what_is_wanted() -> None:
    assert target_recall(0.9, 900) == pytest.approx(0.91)
    assert target_recall(1.0, 10) == 1.0


def test_recall_is_that_of_the_second_halves() -> None:
    ids = np.array([[0, 1], [2, 3], [4, 5], [6, 7]])
    found = Neighbors(np.array([[9, 9], [9, 9], [4, 9], [7, 6]]), np.zeros((4, 2), dtype=np.float32))
    sample = Sample(np.arange(4), ids)
    assert recall_of(ids, found.ids) == 3 / 8
    assert measure_recall((sample, sample), (found, found)) == (0.75, 4)
