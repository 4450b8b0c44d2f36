"""The training loop of every task: steps in order, losses, dev scores, checkpoints, callbacks, and an end.

It knows no model: an engine takes the steps, a schedule says which examples are in each, a dev set says how good the model is.
Killed at any moment, training resumes from the last checkpoint and ends with the weights of a run that was never stopped.
"""

import logging
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from isogloss.errors import IsoglossError
from isogloss.progress import OnProgress, Step
from isogloss.training import checkpoints
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import Engine
from isogloss.training.health import LossWatch, no_gain, setback
from isogloss.training.selection import Merit, Selection
from isogloss.types import IntArray

logger = logging.getLogger(__name__)

LOG_EVERY_STEPS = 10
AHEAD = 4  # batches prepared before they are needed

Item = TypeVar("Item")
Made = TypeVar("Made")


class Steps(Protocol):
    """Which examples each step sees, as a function of its number: `batches.Schedule`, `tasks.schedule.TaskSchedule`."""

    @property
    def steps(self) -> int:
        """Steps of the whole training."""
        ...

    @property
    def pairs(self) -> int:
        """Examples of all steps, counted as often as they are drawn."""
        ...

    def pairs_before(self, step: int) -> int:
        """Examples that were seen when `step` steps are done."""
        ...

    def chosen(self, step: int) -> IntArray:
        """The examples of a step, as numbers."""
        ...


class Callback:
    """What users can listen to, in the main process: subclass it and write the methods you need."""

    def on_step(self, step: int, values: dict[str, float]) -> None:
        """The losses of a step, in order; steps are read in groups, so this may be some steps late."""

    def on_eval(self, step: int, scores: dict[str, float]) -> None:
        """The dev scores after a step; step 0 is before the first."""

    def on_checkpoint(self, step: int, path: Path) -> None:
        """A checkpoint was written."""


class Score(Protocol):
    """How good the student is on a dev set."""

    def merit(self, select: str) -> Merit:
        """What it is compared with other scores by."""
        ...

    def values(self) -> dict[str, float]:
        """For the metrics."""
        ...

    def note(self) -> str:
        """For the screen."""
        ...


class Dev(Protocol):
    """What a checkpoint is chosen by; it has what it measures with: `dev.MeasuredBy`, `evaluation.sts_dev.STSDev`."""

    def __len__(self) -> int:
        """Number of its pairs."""
        ...

    def score(self) -> Score:
        """Measure the student as it is now."""
        ...


@dataclass(frozen=True, slots=True)
class TrainingSummary:
    """What training did. `steps_now` is fewer than `steps` after an interruption; `best_step` is the one that was kept.

    `dev_before` are the dev scores before the first step; `setback` says what was lost since then, if that is clear.
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


@dataclass(frozen=True, slots=True)
class LoopConfig:
    """When the loop looks up from its steps. `patience` 0 never ends early.

    With `compares` it says what was lost since before the first step, by the scores of `dev.DevSet`; and what to do about it,
    which without a teacher (`taught` is false) cannot be to follow one.
    """

    rates: list[float]
    warmup_steps: int
    checkpoint_seconds: float
    dev_checks: int = 10
    select: str = "both"
    patience: int = 0
    compares: bool = True
    taught: bool = True


class Trainer:
    """One training, from its first step or its last checkpoint to its end."""

    def __init__(
        self,
        engine: Engine,
        schedule: Steps,
        config: LoopConfig,
        dev: Dev | None,
        folder: Path | None,
        distributed: Distributed,
        on_progress: OnProgress,
        stage: str = "distil",
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.engine, self.schedule, self.config, self.dev, self.folder = engine, schedule, config, dev, folder
        self.distributed, self.on_progress, self.stage = distributed, on_progress, stage
        self.callbacks = callbacks if distributed.is_main_process else ()
        self.watch = LossWatch(config.warmup_steps)
        self.selection = Selection(config.patience)
        self.best_step, self.best_weights = 0, None  # type: int, dict[str, Any] | None
        self.dev_score: Score | None = None
        self.best_dev: dict[str, float] = {}
        self.dev_before: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.saved_at = time.monotonic()
        self.kept_step, self.kept_best = 0, None  # type: int, int | None
        checks = config.dev_checks
        self.dev_steps = {round(schedule.steps * number / checks) for number in range(1, checks + 1)} - {0}

    def run(self) -> TrainingSummary:
        """Train to the end; the engine holds the best weights then."""
        total = self.schedule.steps
        first, ended = self._resume()
        done = self.schedule.pairs_before(first)
        note = f"continued at step {first} of {total}" if first and not ended else ""
        self._show(first, done, note or ("reused: training was finished" if first else ""), {}, over=ended)
        began, seen, tokens, computed, step = time.monotonic(), 0, 0, 0, first
        if self.dev is not None and not first:
            self.dev_before = self._measure(0)
            self._show(0, 0, "", {"step": 0.0, **self.dev_before})
        to_do = range(first, first if ended else total)
        with closing(ahead(self._prepared, to_do)) as steps:
            for step, (pairs, prepared) in enumerate(steps, first + 1):
                load = self.engine.step(prepared)
                seen, tokens, computed = seen + pairs, tokens + load.tokens, computed + load.computed
                last = step == total
                due = self._checkpoint_due(last)
                if not (last or due or step in self.dev_steps or step % self.engine.reads_every == 0):
                    continue
                self._read(step)
                if due or last or step in self.dev_steps:
                    self._refuse_broken(step)
                measured = self._measure(step) if self.dev is not None and step in self.dev_steps else {}
                ended = bool(measured) and self.selection.should_stop
                if (due and not self.watch.suspicious) or ended or last:
                    self._save(step, ended)
                shown = (
                    self._values(step, measured, seen, tokens, computed, began) if self._logged(step, last, measured) else {}
                )
                self._show(step, done + seen, self._note() + self._ending(step, ended or last), shown, over=ended)
                if ended:
                    break
        self._finish(step)
        speed = seen / max(time.monotonic() - began, 1e-9)
        loss = self.last.get("loss", float("nan"))
        best = self.best_step if self.dev else step
        early = ended and step < total
        return TrainingSummary(total, step - first, loss, speed, best, self.best_dev, early, self.dev_before, self._setback())

    def _prepared(self, step: int) -> tuple[int, Any]:
        chosen = self.schedule.chosen(step)
        return len(chosen), self.engine.prepare(chosen)

    # ── looking up ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, step: int) -> None:
        """Look at the losses of the steps since the last look; a broken one ends training before it is kept."""
        losses = self.engine.losses()
        for place, values in enumerate(losses, step - len(losses)):  # counted from 0
            norm = values.get("gradient_norm")
            named = {name: value for name, value in values.items() if name != "gradient_norm"}
            diagnosis = self.watch.check(place, named, norm)
            if diagnosis is not None:
                raise IsoglossError(f"{diagnosis.sentence}; {self._what_is_kept()}", hint=diagnosis.hint)
            self.last = values
            for callback in self.callbacks:
                callback.on_step(place + 1, values)

    def _refuse_broken(self, step: int) -> None:
        """Losses are taken before a step's weights are, so these are looked at before they are measured or kept."""
        if not self.engine.is_finite():
            raise IsoglossError(
                f"step {step} made weights that are not finite; {self._what_is_kept()}",
                hint="lower training.learning_rate, or raise training.warmup",
            )

    def _what_is_kept(self) -> str:
        return f"the checkpoint of step {self.kept_step} is kept" if self.kept_step else "there is no checkpoint of it yet"

    def _measure(self, step: int) -> dict[str, float]:
        """Score the dev pairs, and keep the weights if they are preferred to those that are kept."""
        assert self.dev is not None
        self.engine.synchronize()  # a dev set may measure with the student itself
        self.dev_score = self.dev.score()
        merit = self.dev_score.merit(self.config.select)
        preferred = bool(self.distributed.agree(float(self.selection.prefers(merit))))
        self.selection.take(merit, preferred)
        if preferred:
            self.best_step, self.best_dev = step, self.dev_score.values()
            weights = self.engine.weights()
            if self.folder is None:
                self.best_weights = weights
            elif self.distributed.is_main_process:
                checkpoints.save_best(self.folder, weights, step, self.kept_best)
        for callback in self.callbacks:
            callback.on_eval(step, self.dev_score.values())
        return self.dev_score.values()

    def _logged(self, step: int, last: bool, measured: dict[str, float]) -> bool:
        return last or bool(measured) or step % max(LOG_EVERY_STEPS, self.engine.reads_every) == 0

    def _values(
        self, step: int, measured: dict[str, float], seen: int, tokens: int, computed: int, began: float
    ) -> dict[str, float]:
        seconds = max(time.monotonic() - began, 1e-9)
        rates = {"pairs_per_second": seen / seconds, "tokens_per_second": tokens / seconds}
        if computed:
            rates["useful_tokens"] = tokens / computed
        return {"step": float(step), **self.last, "learning_rate": self.config.rates[step - 1], **rates, **measured}

    def _note(self) -> str:
        parts = [f"{name} {value:.4f}" for name, value in self.last.items() if name not in ("gradient_norm", "loss")]
        note = f"loss {self.last.get('loss', float('nan')):.4f}" + (f" ({', '.join(parts)})" if len(parts) > 1 else "")
        return note if self.dev_score is None else f"{note}, {self.dev_score.note()}"

    def _ending(self, step: int, over: bool) -> str:
        """What the last line adds: why it is the last, and whose weights are kept."""
        if not over or self.dev is None:
            return ""
        early = f"; stopped early at step {step} of {self.schedule.steps}" if step < self.schedule.steps else ""
        if self.best_step == step:
            return early
        return f"{early}; best was step {self.best_step}" if self.best_step else f"{early}; best was before the first step"

    def _setback(self) -> str:
        """What the kept weights lost against those of before the first step, by the dev pairs; said once it is known."""
        if self.dev is None or not self.dev_before or not self.config.compares:
            return ""
        before, after = (
            {name.removeprefix("dev_"): score for name, score in scores.items()} for scores in (self.dev_before, self.best_dev)
        )
        held = "mse" in self.last or not self.config.taught
        found = no_gain(held) if not self.best_step else setback(before, after, len(self.dev), "dev", held)
        if found is not None and self.distributed.is_main_process:
            logger.warning("%s", found)
        return "" if found is None else str(found)

    def _show(self, step: int, pairs: int, note: str, values: dict[str, float], over: bool = False) -> None:
        total, over = self.schedule.pairs, over or step >= self.schedule.steps
        self.on_progress(Step(self.stage, total if over else pairs, total, "pairs", note, values))

    # ── keeping ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _checkpoint_due(self, last: bool) -> bool:
        waited = time.monotonic() - self.saved_at >= self.config.checkpoint_seconds
        return self.folder is not None and self.distributed.is_main_process and (last or waited)

    def _save(self, step: int, ended: bool) -> None:
        """Keep everything; only after the losses up to this step were read and found good."""
        if self.folder is None or not self.distributed.is_main_process:
            return
        loop = {
            "watch": self.watch.state_dict(),
            "selection": self.selection.state_dict(),
            "best_step": self.best_step,
            "ended": ended,
        }
        loop |= {"last": self.last, "best_dev": self.best_dev, "dev_before": self.dev_before}
        path = checkpoints.save(self.folder, step, {"engine": self.engine.state_dict(), "loop": loop, "step": step})
        self.saved_at, self.kept_step, self.kept_best = time.monotonic(), step, self.best_step
        for callback in self.callbacks:
            callback.on_checkpoint(step, path)

    def _resume(self) -> tuple[int, bool]:
        """The step to go on from, and whether training was ended there."""
        kept = checkpoints.latest(self.folder) if self.folder is not None else None
        if kept is not None and "selection" not in kept["loop"]:
            logger.warning("%s: the checkpoint is of an earlier version of isogloss, so training starts again", self.folder)
            kept = None
        if kept is not None and self._lacks_best(kept):
            logger.warning("%s: the best weights are gone, so training starts again", self.folder)
            kept = None
        self._find_alike(0 if kept is None else int(kept["step"]))
        if kept is None:
            return 0, False
        self.engine.load_state_dict(kept["engine"])
        loop = kept["loop"]
        self.watch.load_state_dict(loop["watch"])
        self.selection.load_state_dict(loop["selection"])
        self.best_step, self.best_dev = int(loop["best_step"]), dict(loop["best_dev"])
        self.dev_before = dict(loop["dev_before"])
        self.last, self.kept_step, self.kept_best = dict(loop["last"]), int(kept["step"]), self.best_step
        return self.kept_step, bool(loop["ended"]) or self.kept_step >= self.schedule.steps

    def _lacks_best(self, kept: dict[str, Any]) -> bool:
        """Whether a checkpoint speaks of best weights that are not there."""
        if self.dev is None or self.folder is None or kept["loop"]["best_step"] == kept["step"]:
            return False
        return checkpoints.best(self.folder, int(kept["loop"]["best_step"])) is None

    def _find_alike(self, step: int) -> None:
        """All processes go on from the same step, and none writes before all have read."""
        if self.distributed.agree(step) != step:
            raise IsoglossError(
                f"{self.folder}: this process finds step {step} there, and the leading one another",
                hint="all machines must see the same output.folder",
            )
        self.distributed.wait()

    def _finish(self, step: int) -> None:
        """Go back to the best weights, if dev pairs say that they are not the last ones."""
        if self.dev is None or self.best_step == step:
            return
        self.distributed.wait()  # until the leading process has written them
        weights = self.best_weights if self.folder is None else checkpoints.best(self.folder, self.best_step)
        if weights is None:
            raise IsoglossError(
                f"{self.folder}: the best weights, of step {self.best_step}, are gone", hint="run the same command again"
            )
        self.engine.load_weights(weights)


def ahead(prepare: Callable[[Item], Made], items: Iterable[Item]) -> Generator[Made]:
    """What `prepare` makes of each item, in order, made by another thread a few items early; to be closed by who opens it.

    Left to the garbage collector it waits for its thread wherever that happens to run: in the midst of the start of another
    thread, both wait for ever.
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
