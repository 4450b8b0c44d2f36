"""Which weights are kept: a lucky step is not a better one, and what is lost beyond noise is not paid with nearness."""

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.checksums import seal
from isogloss.training.dev_set import DevScore, TeacherScores
from isogloss.training.selection import NOTHING_COUNTED, Selection, SelectionScore, choose, is_behind, standard_errors
from isogloss.types import FloatArray, IntArray
from training.one_number import PAIRS, STEPS, Dial, Script, measured_at, plan, run, value_after


def scored(right: list[int], value: float) -> SelectionScore:
    """Of a dev set of equally weighted queries, one for each source sentence."""
    return SelectionScore(np.array(right) / len(right), value)


def outcomes(wrong: int, count: int = 200) -> list[int]:
    return [0] * wrong + [1] * (count - wrong)


answers = st.lists(st.integers(0, 1), min_size=24, max_size=24)
measurements = st.lists(
    st.tuples(answers, st.integers(-5, 5)).map(lambda one: scored(one[0], float(one[1]))), min_size=1, max_size=8
)


def test_with_saturated_retrieval_a_lucky_early_step_does_not_win() -> None:
    """All of 200 dev sentences are found by the first step, one is missed by all later ones, which are ever nearer."""
    lucky = [
        scored(outcomes(2), -1.1),
        scored(outcomes(0), -1.0),
        *(scored(outcomes(1), -1.0 + 0.05 * n) for n in range(1, 10)),
    ]
    assert choose(lucky) == len(lucky) - 1


def test_what_is_found_decides_where_the_difference_is_clear() -> None:
    assert choose([scored(outcomes(60), -1.0), scored(outcomes(20), -1.5), scored(outcomes(60), -0.5)]) == 1
    assert choose([scored(outcomes(0), -1.0), scored(outcomes(30), -0.5)]) == 0, "the start is a candidate"


def test_small_losses_do_not_add_up() -> None:
    """Each step is within noise of the one before it, and nearer to the teacher; the last is far from the first."""
    falling = [scored(outcomes(step), -1.0 + 0.01 * step) for step in range(12)]
    assert not any(is_behind(after, before) for before, after in pairwise(falling))
    assert is_behind(falling[-1], falling[0]) and not is_behind(falling[choose(falling)], falling[0])


def test_the_first_of_equals_stays_and_what_is_no_number_is_never_better() -> None:
    same = scored(outcomes(3), 0.5)
    assert choose([same, same, same]) == 0
    assert choose([same, SelectionScore(same.found, math.nan), SelectionScore(same.found, -math.inf)]) == 0
    assert choose([SelectionScore(same.found, math.nan), same]) == 1
    untrained = SelectionScore(np.zeros(200), -math.inf)  # of `TranslationScore`: not learnt yet
    assert choose([untrained, untrained, same, untrained]) == 2 and choose([untrained, untrained]) == 0


def test_where_nothing_is_counted_the_value_decides_alone() -> None:
    assert choose([SelectionScore(NOTHING_COUNTED, value) for value in (0.3, 0.5, 0.4, 0.5)]) == 1


@settings(deadline=None)
@given(answers, answers)
def test_standard_errors_are_mcnemars(before: list[int], after: list[int]) -> None:
    lost = sum(old > new for old, new in zip(before, after, strict=True))
    gained = sum(old < new for old, new in zip(before, after, strict=True))
    z = (lost - gained) / math.sqrt(lost + gained) if lost + gained else 0.0
    assert standard_errors(scored(before, 0).found - scored(after, 0).found) == pytest.approx(z)
    assert is_behind(scored(after, 0), scored(before, 0)) == (z > 1 + 1e-9)


@settings(deadline=None)
@given(measurements)
def test_the_kept_one_is_never_more_than_a_standard_error_below_the_one_that_found_most(several: list[SelectionScore]) -> None:
    most = max(several, key=lambda one: one.found.sum())
    lost = most.found - several[choose(several)].found
    assert lost.sum() <= math.sqrt(np.square(lost).sum()) + 1e-9


@settings(deadline=None)
@given(measurements)
def test_within_noise_the_highest_value_is_kept(several: list[SelectionScore]) -> None:
    """By definition, over all measurements at once, where no two of them differ clearly."""
    if not any(is_behind(one, other) for one in several for other in several):
        assert choose(several) == max(range(len(several)), key=lambda place: (several[place].value, -place))


@settings(deadline=None)
@given(measurements)
def test_one_that_all_others_are_behind_is_kept(several: list[SelectionScore]) -> None:
    for place, one in enumerate(several):
        if len(several) > 1 and all(is_behind(other, one) for other in several if other is not one):
            assert choose(several) == place


missed = st.sets(st.integers(0, 9), min_size=3, max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(missed, st.integers(-9, 9)), min_size=1, max_size=12))
def test_of_a_saturated_noisy_series_the_nearest_is_kept(series: list[tuple[set[int], int]]) -> None:
    """Each measurement misses three to five of 200 sentences, and no two the same ones."""
    several = []
    for place, (wrong, value) in enumerate(series):
        right = [int(sentence // 10 != place or sentence % 10 not in wrong) for sentence in range(200)]
        several.append(scored(right, float(value)))
    assert choose(several) == max(range(len(several)), key=lambda place: (several[place].value, -place))


@settings(deadline=None)
@given(measurements, st.integers(0, 8), answers, st.integers(-5, 5))
def test_another_measurement_that_is_worse_in_both_changes_nothing(
    several: list[SelectionScore], place: int, right: list[int], value: int
) -> None:
    before, worse = choose(several), scored(right, float(value))
    if worse.found.sum() < several[before].found.sum() and worse.value < several[before].value:
        place = max(min(place, len(several)), before + 1)
        assert choose([*several[:place], worse, *several[place:]]) == before


@settings(deadline=None)
@given(measurements, st.integers(1, 9))
def test_the_kept_one_stays_if_it_is_nearer(several: list[SelectionScore], gain: int) -> None:
    kept = choose(several)
    nearer = SelectionScore(several[kept].found, several[kept].value + gain)
    assert choose([*several[:kept], nearer, *several[kept + 1 :]]) == kept


@settings(deadline=None)
@given(measurements)
def test_none_that_comes_later_beats_the_kept_one_in_everything(several: list[SelectionScore]) -> None:
    kept = several[choose(several)]
    for other in several[choose(several) + 1 :]:
        assert not (np.all(other.found >= kept.found) and other.value > kept.value)


@settings(deadline=None)
@given(measurements, st.integers(0, 8), st.integers(1, 3))
def test_it_goes_on_from_a_checkpoint(several: list[SelectionScore], cut: int, patience: int) -> None:
    def follow(selection: Selection, some: list[SelectionScore]) -> list[tuple[bool, bool]]:
        told = []
        for one in some:
            preferred = selection.prefers(one)
            selection.take(one, preferred)
            told.append((preferred, selection.should_stop))
        return told

    whole, before, after = (Selection(patience) for _ in range(3))
    expected = follow(whole, several)
    follow(before, several[:cut])
    after.load_state_dict(before.state_dict())
    assert follow(after, several[cut:]) == expected[cut:]
    gains = [place for place, (preferred, _) in enumerate(expected) if preferred]
    assert whole.should_stop == (len(several) - 1 - gains[-1] >= patience), "since the last gain"


def test_its_state_is_what_a_checkpoint_may_hold(tmp_path: Path) -> None:
    selection = Selection()
    selection.take(scored(outcomes(3), 0.5), True)
    torch.save(selection.state_dict(), tmp_path / "state.pt")
    again = Selection()
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert again.kept is not None and again.kept.value == 0.5 and again.kept.found.sum() == pytest.approx(197 / 200)
    assert not Selection(0).should_stop and not again.should_stop


class Saturated(Script):
    """Dev pairs of which all are found, but for one that only the first measurement on the way finds; nearer step by step."""

    def score(self, vectors_of: Callable[[IntArray], FloatArray]) -> DevScore:
        super().score(vectors_of)
        step = self.asked[-1]
        found = np.full(len(PAIRS), 1 / len(PAIRS))
        found[0] *= step == measured_at[0]
        index = np.where(np.arange(len(PAIRS)) % 2, 1 / len(PAIRS), 0.0)
        return DevScore(found.sum(), found, TeacherScores(index.sum(), 1.0 - 0.01 * step, 0.5 + 0.01 * step, index))


@pytest.mark.parametrize("select", ["both", "retrieval", "mse"])
def test_the_loop_keeps_the_weights_that_are_nearest_where_all_is_found(
    select: Literal["both", "retrieval", "mse"], tmp_path: Path
) -> None:
    engine = Dial()
    summary = run(engine, tmp_path, Saturated([0.0] * (STEPS + 1)), how=plan().replace(select=select))
    assert summary.best_step == STEPS and float(engine.value) == pytest.approx(value_after(STEPS)) and not summary.setback
    assert summary.dev["dev_mse"] == pytest.approx(1.0 - 0.01 * STEPS)


def test_a_checkpoint_of_an_earlier_version_is_not_gone_on_from(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scores = [step / STEPS for step in range(STEPS + 1)]
    run(Dial(), tmp_path, Script(scores))
    (path,) = tmp_path.glob("step-*.pt")
    state = torch.load(path, weights_only=True)
    del state["loop"]["selection"]
    torch.save(state, path)
    seal(path)
    engine = Dial()
    assert run(engine, tmp_path, Script(scores)).steps_now == STEPS and float(engine.value) == pytest.approx(value_after(STEPS))
    assert "the checkpoint is of an earlier version of isogloss, so training starts again" in caplog.text


def test_one_standard_error_is_noise_and_more_is_not() -> None:
    all_found = scored(outcomes(0), 0.0)
    assert not is_behind(scored(outcomes(1), 0.0), all_found), "a single sentence, however it is rounded"
    assert is_behind(scored(outcomes(2), 0.0), all_found)
    none, four = SelectionScore(np.zeros(4), 0.0), SelectionScore(np.ones(4), 0.0)  # a sum of 4, a spread of 2
    assert standard_errors(four.found - none.found) == 2.0


def test_without_patience_nothing_stops_and_with_it_not_before_the_first_measurement() -> None:
    endless, patient = Selection(), Selection(1)
    assert not patient.should_stop
    for _ in range(9):
        endless.take(SelectionScore(np.zeros(1), 0.0), False)
    assert not endless.should_stop


def test_of_two_that_found_as_much_the_first_is_what_others_are_compared_with() -> None:
    selection = Selection()
    for found in ([1.0, 0.0], [0.0, 1.0]):
        selection.take(SelectionScore(np.array(found), 0.0), True)
    assert selection.state_dict()["most"]["found"].tolist() == [1.0, 0.0]
