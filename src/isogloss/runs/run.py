"""One run and its folder; only the run writes there.

    run.json        the recipe, the machine, the seconds of each part, and how it ended
    metrics.jsonl   losses and dev scores, step by step
    results.json    the scores after each stage
    model/          the saved model
    work/           unfinished work, from which the same command continues

`run_folder` locks and checks the folder, `record` writes the files, `pipeline` does the work.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import torch

from isogloss.config import Recipe, as_dict
from isogloss.errors import IsoglossError
from isogloss.evaluation.compare import Comparison
from isogloss.evaluation.tasks.retrieval import kept_shares
from isogloss.progress import OnProgress, silent
from isogloss.runs.record import RECORD, MetricsLog, Record, peak_memory_gib
from isogloss.runs.run_folder import METRICS, MODEL, RESULTS, run_folder
from isogloss.runs.trackers import Trackers
from isogloss.storage import WORK, cache_folder, weights_hash, write_json
from isogloss.training.distributed import Distributed
from isogloss.training.trainer import TrainingSummary
from isogloss.types import LanguageScores, Report


@dataclass(frozen=True, slots=True)
class StageResult:
    """The training of one stage; `examples` are counts for each of its tasks."""

    name: str
    summary: TrainingSummary
    examples: dict[str, int]

    def with_setback(self, sentence: str) -> Self:
        """With another sentence on what training lost; it may be empty."""
        setback = "; ".join(part for part in (self.summary.setback, sentence) if part)
        return replace(self, summary=replace(self.summary, setback=setback))

    def as_dict(self) -> dict[str, Any]:
        """For results.json."""
        return {"examples": self.examples, **asdict(self.summary)}


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run: its folder, the scores after each stage, the training of each stage, and details.

    `reports` are scores on held-out pairs; `retrieval` has those on documents and queries, if the recipe names some.
    """

    folder: Path
    reports: tuple[Report, ...]
    seconds: float
    stages: tuple[StageResult, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    retrieval: Comparison | None = None

    @property
    def model(self) -> Path:
        """The folder that `SentenceTransformer` loads."""
        return self.folder / MODEL

    @property
    def training(self) -> TrainingSummary | None:
        """The summary of the last stage that trained."""
        return self.stages[-1].summary if self.stages else None

    def as_dict(self) -> dict[str, Any]:
        """The content of results.json."""
        reports = {
            report.model: {
                "average": _scores(report.average()),
                "languages": {score.language: _scores(score) for score in report.scores},
            }
            for report in self.reports
        }
        return {
            "model": str(self.model),
            "candidates": self.reports[0].candidates if self.reports else 0,
            "stages": reports,
            "seconds": round(self.seconds, 1),
            "training": {stage.name: stage.as_dict() for stage in self.stages},
            **({"retrieval": self.retrieval.as_dict()} if self.retrieval else {}),
            **self.details,
        }


def _scores(score: LanguageScores) -> dict[str, float | int | None]:
    values = asdict(score)
    del values["language"]
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}


class Run:
    """A run at work in its folder. Only the main process writes; the others help to train."""

    def __init__(self, recipe: Recipe, on_progress: OnProgress = silent, record: Path = Path()) -> None:
        """`record` is the folder, within that of the run, where run.json is until the run is finished."""
        self.recipe, self.folder = recipe, Path(recipe.output.folder)
        self.work, self.cache = self.folder / WORK, vector_folder(recipe)
        self.began = time.monotonic()
        self.distributed = Distributed.here()
        self.record: Record | None = None
        self.on_progress: OnProgress = silent
        self._trackers: Trackers | None = None
        if recipe.threads:
            torch.set_num_threads(recipe.threads)
        if self.distributed.is_main_process:
            self.record = Record(self.folder / record, {"recipe": as_dict(recipe)})
            self.on_progress = MetricsLog(self.folder / record / METRICS, on_progress)
            if recipe.training.trackers:
                self.on_progress = self._trackers = Trackers(recipe, self.folder, self.on_progress)

    @classmethod
    @contextmanager
    def open(
        cls,
        recipe: Recipe,
        on_progress: OnProgress = silent,
        fresh: bool = False,
        replace: bool = False,
        record: Path = Path(),
    ) -> "Iterator[Run]":
        """Enter the folder; `fresh` deletes unfinished work, `replace` allows another finished model to be replaced."""
        refuse_overlap(recipe.output.folder, recipe.models())
        if not Distributed.here().is_main_process:
            yield cls(recipe)
            return
        asked = as_dict(recipe)
        if recipe.add is not None:  # run.json of a finished run lists the old languages, too
            del asked["languages"]
        with run_folder(Path(recipe.output.folder), asked, fresh, replace, record / RECORD):
            run = cls(recipe, on_progress, record)
            try:
                yield run
            finally:
                if run._trackers is not None:
                    run._trackers.finish()

    def timed(self, part: str) -> AbstractContextManager[None]:
        """Add to the seconds of a part in run.json, and record the warnings that are logged in it."""
        return nullcontext() if self.record is None else self.record.timed(part)

    def note(self, **values: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
        """Add facts to run.json."""
        if self.record is not None:
            self.record.note(**values)

    def result(self, reports: list[Report], stages: list[StageResult], details: dict[str, Any]) -> RunResult:
        """The result so far."""
        details = {**details, "peak_memory_gib": peak_memory_gib(), "recipe": self.recipe.name}
        return RunResult(self.folder, tuple(reports), time.monotonic() - self.began, tuple(stages), details)

    def finish(self, result: RunResult) -> RunResult:
        """Write results.json and mark the run as finished, after the model was saved."""
        if self.record is not None:
            write_json(result.folder / RESULTS, result.as_dict())
            self.record.note(hashes={"weights": weights_hash(result.model)})
            if result.retrieval is not None:
                shares = kept_shares(result.retrieval)
                self.record.note(kept={name: round(score.value, 4) for name, score in shares.items()})
            self.record.finish()
        return result


def vector_folder(recipe: Recipe) -> Path:
    """The folder of teacher embeddings and token tables, which all runs share."""
    return Path(recipe.output.cache) if recipe.output.cache else cache_folder()


def refuse_overlap(out: str, inputs: Iterable[str | Path]) -> None:
    """Raise if the output folder overlaps with a folder that the run reads: a second run would read something else."""
    place = Path(out).resolve()
    for name in inputs:
        folder = Path(name).expanduser()
        if folder.is_dir() and (folder.resolve().is_relative_to(place) or place.is_relative_to(folder.resolve())):
            raise IsoglossError(
                f"{out}: overlaps with {name}, which is read and must not change", hint="name another output folder"
            )
