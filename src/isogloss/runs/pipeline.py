"""A recipe in, a measured and saved model out: the road through the whole house, one stage after another.

    read → clean → tokenize → teacher vectors → bridge → distil → measure → save

Every stage keeps its result under a name made from its inputs, in the run's folder or in the cache: the same command
after an interruption goes on from there, and a second run finds everything done. A recipe whose losses follow no teacher
needs none: then teacher vectors, the bridge, and what is measured beside a teacher are left out.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from isogloss.amounts import amount
from isogloss.config import EvaluationSettings, Recipe, as_dict
from isogloss.corpora.store import Store, scan_in_words, scan_of, training_data
from isogloss.evaluation.alignment import AlignmentEvaluator, Answers, Rows
from isogloss.evaluation.metrics import unit
from isogloss.evaluation.regressions import in_words, regressions
from isogloss.export.folder import lost_table, model_card, save
from isogloss.models.encoders.open import refuse_missing
from isogloss.models.student import Student
from isogloss.models.vector_cache import refuse_useless
from isogloss.progress import OnProgress, silent
from isogloss.runs.exam import taught_rows
from isogloss.runs.gathering import gather_source
from isogloss.runs.models import cache_of, open_models
from isogloss.runs.record import Metrics, Record, peak_memory_gib
from isogloss.runs.run_folder import METRICS, MODEL, PAIRS, RESULTS, run_folder
from isogloss.runs.trackers import Trackers
from isogloss.storage import WORK, weights_hash, write_json
from isogloss.training.distill import Distillation
from isogloss.training.distributed import Distributed
from isogloss.training.engines.choose import uses_teacher
from isogloss.training.health import Diagnosis, better_next
from isogloss.training.trainer import TrainingSummary
from isogloss.types import SCHEMA, TEST, TRAIN, Bitext, FloatArray, PairSource, Report

logger = logging.getLogger(__name__)

CALLED = {"untouched": "the untouched student", "bridge": "the bridge alone"}
Timed = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run gives back: where everything is, how the student did at each stage, how long it took."""

    folder: Path
    reports: tuple[Report, ...]
    seconds: float
    training: TrainingSummary | None
    details: dict[str, Any]

    @property
    def model(self) -> Path:
        """The folder that `SentenceTransformer` loads."""
        return self.folder / MODEL

    def as_dict(self) -> dict[str, Any]:
        """The results as they are written to results.json."""
        return {
            "model": str(self.model),
            "candidates": self.reports[0].candidates,
            "stages": {
                report.model: {
                    "average": _scores(report.average()),
                    "languages": {score.language: _scores(score) for score in report.scores},
                }
                for report in self.reports
            },
            "seconds": round(self.seconds, 1),
            **self.details,
        }


def _scores(score: Any) -> dict[str, float | int | None]:  # noqa: ANN401 - a LanguageScores
    values = asdict(score)
    del values["language"]
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}


def run(recipe: Recipe, on_progress: OnProgress = silent, fresh: bool = False, replace: bool = False) -> RunResult:
    """Do everything a recipe says. Interrupted, it continues; finished, it reuses what is there and says so.

    `fresh` forgets unfinished work in the run's folder first (not its model or results). A finished model of other settings
    is replaced only with `replace`.
    """
    folder = Path(recipe.output.folder)
    if not Distributed.here().is_main_process:
        return _run(recipe, folder, silent)
    refuse_missing([name for name in (recipe.teacher.model, recipe.student.model) if name])
    if recipe.teacher.model:
        refuse_useless(cache_of(recipe))
    with run_folder(folder, {"recipe": as_dict(recipe)}, fresh, replace):
        return _run(recipe, folder, on_progress)


def _run(recipe: Recipe, folder: Path, on_progress: OnProgress) -> RunResult:
    began = time.monotonic()
    distributed = Distributed.here()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    record = Record(folder, {"recipe": as_dict(recipe)}) if distributed.is_main_process else None
    tell = _listeners(recipe, folder, on_progress) if distributed.is_main_process else silent
    timed = record.timed if record is not None else _untimed
    with timed("pairs"), distributed.main_process_first():
        pairs, store = gather_source(recipe, folder / PAIRS, tell)
    questions = AlignmentEvaluator(measured_pairs(pairs, recipe.evaluation), recipe.evaluation.max_candidates)
    with timed("models"):
        teacher, student, done = open_models(recipe, pairs, tell)
    details: dict[str, Any] = {"store": str(store.folder), "leak_scan": scan_of(store.manifest), "student": done}
    with timed("vectors"):
        session = Distillation(student, teacher, pairs, recipe, folder / WORK, cache_of(recipe), tell)
    if record is not None:
        hashes = {"pairs": store.hash, "teacher": teacher.fingerprint if teacher else "", "student": session.key}
        record.note(hashes=hashes, pairs=training_data(store.manifest))
    stages = Stages(recipe, session, questions, timed)
    stages.walk(details)
    if record is None:  # one process measures and saves; the others have done their part
        return RunResult(folder, (), time.monotonic() - began, stages.summary, details)
    details["pairs"] = pair_counts(pairs)
    result = RunResult(folder, tuple(stages.reports), time.monotonic() - began, stages.summary, details)
    with timed("save"):
        _save(recipe, result, student, pairs, store)
    details |= {"peak_memory_gib": peak_memory_gib(), "recipe": recipe.name}
    result = RunResult(folder, tuple(stages.reports), time.monotonic() - began, stages.summary, details)
    write_json(folder / RESULTS, result.as_dict())
    record.note(hashes={"weights": weights_hash(folder / MODEL)})
    record.finish()
    return result


class Stages:
    """The student untouched, bridged and trained, each measured by the same questions."""

    def __init__(self, recipe: Recipe, session: Distillation, questions: AlignmentEvaluator, timed: Timed) -> None:
        self.recipe, self.session, self.questions, self.timed = recipe, session, questions, timed
        self.texts = questions.texts()
        self.row_of = {text: row for row, text in enumerate(self.texts)}
        self.reports: list[Report] = []
        self.answers: list[tuple[str, tuple[Answers, ...]]] = []
        self.summary: TrainingSummary | None = None

    def walk(self, details: dict[str, Any]) -> None:
        """Go through them, and note what there is to know of each."""
        session, recipe = self.session, self.recipe
        with self.timed("vectors"):
            teacher = None
            if session.teacher is not None:
                where = cache_of(recipe), session.distributed, session.on_progress
                teacher = taught_rows(self.questions, session.teacher, *where)
            untouched = session.untouched_vectors(self.texts)
        self._ask("untouched", untouched, teacher)
        if recipe.bridge.enabled:
            with self.timed("bridge"):
                bridge = session.build_bridge()
                bridged = bridge.apply(untouched)
                bridged = unit(bridged) if session.teacher_is_unit_norm else bridged
            self._ask("bridge", bridged.astype(np.float32), teacher)
            details["bridge_strength"] = bridge.strength
        if recipe.training.epochs:
            with self.timed("distil"):
                self.summary = session.train()
            with self.timed("measure"):
                trained = session.trained_vectors(self.texts)
                self._ask("distilled" if teacher is not None else "trained", trained, teacher)
        with self.timed("measure"):
            self._say_what_was_lost(details)
        if self.summary is not None:
            details["training"] = asdict(self.summary)

    def _say_what_was_lost(self, details: dict[str, Any]) -> None:
        """Compare the last stage with those before it on the held-out pairs, and say what is worse."""
        *earlier, (_, last) = self.answers
        found = [one for name, answers in reversed(earlier) for one in regressions(CALLED[name], answers, last)]
        details["regressions"] = [one.as_dict() for one in found]
        said = in_words(found)
        if not said:
            return
        if self.summary is not None and any(one.clear for one in found):
            held = self.session.teacher is None or bool(self.recipe.losses.mse)
            said = str(Diagnosis("worse", said, better_next(held)))
        if self.session.distributed.is_main_process:
            logger.warning("%s", said)
        if self.summary is not None:
            self.summary = replace(self.summary, setback="; ".join(one for one in (self.summary.setback, said) if one))

    def _ask(self, name: str, vectors: FloatArray, teacher: Rows | None) -> None:
        answers = self.questions.answers(Rows(self.row_of, vectors), teacher)
        self.answers.append((name, answers))
        self.reports.append(self.questions.report(name, answers))


def _listeners(recipe: Recipe, folder: Path, on_progress: OnProgress) -> OnProgress:
    """Whoever wants to know how it goes: the screen, metrics.jsonl, and the trackers that the recipe names."""
    metrics = Metrics(folder / METRICS, on_progress)
    return Trackers(recipe, folder, metrics) if recipe.training.trackers else metrics


@contextmanager
def _untimed(_stage: str) -> Iterator[None]:
    yield


def measured_pairs(pairs: PairSource, settings: EvaluationSettings) -> Bitext:
    """What the questions are made from: of each language some held-out pairs, and others to search among."""
    limits = {TEST: settings.max_queries, TRAIN: settings.max_candidates}
    available = pairs.pair_counts()
    splits = [(language, split) for language in pairs.languages for split in limits]
    wanted = sum(min(limits[split], available.total(language=language, split=split)) for language, split in splits)
    taken: dict[tuple[str, str], int] = {}
    kept = [SCHEMA.empty_table()]
    for block in pairs.in_blocks():
        if sum(taken.values()) == wanted:
            break
        columns = zip(block.column("language").to_pylist(), block.column("split").to_pylist(), strict=True)
        mask = np.zeros(block.num_rows, dtype=np.bool_)
        for place, key in enumerate(columns):
            count = taken.get(key, 0)
            if count < limits[key[1]]:
                taken[key], mask[place] = count + 1, True
        kept.append(block.filter(pa.array(mask)).select(SCHEMA.names))
    return Bitext(pa.concat_tables(kept).combine_chunks(), pairs.source_language)


def pair_counts(pairs: PairSource) -> dict[str, int]:
    """How many pairs are trained on, held out, and source text without translation."""
    counts = pairs.pair_counts()
    source_only = counts.total(language=pairs.source_language)
    return {"train": counts.total(split=TRAIN), "test": counts.total(split=TEST), "source_only": source_only}


def _save(recipe: Recipe, result: RunResult, student: Student, pairs: PairSource, store: Store) -> None:
    languages = tuple(sorted({*pairs.languages, pairs.source_language}))
    counts = result.details["pairs"]
    learnt = amount(counts["train"] - counts["source_only"], "training pair")
    if counts["source_only"]:
        learnt += f" and {amount(counts['source_only'], 'sentence')} without translation"
    learnt += f" ({scan_in_words(scan_of(store.manifest))})"
    teacher = recipe.teacher.model if uses_teacher(recipe) else ""
    lost = lost_table(result.details["regressions"])
    card = model_card(recipe.name, teacher, recipe.student.model, languages, learnt, result.reports[-1]) + lost
    student.model.to("cpu")
    save(student, result.model, card, training_data(store.manifest))


def quickstart_recipe() -> Path:
    """The recipe that `isogloss quickstart` runs."""
    return Path(__file__).with_name("quickstart.toml")
