"""Draws against the plain thing: rows drawn one by one, measured by scipy."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from isogloss.errors import IsoglossError
from isogloss.evaluation import bootstrap
from isogloss.evaluation.bootstrap import (
    Correlation,
    Draws,
    Metric,
    Sample,
    average,
    difference,
    f1,
    fixed,
    interval,
    joined,
    ratio,
    share,
)
from isogloss.evaluation.metrics import Doubles

DRAWS = 110  # more than are drawn at once


def draw(samples: Sequence[Sample | Metric], seed: int = 0, resamples: int = bootstrap.RESAMPLES) -> Doubles:
    return Draws(seed, resamples).of([one if isinstance(one, Sample) else Sample.of(one) for one in samples])


def rows_drawn(unit: str, rows: int, seed: int = 3) -> list[list[int]]:
    """Which rows each draw has, written out."""
    counts = np.concatenate(list(Draws(seed, DRAWS).counts(unit, rows)))
    assert (counts.sum(axis=1) == rows).all()
    return [np.repeat(np.arange(rows), line.astype(int)).tolist() for line in counts]


def correlation(rows: int, seed: int, unit: str = "u") -> Correlation:
    generator = np.random.default_rng(seed)
    return Correlation(generator.integers(0, 9, rows).astype(float), generator.integers(0, 6, rows) / 2, ((unit, rows),))


def by_scipy(scores: Doubles, gold: Doubles) -> float:
    if np.ptp(scores) == 0 or np.ptp(gold) == 0:
        return 0.0
    return float(stats.spearmanr(scores, gold).statistic)


@given(st.integers(2, 30), st.integers(0, 999))
@settings(deadline=None, max_examples=8)
def test_correlations_of_draws_are_scipys_on_drawn_rows(rows: int, seed: int) -> None:
    one, other = correlation(rows, seed), correlation(rows, seed + 1)
    other = Correlation(other.scores, one.gold, one.units)
    drawn = draw([one, other], 3, DRAWS)
    for place, taken in enumerate(rows_drawn("u", rows)):
        for line, sample in zip(drawn, (one, other), strict=True):
            assert line[place] == pytest.approx(by_scipy(sample.scores[taken], sample.gold[taken]), abs=2e-4)
    assert one.value() == pytest.approx(by_scipy(one.scores, one.gold))


def test_sums_of_draws() -> None:
    hits = np.random.default_rng(0).random(40) < 0.7
    right, found, wanted = (np.random.default_rng(seed).integers(0, 3, 40) for seed in (1, 2, 3))
    accuracies, scores = draw([share(hits, "u")], 3, DRAWS)[0], draw([f1(right, found, wanted, "u")], 3, DRAWS)[0]
    for place, taken in enumerate(rows_drawn("u", 40)):
        assert accuracies[place] == pytest.approx(hits[taken].mean())
        assert scores[place] == pytest.approx(2 * right[taken].sum() / (found[taken].sum() + wanted[taken].sum()))
    assert share(hits, "u").value() == pytest.approx(hits.mean())
    assert f1(right, found, wanted, "u").value() == pytest.approx(2 * right.sum() / (found.sum() + wanted.sum()))


def test_joined_sets_are_drawn_set_by_set_and_paired_with_their_average() -> None:
    parts = (correlation(20, 1, "a"), correlation(30, 2, "b"))
    together, mean = Sample.of(joined(parts)), average([Sample.of(part) for part in parts])
    drawn, gap = draw([together], 3, DRAWS)[0], draw([difference(together, mean)], 3, DRAWS)[0]
    for place, (first, second) in enumerate(zip(rows_drawn("a", 20), rows_drawn("b", 30), strict=True)):
        scores = np.concatenate([parts[0].scores[first], parts[1].scores[second]])
        gold = np.concatenate([parts[0].gold[first], parts[1].gold[second]])
        wanted = by_scipy(scores, gold)
        apart = [by_scipy(part.scores[taken], part.gold[taken]) for part, taken in zip(parts, (first, second), strict=True)]
        assert drawn[place] == pytest.approx(wanted, abs=2e-4)
        assert gap[place] == pytest.approx(wanted - np.mean(apart), abs=4e-4)
    assert difference(together, mean).value() == pytest.approx(together.value() - mean.value())
    assert len(difference(together, mean)) == len(together) == len(mean) == 50


def test_one_set_joined_is_that_set() -> None:
    alone = correlation(20, 4)
    assert joined([alone]).value() == alone.value()
    assert np.array_equal(draw([joined([alone])], 3, DRAWS), draw([alone], 3, DRAWS))


def test_many_rows_do_not_overflow() -> None:
    values = np.arange(20_000.0)
    assert draw([Correlation(values, values, (("u", 20_000),))], 3, 4) == pytest.approx(1.0)


def test_the_seed_is_0_unless_given() -> None:
    one = share(np.arange(50) % 3 == 0, "u")
    assert np.array_equal(draw([one]), draw([one], 0, bootstrap.RESAMPLES))
    assert np.array_equal(bootstrap.Draws().of([one]), draw([one], 0, bootstrap.RESAMPLES))


def test_draws_depend_on_seed_and_unit_and_not_on_who_is_compared() -> None:
    one, other = (share(np.arange(50) % n == 0, "u") for n in (2, 3))
    assert np.array_equal(draw([one, other], 1, 200)[1], draw([other], 1, 200)[0])
    assert not np.array_equal(draw([one], 1, 200), draw([one], 2, 200))
    assert not np.array_equal(draw([one], 1, 200), draw([share(np.arange(50) % 2 == 0, "v")], 1, 200))
    assert np.array_equal(draw([one], 1, 350)[0][:200], draw([one], 1, 200)[0]), "more draws go on where fewer ended"


def test_the_interval_is_that_of_the_textbook() -> None:
    low, high = interval(draw([share(np.arange(400) < 300, "u")])[0])
    spread = 1.96 * np.sqrt(0.75 * 0.25 / 400)
    assert low == pytest.approx(0.75 - spread, abs=0.006) and high == pytest.approx(0.75 + spread, abs=0.006)


def test_what_cannot_be_drawn() -> None:
    number, known = fixed(0.5, "x"), Sample.of(correlation(5, 1))
    assert number.value() == 0.5
    assert not average([number, known]).can_be_resampled and average([known]).can_be_resampled
    with pytest.raises(IsoglossError, match="different test sets"):
        draw([correlation(5, 1), correlation(6, 1)])


def test_the_rows_of_a_draw_depend_on_unit_and_seed_as_they_always_did() -> None:
    """A hundred draws at a time from a generator that the unit names, so that published intervals can be made again."""
    named = int.from_bytes(hashlib.blake2b(b"u", digest_size=8).digest(), "little")
    generator = np.random.default_rng([3, named])
    rows = np.concatenate([generator.integers(0, 7, (draws, 7), dtype=np.int32) for draws in (100, DRAWS - 100)])
    assert rows_drawn("u", 7) == np.sort(rows, axis=1).tolist()


def test_what_is_said_of_a_sample_if_nothing_else_is() -> None:
    scores, gold = np.array([1.0, 2.0, 30.0]), np.array([1.0, 3.0, 2.0])
    assert Correlation(scores, gold, (("u", 3),)).value() == pytest.approx(0.5), "ranks"
    assert len(fixed(0.5, "u")) == 0 and bootstrap.Draws().resamples == 10_000


def test_a_ratio_is_of_the_means_of_the_same_drawn_rows() -> None:
    generator = np.random.default_rng(5)
    values, reference = generator.random(7), generator.integers(0, 2, 7).astype(float)
    sample = ratio(values, reference, "u")
    assert sample.value() == pytest.approx(values.mean() / reference.mean())
    wanted = [values[taken].sum() / reference[taken].sum() if reference[taken].any() else 0 for taken in rows_drawn("u", 7)]
    assert draw([sample], 3, DRAWS)[0].tolist() == pytest.approx(wanted)
