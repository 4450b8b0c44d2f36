"""Cells against loops: who looks where, what slack finds, and that nothing which is compared is lost."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.search import cells
from isogloss.search.approximate import Sample
from isogloss.search.cells import CellSearch, Locations, _needed, distances, learn_centers, locate, probed_share, slack_for
from isogloss.search.sides import prepare_sides
from isogloss.types import BoolArray, FloatArray, IntArray
from mining.oracles import cosine_table, nearest_by_definition, two_sides
from search.clustered import topical

DTYPES = [torch.float32, torch.bfloat16]


@st.composite
def somewhere(draw: st.DrawFn, rows: int, count: int) -> Locations:
    """Any cells, and any looks, as long as everybody looks into his own."""
    own = np.array(draw(st.lists(st.integers(0, count - 1), min_size=rows, max_size=rows)), dtype=np.int64)
    looks = [sorted({int(one), *draw(st.sets(st.integers(0, count - 1)))}) for one in own]
    ends = np.cumsum([0, *map(len, looks)])
    return Locations(own, np.array([cell for some in looks for cell in some], dtype=np.int16), ends)


def compared(left: Locations, right: Locations) -> BoolArray:
    """Whether a pair meets, by definition."""
    met = np.zeros((len(left.own), len(right.own)), dtype=np.bool_)
    for i in range(len(left.own)):
        for j in range(len(right.own)):
            mine = left.probes[left.ends[i] : left.ends[i + 1]].tolist()
            theirs = right.probes[right.ends[j] : right.ends[j + 1]].tolist()
            met[i, j] = right.own[j] in mine or left.own[i] in theirs
    return met


@settings(max_examples=50, deadline=None)
@given(two_sides(20), st.data(), st.integers(1, 5), st.sampled_from(DTYPES), st.integers(1, 30), st.sampled_from([5, 100]))
def test_the_nearest_of_all_that_are_compared_are_found(
    sides: tuple[FloatArray, FloatArray], data: st.DataObject, k: int, dtype: torch.dtype, area: int, stripe: int
) -> None:
    where = tuple(data.draw(somewhere(len(side), 3)) for side in sides)
    table = np.where(compared(*where), cosine_table(*sides), -np.inf).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch, prepare_sides(*sides, "cpu", dtype, True, 2**20) as both:
        patch.setattr(cells, "STRIPE", stripe)
        search = CellSearch(both, k, (where[0], where[1]), 3, area, 0)
        shares: list[float] = []
        assert all(search.stripe(number, shares.append) for number in reversed(range(search.stripes)))
        found = search.found()
    assert shares[-1] == 1 and search.sentences == len(sides[0]) + len(sides[1])
    for side, own in zip(found, (table, table.T), strict=True):
        ids, similarity = side.ids, side.similarity
        wanted_ids, wanted = nearest_by_definition(own, k)
        assert similarity.tolist() == wanted
        reached = np.array(wanted) > -np.inf
        assert np.array_equal(ids[reached], np.array(wanted_ids)[reached])
        assert (ids[~reached] == -1).all()


def _level(row: FloatArray) -> float:
    """Half the greatest score, half the mean of what the groups of cells (every 32nd is of the same) have for greatest."""
    groups = min(32, len(row))
    whole = row[: len(row) // groups * groups]
    return float(row.max() / 2 + np.mean([whole[first::groups].max() for first in range(groups)]) / 2)


def _by_definition(side: FloatArray, centers: FloatArray, slack: float) -> tuple[list[int], list[list[int]]]:
    """Own cells, and cells that are probed."""
    scores = np.maximum(side @ centers.T, 0)
    own = [max(range(len(centers)), key=lambda cell: (row[cell], -cell)) for row in scores]
    least = [min(max(_level(row) - slack, 0), row.max()) for row in scores]
    looks = [[cell for cell in range(len(centers)) if row[cell] >= one] for row, one in zip(scores, least, strict=True)]
    return own, looks


@pytest.mark.parametrize(("threads", "count"), [(1, 20), (2, 75)])
@pytest.mark.parametrize("slack", [-1.0, 0.0, 0.15, 0.4, 5.0])
def test_everybody_looks_into_cells_nearly_as_good_as_the_own(slack: float, threads: int, count: int) -> None:
    left, right = topical(300, seed=1)
    with prepare_sides(left, right, "cpu", torch.float32, True, 2**20) as both:
        centers = learn_centers(both.left, both.right, count, threads)
        assert centers.shape == (count, both.left.coarse.shape[1]) and not centers[:, 32:].any()
        assert np.allclose(np.linalg.norm(centers, axis=1), 1, atol=1e-5)
        where = locate(both.left, centers, slack, threads)
        rows = both.left.coarse[:300].numpy()
        few = probed_share(both.left.coarse[:300], centers, slack)
    own, looks = _by_definition(rows, centers.numpy(), slack)
    assert where.own.tolist() == own
    some: IntArray = np.array([5, 299, 0, 7])
    keys, place = where.probed_by(some, count)
    turn, cell = np.divmod(keys, count)
    assert [cell[place == one].tolist() for one in range(4)] == [looks[row] for row in some]
    turns = [[int(one != own[row]) for one in looks[row]] for row in some]
    assert [turn[place == one].tolist() for one in range(4)] == turns
    sizes = np.bincount(own, minlength=count)
    assert few[0] == pytest.approx(np.mean([sum(sizes[one] for one in row) for row in looks]) / 300, rel=1e-5)
    assert few[1] == pytest.approx(np.mean([len(row) for row in looks]), rel=1e-5)
    assert where.bytes >= 2 * sum(map(len, looks)) + 16 * 300


def test_coarse_numbers_locate_like_fine_ones() -> None:
    left, right = topical(400, seed=2)
    places = []
    for dtype in DTYPES:
        with prepare_sides(left, right, "cpu", dtype, True, 2**20) as both:
            places.append(locate(both.left, learn_centers(both.left, both.right, 30, 1), 0.1, 1))
    assert abs(len(places[0].probes) - len(places[1].probes)) < 0.2 * len(places[0].probes)
    # k-means may part ways over a rounding; what lies together should still mostly lie together
    together = [one.own[:, None] == one.own for one in places]
    assert (together[0] & together[1]).sum() > 0.7 * together[0].sum()


def test_learnt_cells_hold_topics_together() -> None:
    left, right = topical(600, topics=12, seed=3)
    with prepare_sides(left, right, "cpu", torch.float32, True, 2**20) as both:
        centers = learn_centers(both.left, both.right, 40, 1)
        own = [locate(side, centers, 0.0, 1).own for side in (both.left, both.right)]
    assert (own[0][:300] == own[1][:300]).mean() > 0.6  # of 40 cells the same, though the sides lie apart
    assert len(set(own[0].tolist())) > 12


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=50), st.floats(0.01, 1))
def test_slack_is_the_least_that_finds_the_share(needed: list[float], share: float) -> None:
    slack = slack_for(share, torch.tensor(needed))
    assert sum(one <= slack for one in needed) >= share * len(needed) - 1e-9
    below = [one for one in needed if one < slack]
    assert len(below) < share * len(needed) + 1e-9


def test_learning_moves_centres_to_where_sentences_are(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = topical(800, topics=30, seed=5)

    def nearness() -> float:
        centers = learn_centers(both.left, both.right, 30, 1)
        return float((both.left.coarse[:800] @ centers.T).amax(1).mean())

    with prepare_sides(left, right, "cpu", torch.float32, True, 2**20) as both:
        learnt = nearness()
        monkeypatch.setattr("isogloss.search.cells.PER_CELL", ((80, 0),))
        assert learnt > 1.1 * nearness()


def test_a_known_pair_needs_the_lesser_of_two_slacks() -> None:
    left, right = topical(200, seed=6)
    rows = np.arange(200).reshape(2, 100).T.ravel()  # every other one has a translation
    sample = Sample(rows, rows[:, None].repeat(2, axis=1))
    with prepare_sides(left, right, "cpu", torch.float32, True, 2**20) as both:
        centers = learn_centers(both.left, both.right, 40, 1)
        needed = _needed(both.left, both.right, sample, centers)
        assert len(needed) == 2 * sample.half
        scores = [np.maximum(side.coarse[:200].numpy() @ centers.numpy().T, 0) for side in (both.left, both.right)]
    ways = []
    for one, other in zip(*sample.pairs, strict=True):
        mine, theirs = scores[0][one], scores[1][other]
        together = mine.argmax() == theirs.argmax()  # who lies in the same cell meets whatever the slack
        looking = _level(mine) - mine[theirs.argmax()], _level(theirs) - theirs[mine.argmax()]
        ways.append((-1.0, -1.0) if together else looking)
    assert needed.tolist() == pytest.approx([min(both_ways) for both_ways in ways], abs=1e-6)
    assert {one < other for one, other in ways} == {True, False}


def test_a_pair_meets_from_the_slack_on_that_it_needs() -> None:
    left, right = topical(200, seed=4)
    with prepare_sides(left, right, "cpu", torch.float32, True, 2**20) as both:
        centers = learn_centers(both.left, both.right, 15, 1)
        rows, others = both.left.coarse[:50], both.right.coarse[50:100]
        needed = torch.minimum(distances(rows, others, centers), distances(others, rows, centers))
        for slack in (0.05, 0.2):
            where = [locate(side, centers, slack, 1) for side in (both.left, both.right)]
            met = compared(*where)[np.arange(50), np.arange(50, 100)]
            clear = (needed - slack).abs() > 1e-5
            assert np.array_equal(met[clear.numpy()], (needed <= slack).numpy()[clear.numpy()])
            assert 0 < met.sum() < 50
    assert slack_for(0.5, torch.empty(0)) == 0
