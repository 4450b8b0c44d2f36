"""The frontier by its definition, and that a larger budget never gives a worse model."""

from hypothesis import given
from hypothesis import strategies as st

from isogloss.exporting.budget.frontier import Candidate, Scores, Tried, best_within, frontier


def tried(size: int, speed: float, score: float, number: int = 0) -> Tried:
    scores = Scores(None, score)
    return Tried(Candidate("off", 2, 16, "fp32", number), size, size, speed, scores, scores, 1.0)


def as_tried(numbers: list[tuple[int, int, int]]) -> list[Tried]:
    return [tried(size, speed, score / 10, place) for place, (size, speed, score) in enumerate(numbers)]


small = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 6)), min_size=1, max_size=12).map(as_tried)


def beats(one: Tried, other: Tried) -> bool:
    """At least as small, as fast and as good, and better in one of the three."""
    assert one.chosen_by and other.chosen_by and one.sentences_per_second and other.sentences_per_second
    pairs = [
        (other.bytes, one.bytes),
        (one.sentences_per_second, other.sentences_per_second),
        (one.chosen_by.mean, other.chosen_by.mean),
    ]
    return all(mine >= theirs for mine, theirs in pairs) and any(mine > theirs for mine, theirs in pairs)


@given(small)
def test_frontier_is_what_no_other_beats(candidates: list[Tried]) -> None:
    found = frontier(candidates)
    unbeaten = [one for one in candidates if not any(beats(other, one) for other in candidates)]
    assert {one.gains() for one in found} == {one.gains() for one in unbeaten}
    assert len({one.gains() for one in found}) == len(found)  # of equals one
    assert [one.bytes for one in found] == sorted(one.bytes for one in found)


@given(small, st.integers(1, 6), st.integers(0, 3))
def test_larger_budget_is_never_worse(candidates: list[Tried], budget: int, more: int) -> None:
    best, better = best_within(candidates, budget), best_within(candidates, budget + more)
    fitting = [one for one in candidates if one.bytes <= budget]
    assert (best is None) == (not fitting)
    if best is not None:
        assert better is not None
        assert better.gains()[2] >= best.gains()[2] == max(one.gains()[2] for one in fitting)
        assert best.bytes == min(one.bytes for one in fitting if one.gains()[2] == best.gains()[2])


def test_unmeasured_candidates_are_neither_on_the_frontier_nor_chosen() -> None:
    unmeasured = Tried(Candidate("corpus", 1, 16, "int8", 5), 1)
    known = tried(10, 5, 0.5)
    assert frontier([unmeasured, known]) == [known] and best_within([unmeasured, known], 100) is known
    assert best_within([unmeasured], 100) is None
    assert unmeasured.as_dict()["sentences_per_second"] is None and known.as_dict()["megabytes"] == 0.0


def test_score_is_the_mean_of_index_and_retrieval() -> None:
    assert Scores(0.5, 1.0).mean == 0.75 and Scores(None, 0.4).mean == 0.4
