"""A recipe in, a measured and saved model out: the road through the whole house, one stage after another.

    read → clean → tokenise → teacher vectors → bridge → distil → measure → save

Every stage keeps its result under a name made from its inputs, in the run's folder or in the cache: the same command
after an interruption goes on from there, and a second run finds everything done.
"""

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isogloss.config import Recipe
from isogloss.corpora.prepare import Prepared
from isogloss.corpora.store import scan_in_words, scan_of, training_data
from isogloss.encode.cache import default_folder
from isogloss.encode.encoder import SentenceEncoder, load
from isogloss.evaluation.alignment import Questions, Rows
from isogloss.evaluation.metrics import unit
from isogloss.export.folder import model_card, refuse_other_things, save
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.gathering import gather_pairs
from isogloss.runs.record import Metrics, Record, peak_memory_gib
from isogloss.storage import (
    alone_in,
    refuse_folder,
    sweep,
    weights_hash,
    write_json,
)
from isogloss.students.student import Student
from isogloss.training.distill import Distillation, TrainingSummary
from isogloss.types import TRAIN, Bitext, Report

MODEL, RESULTS, PAIRS = "model", "results.json", "pairs"


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


def run(recipe: Recipe, on_progress: OnProgress = silent, fresh: bool = False) -> RunResult:
    """Do everything a recipe says. Interrupted, it continues; finished, it reuses what is there and says so.

    `fresh` forgets unfinished work in the run's folder first (not its model or results).
    """
    folder = Path(recipe.output.folder)
    with alone_in(folder, "another run is using this folder", "wait for it, or set output.folder"):
        refuse_other_things(folder / MODEL)
        for name in (RESULTS, "run.json", "metrics.jsonl"):
            refuse_folder(folder / name)
        if fresh:
            shutil.rmtree(folder / "work", ignore_errors=True)
        return _run(recipe, folder, on_progress)


def _run(recipe: Recipe, folder: Path, on_progress: OnProgress) -> RunResult:
    began = time.monotonic()
    if recipe.threads:
        torch.set_num_threads(recipe.threads)
    sweep(folder)
    sweep(folder / "work")
    record, metrics = Record(folder, recipe), Metrics(folder / "metrics.jsonl", on_progress)
    with record.timed("pairs"):
        prepared = gather_pairs(recipe, metrics, folder / PAIRS)
    bitext = prepared.bitext
    questions = Questions(bitext, recipe.evaluation.max_candidates)
    record.note(hashes={"pairs": prepared.hash}, pairs=training_data(prepared.manifest))
    with record.timed("models"):
        teacher, student = open_models(recipe, bitext, metrics)
    record.note(hashes={"teacher": teacher.fingerprint})
    with record.timed("vectors"):
        session = Distillation(
            student,
            teacher,
            bitext,
            recipe.training,
            recipe.bridge,
            recipe.balance,
            recipe.seed,
            folder / "work",
            Path(recipe.output.cache) if recipe.output.cache else default_folder(),
            metrics,
        )
        record.note(hashes={"student": session.key})
        teacher_rows = Rows(session.row_of, session.teacher_vectors)
        untouched = session.untouched_vectors()
    reports = [questions.ask("untouched", Rows(session.row_of, untouched), teacher_rows)]
    details: dict[str, Any] = {"store": str(prepared.folder), "leak_scan": scan_of(prepared.manifest)}
    if recipe.bridge.enabled:
        with record.timed("bridge"):
            bridge = session.build_bridge()
            bridged = bridge.apply(untouched)
            bridged = unit(bridged) if session.teacher_is_unit_norm else bridged
        reports.append(questions.ask("bridge", Rows(session.row_of, bridged.astype(np.float32)), teacher_rows))
        details["bridge_strength"] = bridge.strength
    summary = None
    if recipe.training.epochs:
        with record.timed("distil"):
            summary = session.train()
        with record.timed("measure"):
            texts = questions.texts()
            trained = Rows({text: row for row, text in enumerate(texts)}, session.trained_vectors(texts))
        reports.append(questions.ask("distilled", trained, teacher_rows))
    result = RunResult(folder, tuple(reports), time.monotonic() - began, summary, details)
    with record.timed("save"):
        _save(recipe, result, student, prepared)
    session.forget_activations()
    details |= {"peak_memory_gib": peak_memory_gib(), "pairs": _pair_counts(bitext), "recipe": recipe.name}
    result = RunResult(folder, tuple(reports), time.monotonic() - began, summary, details)
    write_json(folder / RESULTS, result.as_dict())
    record.note(hashes={"weights": weights_hash(folder / MODEL)})
    record.finish()
    return result


def open_models(recipe: Recipe, bitext: Bitext, on_progress: OnProgress = silent) -> tuple[SentenceEncoder, Student]:
    """Load teacher and student, and trim the student's vocabulary to the recipe's languages."""
    on_progress(Step("models", 0, 2, "models", f"loading {recipe.teacher.model}"))
    teacher = load(recipe.teacher.model, recipe.teacher.prompt, recipe.teacher.batch_size, recipe.device)
    on_progress(Step("models", 1, 2, "models", f"loading {recipe.student.model}"))
    student = Student.load(recipe.student.model, recipe.student.prompt, recipe.student.max_tokens, recipe.device)
    note = ""
    if recipe.student.trim != "off":
        trimming = student.trim(texts_by_language(bitext), recipe.student.trim)
        note = f"vocabulary {trimming.rows_before:,} → {trimming.rows_after:,} rows"
    on_progress(Step("models", 2, 2, "models", note))
    return teacher, student


def texts_by_language(bitext: Bitext) -> dict[str, list[str]]:
    """All text of each language, the source language included."""
    texts = {language: bitext.where(language=language).column("target") for language in bitext.languages}
    texts[bitext.source_language] = bitext.sources()
    return texts


def _pair_counts(bitext: Bitext) -> dict[str, int]:
    return {
        "train": len(bitext.where(split=TRAIN)),
        "test": len(bitext) - len(bitext.where(split=TRAIN)),
        "source_only": len(bitext.where(language=bitext.source_language)),
    }


def _save(recipe: Recipe, result: RunResult, student: Student, prepared: Prepared) -> None:
    languages = tuple(sorted({*prepared.bitext.languages, prepared.bitext.source_language}))
    counts = _pair_counts(prepared.bitext)
    learnt = f"{counts['train'] - counts['source_only']:,} training pairs"
    if counts["source_only"]:
        learnt += f" and {counts['source_only']:,} sentences without translation"
    learnt += f" ({scan_in_words(scan_of(prepared.manifest))})"
    card = model_card(recipe.name, recipe.teacher.model, recipe.student.model, languages, learnt, result.reports[-1])
    student.model.to("cpu")
    save(student, result.model, card, training_data(prepared.manifest))


def quickstart_recipe() -> Path:
    """The recipe that `isogloss quickstart` runs."""
    return Path(__file__).with_name("quickstart.toml")
