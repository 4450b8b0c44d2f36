"""Run a recipe: train, measure and save a model.

    read → open models → measure → train and measure stage by stage → compare with the untouched student → save

Every part stores its result in the run's folder or in the cache under a hash of its inputs: the same command continues after an
interruption, and a finished run finds everything done. `stages/` has one file per task, `presets` the recipes of the short
commands (`distill`, `finetune`, `train-dual`, `train-laser`).
"""

from dataclasses import replace as replaced
from pathlib import Path
from typing import Any

from isogloss.amounts import amount, listed
from isogloss.config import Recipe
from isogloss.config.stages import TranslateStage
from isogloss.corpora.store import Store, leak_scan_of, training_data
from isogloss.errors import DataError
from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.evaluation.leak_report import recorded_scan
from isogloss.models.encoders.open import refuse_missing
from isogloss.models.loading import choose_device
from isogloss.models.student import Student
from isogloss.models.vector_cache import refuse_useless
from isogloss.progress import OnProgress, silent
from isogloss.runs.card import card_info, save_student
from isogloss.runs.gathering import gather_source
from isogloss.runs.measure import Measurements, measured_pairs, measured_queries, pair_counts
from isogloss.runs.models import open_models
from isogloss.runs.run import Run, RunResult, vector_folder
from isogloss.runs.run_folder import PAIRS
from isogloss.runs.stages.data import StageData
from isogloss.runs.stages.session import StageSession
from isogloss.runs.stages.translate import target_languages
from isogloss.training.distributed import Distributed
from isogloss.types import TRAIN, PairSource


def run(recipe: Recipe, on_progress: OnProgress = silent, fresh: bool = False, replace: bool = False) -> RunResult:
    """Run a recipe. An interrupted run continues; a finished one reuses its stored results.

    `fresh` deletes unfinished work in the run's folder first (not its model or results). A finished model of other settings is
    replaced only with `replace`.
    """
    if recipe.add is not None:
        from isogloss.runs.adding import add_languages

        return add_languages(recipe, on_progress, fresh, replace)
    choose_device(recipe.device)  # before any text is read
    if Distributed.here().is_main_process:
        refuse_missing(recipe.models())
        if recipe.teacher.model:
            refuse_useless(vector_folder(recipe))
    with Run.open(recipe, on_progress, fresh, replace) as current:
        return _run(current)


def _run(run: Run) -> RunResult:
    recipe = run.recipe
    with run.timed("read"), run.distributed.main_process_first():
        queries = measured_queries(recipe.evaluation)
        data = StageData.read(recipe)
        run.note(data=data.as_dict())
        pairs, store = gather_source(recipe, run.folder / PAIRS, run.on_progress) if recipe.needs_pairs else (None, None)
        if pairs is not None:
            refuse_unfit_pairs(recipe, pairs)
            queries = None if queries is None else queries.in_languages(pairs.languages)
        evaluator = None
        if pairs is not None and recipe.is_measured:
            evaluator = AlignmentEvaluator(measured_pairs(pairs, recipe.evaluation), recipe.evaluation.max_candidates)
    with run.timed("models"):
        teacher, student, details = open_models(recipe, pairs, data, run.work, run.on_progress)
    with run.timed("measure"):
        measurements = Measurements(run, evaluator, queries, teacher, student) if evaluator or queries else None
    if store is not None:
        hashes = {"pairs": store.hash, "teacher": teacher.fingerprint if teacher else "", "student": student.fingerprint}
        run.note(hashes=hashes, pairs=training_data(store.manifest))
    session = StageSession(run, student, teacher, pairs, data, measurements)
    session.train_all()
    details = {"student": details, **session.details}
    if store is not None and pairs is not None:
        details |= {"store": str(store.folder), "leak_scan": leak_scan_of(store.manifest), "pairs": pair_counts(pairs)}
    if data.content:
        details["data"] = data.counts()
    _compare(session, details)
    if run.record is None:  # the main process saves
        return run.result([], session.results, details)
    result = run.result(measurements.reports if measurements else [], session.results, details)
    if measurements is not None:
        with run.timed("measure"):
            scan = None if store is None or data.content else recorded_scan(training_data(store.manifest))
            details = result.details | measurements.uncertainty_and_bias()
            result = replaced(result, retrieval=measurements.retrieval(scan), details=details)
    with run.timed("save"):
        _save(run, result, student, pairs, store)
    return run.finish(result)


def refuse_unfit_pairs(recipe: Recipe, pairs: PairSource) -> None:
    """Raise if the stages cannot be trained on these pairs, before a model is loaded."""
    for stage in recipe.stages:
        if isinstance(stage, TranslateStage):
            target_languages(stage, pairs)
        if stage.task == "rank" and pairs.pair_counts().total(split=TRAIN) < 2:
            raise DataError(
                "there are fewer than 2 pairs to train on, and ranking compares a translation with those of other pairs",
                hint="add pairs",
            )


def _compare(session: StageSession, details: dict[str, Any]) -> None:
    """Report what the final student does worse than the untouched one or the bridge."""
    measurements = session.measurements
    if measurements is None or max(len(measurements.stages), len(measurements.outcomes)) < 2:
        return
    with session.run.timed("measure"):
        held = session.teacher is None or bool(session.recipe.losses.mse)
        details["regressions"], sentence = measurements.regressions(held, bool(session.results))
    if session.results:
        session.results[-1] = session.results[-1].with_setback(sentence)


def _save(run: Run, result: RunResult, student: Student, pairs: PairSource | None, store: Store | None) -> None:
    other_text = result.details.get("data", {})
    trained_on = [f"{amount(rows, 'row')} of {name}" for name, rows in other_text.items()]
    training: dict[str, Any] = {}
    if store is not None:
        training, counts = training_data(store.manifest), result.details["pairs"]
        trained_on.insert(0, amount(counts["train"] - counts["source_only"], "training pair"))
        if counts["source_only"]:
            trained_on.insert(1, f"{amount(counts['source_only'], 'sentence')} without translation")
        if other_text:  # only the pairs were scanned for leaks
            del training["leak_scan"]
            training["other_text"] = other_text
    info = card_info(run.recipe, result, pairs, training, listed(trained_on))
    save_student(run.recipe, student, result.model, info, training)


def quickstart_recipe() -> Path:
    """The recipe that `isogloss quickstart` runs."""
    return Path(__file__).with_name("quickstart.toml")
