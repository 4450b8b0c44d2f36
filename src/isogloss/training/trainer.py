"""The training loop of every task: steps in order, losses, dev scores, checkpoints, callbacks, and an end.

It knows no model: an engine takes the steps, a schedule says which examples are in each, an evaluator says how good the model
is. Killed at any moment, training resumes from the last checkpoint and ends with the weights of a run that was never stopped.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from isogloss.config import TrainingSettings
from isogloss.errors import IsoglossError
from isogloss.progress import OnProgress, Step
from isogloss.training import checkpoints
from isogloss.training.batches import Schedule
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import Engine, OptimizerConfig, TokenCount
from isogloss.training.health import LossWatch, no_gain, setback
from isogloss.training.selection import Selection, SelectionScore
from isogloss.training.tasks.schedule import TaskSchedule

logger = logging.getLogger(__name__)

LOG_EVERY_STEPS = 10
AHEAD = 4  # batches prepared before they are needed

Item = TypeVar("Item")
Made = TypeVar("Made")


class Callback:
    """What users can listen to, in the main process: subclass it and write the methods you need."""

    def on_step(self, step: int, values: dict[str, float]) -> None:
        """The losses of a step, in order; steps are read in groups, so this may be some steps late."""

    def on_eval(self, step: int, scores: dict[str, float]) -> None:
        """The dev scores after a step; step 0 is before the first."""

    def on_checkpoint(self, step: int, path: Path) -> None:
        """A checkpoint was written."""


class Score(Protocol):
    """How good the model is on a dev set."""

    def selection_score(self, select: str) -> SelectionScore:
        """What checkpoints are compared by, with `training.select`."""

    def values(self) -> dict[str, float]:
        """For the metrics."""

    def note(self) -> str:
        """For the screen."""


class Evaluator(Protocol):
    """A dev set that scores the model as it is now, such as `dev_set.MeasuredBy`."""

    def __len__(self) -> int: ...

    def score(self) -> Score:
        """Score the model."""


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What training did. `steps_now` is fewer than `steps` after an interruption; `best_step` is the one that was kept.

    `dev_before` are the dev scores before the first step; `setback` says which of them clearly fell.
    """

    steps: int
    steps_now: int
    loss: float
    pairs_per_second: float
    best_step: int
    dev: dict[str, float] = field(default_factory=dict)
    stopped_early: bool = False
    dev_before: dict[str, float] = field(default_factory=dict)
    setback: str = ""


class Trainer:
    """One training, from its first step or its last checkpoint to its end.

    `has_teacher` says whether the student could be kept near a teacher: advice after a setback depends on it.
    """

    def __init__(
        self,
        engine: Engine,
        schedule: Schedule | TaskSchedule,
        settings: TrainingSettings,
        optimizer: OptimizerConfig,
        dev: Evaluator | None,
        folder: Path | None,
        distributed: Distributed,
        on_progress: OnProgress,
        stage: str = "train",
        callbacks: Sequence[Callback] = (),
        has_teacher: bool = False,
    ) -> None:
        self.engine, self.schedule, self.settings, self.rates = engine, schedule, settings, optimizer.rates
        self.dev, self.folder, self.distributed, self.on_progress = dev, folder, distributed, on_progress
        self.stage, self.has_teacher = stage, has_teacher
        self.callbacks = callbacks if distributed.is_main_process else ()
        self.watch, self.selection = LossWatch(optimizer.warmup_steps), Selection(settings.patience)
        self.best_step, self.best_weights = 0, None  # type: int, dict[str, Any] | None
        self.dev_score: Score | None = None
        self.best_dev: dict[str, float] = {}
        self.dev_before: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.kept_step, self.kept_best = 0, None  # type: int, int | None
        checks = settings.dev_checks if dev is not None else 0
        self.dev_steps = {round(schedule.steps * number / checks) for number in range(1, checks + 1)} - {0}
        self.started = self.saved_at = time.monotonic()
        self.pairs, self.tokens = 0, TokenCount(0, 0)  # since `started`

    def run(self) -> TrainingSummary:
        """Train to the end; the engine holds the best weights then."""
        total = self.schedule.steps
        first, ended = self._resume()
        pairs_before = self.schedule.pairs_before(first)
        note = "reused: training was finished" if ended else f"continued at step {first} of {total}" if first else ""
        self._show(first, pairs_before, note, {}, over=ended)
        self.started = time.monotonic()
        if self.dev is not None and not first:
            self.dev_before = self._evaluate(0)
            self._show(0, 0, "", {"step": 0.0, **self.dev_before})
        step = first
        with closing(ahead(self._prepared, range(first, first if ended else total))) as batches:
            for step, (pairs, batch) in enumerate(batches, first + 1):
                self.tokens += self.engine.step(batch)
                self.pairs += pairs
                last, evaluates = step == total, step in self.dev_steps
                due = self._checkpoint_due(last)
                if not (last or due or evaluates or step % self.engine.reads_every == 0):
                    continue
                self._read_losses(step)
                if due or last or evaluates:
                    self._refuse_broken_weights(step)
                scores = self._evaluate(step) if evaluates else {}
                ended = evaluates and self.selection.should_stop
                if (due and not self.watch.suspicious) or ended or last:
                    self._save(step, ended)
                logged = last or evaluates or step % max(LOG_EVERY_STEPS, self.engine.reads_every) == 0
                values = self._metrics(step, scores) if logged else {}
                self._show(step, pairs_before + self.pairs, self._note(step, ended or last), values, over=ended)
                if ended:
                    break
        self._finish(step)
        speed = self.pairs / max(time.monotonic() - self.started, 1e-9)
        loss = self.last.get("loss", float("nan"))
        best, early = self.best_step if self.dev else step, ended and step < total
        return TrainingSummary(total, step - first, loss, speed, best, self.best_dev, early, self.dev_before, self._setback())

    def _prepared(self, step: int) -> tuple[int, Any]:
        examples = self.schedule.examples(step)
        return len(examples), self.engine.prepare(examples)

    # ── between steps ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _read_losses(self, step: int) -> None:
        """Check the losses of the steps since the last call; a broken one ends training before anything is saved."""
        losses = self.engine.losses()
        for place, values in enumerate(losses, step - len(losses)):  # counted from 0
            named = {name: value for name, value in values.items() if name != "gradient_norm"}
            diagnosis = self.watch.check(place, named, values.get("gradient_norm"))
            if diagnosis is not None:
                raise IsoglossError(f"{diagnosis.sentence}; {self._last_checkpoint()}", hint=diagnosis.hint)
            self.last = values
            for callback in self.callbacks:
                callback.on_step(place + 1, values)

    def _refuse_broken_weights(self, step: int) -> None:
        """Check the weights before they are evaluated or saved: a step's loss is computed before its weights are."""
        if not self.engine.is_finite():
            raise IsoglossError(
                f"step {step} made weights that are not finite; {self._last_checkpoint()}",
                hint="lower training.learning_rate, or raise training.warmup",
            )

    def _last_checkpoint(self) -> str:
        return f"the checkpoint of step {self.kept_step} is kept" if self.kept_step else "there is no checkpoint of it yet"

    def _evaluate(self, step: int) -> dict[str, float]:
        """Score the dev set, and keep the weights if they are better than those that are kept."""
        assert self.dev is not None
        self.engine.synchronize()  # the evaluator may use the student itself
        self.dev_score = self.dev.score()
        scores, compared = self.dev_score.values(), self.dev_score.selection_score(self.settings.select)
        preferred = bool(self.distributed.agree(float(self.selection.prefers(compared))))
        self.selection.take(compared, preferred)
        if preferred:
            self.best_step, self.best_dev = step, scores
            weights = self.engine.weights()
            if self.folder is None:
                self.best_weights = weights
            elif self.distributed.is_main_process:
                checkpoints.save_best(self.folder, weights, step, self.kept_best)
        for callback in self.callbacks:
            callback.on_eval(step, scores)
        return scores

    def _metrics(self, step: int, scores: dict[str, float]) -> dict[str, float]:
        seconds = max(time.monotonic() - self.started, 1e-9)
        speed = {"pairs_per_second": self.pairs / seconds, "tokens_per_second": self.tokens.tokens / seconds}
        if self.tokens.computed:
            speed["useful_tokens"] = self.tokens.tokens / self.tokens.computed
        return {"step": float(step), **self.last, "learning_rate": self.rates[step - 1], **speed, **scores}

    def _note(self, step: int, over: bool) -> str:
        """The losses and dev scores for the screen; the last one says why it is the last, and whose weights are kept."""
        parts = [f"{name} {value:.4f}" for name, value in self.last.items() if name not in ("gradient_norm", "loss")]
        note = f"loss {self.last.get('loss', float('nan')):.4f}" + (f" ({', '.join(parts)})" if len(parts) > 1 else "")
        if self.dev_score is not None:
            note += f", {self.dev_score.note()}"
        if not over or self.dev is None:
            return note
        if step < self.schedule.steps:
            note += f"; stopped early at step {step} of {self.schedule.steps}"
        if self.best_step != step:
            note += f"; best was step {self.best_step}" if self.best_step else "; best was before the first step"
        return note

    def _setback(self) -> str:
        """Which dev scores the kept weights lost against those of before the first step; also logged."""
        if self.dev is None or not self.dev_before:
            return ""
        before, after = (
            {name.removeprefix("dev_"): score for name, score in scores.items()} for scores in (self.dev_before, self.best_dev)
        )
        near_teacher = "mse" in self.last or not self.has_teacher
        found = setback(before, after, len(self.dev), "dev", near_teacher) if self.best_step else no_gain(near_teacher)
        if found is not None and self.distributed.is_main_process:
            logger.warning("%s", found)
        return "" if found is None else str(found)

    def _show(self, step: int, pairs: int, note: str, values: dict[str, float], over: bool = False) -> None:
        total, over = self.schedule.pairs, over or step >= self.schedule.steps
        self.on_progress(Step(self.stage, total if over else pairs, total, "pairs", note, values))

    # ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _checkpoint_due(self, last: bool) -> bool:
        waited = time.monotonic() - self.saved_at >= self.settings.checkpoint_seconds
        return self.folder is not None and self.distributed.is_main_process and (last or waited)

    def _save(self, step: int, ended: bool) -> None:
        """Write a checkpoint; the losses up to this step must have been checked."""
        if self.folder is None or not self.distributed.is_main_process:
            return
        loop = {
            "watch": self.watch.state_dict(),
            "selection": self.selection.state_dict(),
            "best_step": self.best_step,
            "ended": ended,
            "last": self.last,
            "best_dev": self.best_dev,
            "dev_before": self.dev_before,
        }
        path = checkpoints.save(self.folder, step, {"engine": self.engine.state_dict(), "loop": loop, "step": step})
        self.saved_at, self.kept_step, self.kept_best = time.monotonic(), step, self.best_step
        for callback in self.callbacks:
            callback.on_checkpoint(step, path)

    def _resume(self) -> tuple[int, bool]:
        """The step to continue from, and whether training had ended there."""
        kept = checkpoints.latest(self.folder) if self.folder is not None else None
        if kept is not None and "selection" not in kept["loop"]:
            logger.warning("%s: the checkpoint is of an earlier version of isogloss, so training starts again", self.folder)
            kept = None
        if kept is not None and self._lacks_best(kept["loop"], kept["step"]):
            logger.warning("%s: the best weights are gone, so training starts again", self.folder)
            kept = None
        self._check_same_step(0 if kept is None else int(kept["step"]))
        if kept is None:
            return 0, False
        self.engine.load_state_dict(kept["engine"])
        loop = kept["loop"]
        self.watch.load_state_dict(loop["watch"])
        self.selection.load_state_dict(loop["selection"])
        self.best_step, self.best_dev = int(loop["best_step"]), dict(loop["best_dev"])
        self.dev_before, self.last = dict(loop["dev_before"]), dict(loop["last"])
        self.kept_step, self.kept_best = int(kept["step"]), self.best_step
        return self.kept_step, bool(loop["ended"]) or self.kept_step >= self.schedule.steps

    def _lacks_best(self, loop: dict[str, Any], step: int) -> bool:
        """Whether the best weights that a checkpoint refers to are missing."""
        if self.dev is None or self.folder is None or loop["best_step"] == step:
            return False
        return checkpoints.best(self.folder, int(loop["best_step"])) is None

    def _check_same_step(self, step: int) -> None:
        """All processes continue from the same step, and none writes before all have read."""
        if self.distributed.agree(step) != step:
            raise IsoglossError(
                f"{self.folder}: this process found a checkpoint of step {step}, and the main process another one",
                hint="all machines must see the same output.folder",
            )
        self.distributed.wait()

    def _finish(self, step: int) -> None:
        """Load the best weights, if they are not the last ones."""
        if self.dev is None or self.best_step == step:
            return
        self.distributed.wait()  # until the main process has written them
        weights = self.best_weights if self.folder is None else checkpoints.best(self.folder, self.best_step)
        if weights is None:
            raise IsoglossError(
                f"{self.folder}: the best weights, of step {self.best_step}, are gone", hint="run the same command again"
            )
        self.engine.load_weights(weights)


def ahead(prepare: Callable[[Item], Made], items: Iterable[Item]) -> Generator[Made]:
    """Prepare each item in another thread, a few items early, and yield the results in order.

    Close it (`contextlib.closing`). The garbage collector would wait for the thread wherever it happens to run; while another
    thread is being started, that is a deadlock.
    """
    waiting: list[Future[Made]] = []
    with ThreadPoolExecutor(1) as thread:
        try:
            for item in items:
                waiting.append(thread.submit(prepare, item))
                if len(waiting) > AHEAD:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()
