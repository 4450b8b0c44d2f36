"""The loop over an engine that is one number: what is kept, when it ends, and that a stop anywhere leaves no trace.

`test_distill.py` and the kill at the end of this file do the same over real models.
"""

import math
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.config import BalanceSettings
from isogloss.errors import IsoglossError
from isogloss.progress import Step, silent
from isogloss.training import checkpoints
from isogloss.training.batches import PairRows, Schedule
from isogloss.training.dev_set import MeasuredBy
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.trainer import AHEAD, Callback, Trainer, ahead
from killed import ended, started, train_for_real
from training.one_number import RATES, STEPS, Dial, Script, measured_at, plan, run, schedule, some_scores, value_after

# ── callbacks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Heard(Callback):
    """Writes down what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, object]] = []

    def on_step(self, step: int, values: dict[str, float]) -> None:
        self.calls.append(("step", step, values["loss"]))

    def on_eval(self, step: int, scores: dict[str, float]) -> None:
        self.calls.append(("eval", step, scores["dev_retrieval"]))

    def on_checkpoint(self, step: int, path: Path) -> None:
        assert path.is_file()
        self.calls.append(("checkpoint", step, path.name))


@pytest.mark.parametrize("reads_every", [1, 5])
def test_callbacks_hear_of_every_step_measurement_and_checkpoint(tmp_path: Path, reads_every: int) -> None:
    engine, dev, heard, other = (
        Dial(reads_every=reads_every),
        Script([0.1 * step for step in range(STEPS + 1)]),
        Heard(),
        Heard(),
    )
    measured = MeasuredBy(dev, engine.vectors)
    together = [heard, Callback(), other]
    Trainer(engine, schedule(), plan(), RATES, measured, tmp_path, Distributed(), silent, callbacks=together).run()
    of_kind = {kind: [call[1:] for call in heard.calls if call[0] == kind] for kind in ("step", "eval", "checkpoint")}
    assert of_kind["step"] == [(step, 1.0 / step) for step in range(1, STEPS + 1)]
    assert of_kind["eval"] == [(step, pytest.approx(0.1 * step)) for step in [0, *measured_at]]
    assert of_kind["checkpoint"][-1] == (STEPS, f"step-{STEPS:08d}.pt") and heard.calls == other.calls
    again = Heard()
    Trainer(Dial(), schedule(), plan(), RATES, measured, tmp_path, Distributed(), silent, callbacks=[again]).run()
    assert not again.calls, "nothing was left to do"
    for rank in (0, 1):
        lone = Trainer(Dial(), schedule(), plan(), RATES, None, None, Distributed(rank, 2), silent, callbacks=[again])
        assert len(lone.callbacks) == (rank == 0), "only the main process calls them"


# ── which weights are kept ──────────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=15)
@given(scores=some_scores, kept=st.booleans())
def test_the_best_weights_stay_not_the_last(tmp_path_factory: pytest.TempPathFactory, scores: list[float], kept: bool) -> None:
    engine, dev = Dial(), Script(scores)
    summary = run(engine, tmp_path_factory.mktemp("loop") if kept else None, dev)
    assert dev.asked == [0, *measured_at], "the untouched student is a candidate"
    best = max([0, *measured_at], key=lambda step: (scores[step], -step))
    assert (summary.best_step, summary.dev) == (best, {"dev_retrieval": scores[best], "dev_lead": scores[best]})
    assert float(engine.value) == pytest.approx(value_after(best))
    assert (summary.steps, summary.steps_now, summary.stopped_early) == (STEPS, STEPS, False)


def test_falling_scores_keep_the_student_as_it_came(tmp_path: Path) -> None:
    engine = Dial()
    assert run(engine, tmp_path, Script([1.0 - 0.01 * step for step in range(STEPS + 1)])).best_step == 0
    assert float(engine.value) == 0.0


def test_without_dev_pairs_the_last_weights_stay(tmp_path: Path) -> None:
    engine = Dial()
    summary = run(engine, tmp_path)
    assert float(engine.value) == pytest.approx(value_after(STEPS)) and summary.best_step == STEPS and not summary.dev


@settings(deadline=None, max_examples=40)
@given(scores=some_scores, patience=st.integers(1, 4))
def test_patience_ends_training(scores: list[float], patience: int) -> None:
    best, waited, end = scores[0], 0, STEPS
    for step in measured_at:
        best, waited = (scores[step], 0) if scores[step] > best else (best, waited + 1)
        if waited >= patience:
            end = step
            break
    engine = Dial()
    summary = run(engine, None, Script(scores), how=plan(patience=patience))
    assert engine.step_at == end and summary.steps_now == end
    assert summary.stopped_early == (end < STEPS)


# ── stopped and taken up again ──────────────────────────────────────────────────────────────────────────────────────────


@settings(deadline=None, max_examples=15)
@given(
    scores=some_scores,
    stops=st.lists(st.sampled_from([*measured_at, 1, 3, 13, 15]), max_size=2).map(sorted),
    patience=st.sampled_from([0, 0, 2, 3]),
    seconds=st.sampled_from([0.0, 0.0, 1e9]),
)
def test_stopped_anywhere_it_ends_as_if_it_had_not_been(
    tmp_path_factory: pytest.TempPathFactory, scores: list[float], stops: list[int], patience: int, seconds: float
) -> None:
    folder, how = tmp_path_factory.mktemp("loop"), plan(seconds, patience=patience)
    whole = Dial()
    expected = run(whole, folder / "whole", Script(scores), how=plan(patience=patience))
    for stop in stops:
        engine = Dial()

        def end(step: Step, engine: Dial = engine, stop: int = stop) -> None:
            if engine.step_at == stop:
                raise KeyboardInterrupt

        try:
            run(engine, folder / "cut", Script(scores), end, how)
        except KeyboardInterrupt:
            assert engine.step_at == stop
    continued = Dial()
    summary = run(continued, folder / "cut", Script(scores), how=how)
    assert float(continued.value) == float(whole.value)
    assert (summary.best_step, summary.dev, summary.stopped_early) == (expected.best_step, expected.dev, expected.stopped_early)
    assert summary.loss == expected.loss


def test_after_the_end_nothing_is_done_again(tmp_path: Path) -> None:
    scores = [0.5, *[0.0] * STEPS]
    scores[2], scores[4], scores[6] = 0.6, 0.7, 0.9
    for patience in (0, 2):
        first, again, folder = Dial(), Dial(), tmp_path / str(patience)
        run(first, folder, Script(scores), how=plan(patience=patience))
        dev, steps = Script(scores), list[Step]()
        summary = run(again, folder, dev, steps.append, how=plan(patience=patience))
        assert summary.steps_now == 0 and not dev.asked and [step.note for step in steps] == ["reused: training was finished"]
        assert float(again.value) == float(first.value) == pytest.approx(value_after(6))
        assert summary.best_step == 6 and summary.stopped_early == bool(patience)


def test_checkpoints_wait_for_the_clock_and_the_last_step_does_not(tmp_path: Path) -> None:
    seen: list[str] = []
    run(Dial(), tmp_path, None, lambda _: seen.extend(path.name for path in tmp_path.glob("step-*")), plan(seconds=1e9))
    assert seen == ["step-00000016.pt"]


# ── what it tells ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_metrics_carry_everything(tmp_path: Path) -> None:
    steps: list[Step] = []
    run(Dial(), tmp_path, Script([step / STEPS for step in range(STEPS + 1)]), steps.append)
    lines = {int(step.values["step"]): step.values for step in steps if step.values}
    assert lines.pop(0) == {"step": 0, "dev_retrieval": 0.0, "dev_lead": 0.0}, "the student before its first step"
    assert set(lines) == {*measured_at, 10}, "every ten steps, when dev pairs are measured, and at the end"
    for number, values in lines.items():
        assert values["loss"] == values["mse"] == pytest.approx(1 / number) and values["gradient_norm"] == 1.0
        assert values["learning_rate"] == pytest.approx(0.1 * number), "the rate of this step"
        assert values["useful_tokens"] == pytest.approx(0.75)
        assert values["tokens_per_second"] == pytest.approx(values["pairs_per_second"] * 30 / 4)
        assert values.get("dev_retrieval") == (number / STEPS if number in measured_at else None)
    assert [step.done for step in steps] == [0, 0, *range(4, 4 * STEPS + 1, 4)] and {step.total for step in steps} == {
        4 * STEPS
    }
    assert steps[-1].note.startswith("loss 0.0625") and "dev 100.0 % found" in steps[-1].note


def test_the_last_line_says_why_it_is_the_last_and_what_kept(tmp_path: Path) -> None:
    def last(scores: list[float], patience: int) -> Step:
        steps: list[Step] = []
        run(Dial(), tmp_path / f"{scores[2]}-{patience}", Script(scores), steps.append, how=plan(patience=patience))
        return steps[-1]

    early, whole = last([0.5, *[0.0] * STEPS], 2), last([0.5, 0.0, 0.6, *[0.0] * STEPS], 0)
    assert early.finished and early.note.endswith(f"; stopped early at step 4 of {STEPS}; best was before the first step")
    assert whole.finished and whole.note.endswith("; best was step 2") and "early" not in whole.note


def test_best_weights_that_are_gone_are_trained_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scores, engine = [0.5, *[0.0] * 5, 0.9, *[0.0] * STEPS], Dial()
    run(Dial(), tmp_path, Script(scores))
    next(tmp_path.glob("best-*")).unlink()
    summary = run(engine, tmp_path, Script(scores))
    assert "the best weights are gone" in caplog.text
    assert summary.steps_now == STEPS and float(engine.value) == pytest.approx(value_after(6))


def test_an_engine_that_is_read_rarely_is_still_read_whole(tmp_path: Path) -> None:
    steps: list[Step] = []
    engine = Dial(reads_every=5)
    run(engine, tmp_path, None, steps.append, plan(seconds=1e9, checks=1))
    assert [int(step.values["step"]) for step in steps if step.values] == [10, 16]
    assert not engine.told


# ── what stops it ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("reads_every", [1, 5])
def test_a_loss_that_is_no_number_stops_it_before_it_kept(tmp_path: Path, reads_every: int) -> None:
    engine = Dial(lambda step: math.nan if step == 12 else 1.0, reads_every)
    with pytest.raises(IsoglossError, match=r"nan at step 13.*; the checkpoint of step 12 is kept") as caught:
        run(engine, tmp_path)
    assert caught.value.hint
    kept = checkpoints.latest(tmp_path)
    assert kept is not None and kept["step"] == 12 and float(kept["engine"]["value"]) == pytest.approx(value_after(12))


def test_training_that_breaks_leaves_no_thread_to_the_garbage_collector(tmp_path: Path) -> None:
    before = threading.enumerate()
    with pytest.raises(IsoglossError) as caught:
        run(Dial(lambda step: math.nan if step == 3 else 1.0), tmp_path)
    assert caught.value.__traceback__ is not None, "its frames hold all that was open in them"
    assert not set(threading.enumerate()) - set(before)


def test_read_rarely_it_stops_later_and_still_keeps_nothing_broken(tmp_path: Path) -> None:
    engine = Dial(lambda step: math.nan if step == 12 else 1.0, reads_every=5)
    with pytest.raises(IsoglossError, match=r"nan at step 13.*; there is no checkpoint of it yet"):
        run(engine, tmp_path, how=plan(seconds=1e9, checks=1))
    assert engine.step_at == 15 and checkpoints.latest(tmp_path) is None


def test_an_explosion_stops_it_and_the_checkpoint_is_from_before(tmp_path: Path) -> None:
    pairs = PairRows(*(np.arange(60) for _ in range(2)), *(np.zeros(60, dtype=np.int64) for _ in range(2)))
    calm = 40
    engine = Dial(lambda step: 1.0 if step < calm or step == calm + 4 else 1000.0)  # one good step in between is no recovery
    rates = OptimizerConfig([0.1] * 60)
    loop = Trainer(engine, Schedule(pairs, BalanceSettings(), 3, 1, 1), plan(), rates, None, tmp_path, Distributed(), silent)
    with pytest.raises(IsoglossError, match=r"exploded: 1e.03 at step 55.*; the checkpoint of step 45 is kept") as caught:
        loop.run()
    assert "training.learning_rate" in caught.value.hint
    kept = checkpoints.latest(tmp_path)
    assert kept is not None and kept["step"] == calm + 5, "the last step whose loss was in order"


def test_continued_it_still_knows_how_the_losses_were(tmp_path: Path) -> None:
    """Stopped a step before the losses explode: what they were before is needed to see it."""
    pairs = PairRows(*(np.arange(60) for _ in range(2)), *(np.zeros(60, dtype=np.int64) for _ in range(2)))
    rates = OptimizerConfig([0.1] * 60)

    def loop(stop: int) -> Trainer:
        engine = Dial(lambda step: 1.0 if step < 40 else 1000.0)

        def end(_: Step) -> None:
            if engine.step_at == stop:
                raise KeyboardInterrupt

        return Trainer(engine, Schedule(pairs, BalanceSettings(), 3, 1, 1), plan(), rates, None, tmp_path, Distributed(), end)

    with pytest.raises(KeyboardInterrupt):
        loop(39).run()
    with pytest.raises(IsoglossError, match=r"exploded: 1e.03 at step 50.*; the checkpoint of step 40 is kept"):
        loop(-1).run()


@pytest.mark.parametrize("at", [5, STEPS])
def test_broken_weights_are_never_written(tmp_path: Path, at: int) -> None:
    engine = Dial()
    engine.breaks_at = at
    with pytest.raises(IsoglossError, match=f"step {at} made weights that are not finite; the checkpoint of step {at - 1}"):
        run(engine, tmp_path)
    kept = checkpoints.latest(tmp_path)
    assert kept is not None and kept["step"] == at - 1


def test_broken_last_weights_are_refused_without_a_folder_too() -> None:
    engine = Dial()
    engine.breaks_at = STEPS
    with pytest.raises(IsoglossError, match="not finite; there is no checkpoint"):
        run(engine)


# ── the thread that prepares ────────────────────────────────────────────────────────────────────────────────────────────


def test_batches_are_prepared_a_few_early_in_order_by_another_thread() -> None:
    made, threads = [], set()

    def prepare(item: int) -> int:
        made.append(item)
        threads.add(threading.get_ident())
        return 10 * item

    seen = []
    for place, one in enumerate(ahead(prepare, range(30))):
        seen.append(one)
        assert len(made) <= place + 1 + AHEAD, "not the whole training in memory"
    assert seen == [10 * item for item in range(30)] and threading.get_ident() not in threads


def test_an_error_while_preparing_is_heard() -> None:
    def prepare(item: int) -> int:
        if item == 3:
            raise ValueError("a broken batch")
        return item

    made = ahead(prepare, range(9))
    assert [next(made) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="a broken batch"):
        next(made)


# ── kill -9, over real models ───────────────────────────────────────────────────────────────────────────────────────────


def test_killed_on_the_way_it_continues_to_the_same_weights_and_the_same_best(models: Path, tmp_path: Path) -> None:
    moment = 17
    child = started(train_for_real, models, tmp_path / "cut", "distill", moment)
    assert ended(child) == -signal.SIGKILL, "it was not finished yet"
    whole, expected = train_for_real(models, tmp_path / "whole")
    continued, found = train_for_real(models, tmp_path / "cut")
    assert whole.steps - continued.steps_now == moment - 2, "it reports at the start, before the first step and after each"
    assert all(torch.equal(one, found[name]) for name, one in expected.items())
    assert (continued.best_step, continued.dev, continued.loss) == (whole.best_step, whole.dev, whole.loss)
    folders = [next((tmp_path / name).glob("checkpoints-*")) for name in ("whole", "cut")]
    best = [checkpoints.best(folder, whole.best_step) for folder in folders]
    assert best[0] is not None and best[1] is not None
    assert all(torch.equal(one, best[1][name]) for name, one in best[0].items())
