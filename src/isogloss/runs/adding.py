"""Add languages to a finished student: new vocabulary rows, training on the new pairs with a replay of old ones, and a gate.

    open → read → measure → grow the vocabulary → measure → distill → measure → gate → save

Training starts from the finished student, with its bridge. The finished run is not changed. The new run has its model, results
and record in `work/candidate` until the gate accepts them; a refused candidate stays there. As in `pipeline`, the same command
continues after an interruption.
"""

import logging
import os
import shutil
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isogloss import recipes
from isogloss.amounts import amount
from isogloss.config import AddingSettings, AddSettings, LossSettings, PairsSettings, Recipe, as_dict
from isogloss.config.sections import FIXED_TEACHER_LOSSES
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.sources import find_sources
from isogloss.corpora.store import Store, leak_scan_of, training_data
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.evaluation.leak_report import recorded_scan
from isogloss.models.encoder import Encoder
from isogloss.models.student import MAX_TOKENS, Student
from isogloss.models.vector_cache import refuse_useless
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.card import card_info, save_student
from isogloss.runs.finished import Finished, StorePart, combined_training, open_finished, target_languages
from isogloss.runs.gate import judge
from isogloss.runs.gathering import gather_source, language_subset
from isogloss.runs.measure import BEFORE, Measurements, measured_pairs, measured_queries, pair_counts
from isogloss.runs.models import open_teacher
from isogloss.runs.replay import draw, held_out_text, together, without_held_out
from isogloss.runs.run import Run, RunResult, StageResult, refuse_overlap, vector_folder
from isogloss.runs.run_folder import METRICS, MODEL, PAIRS, REPLAY, RESULTS
from isogloss.runs.vocabulary import grow_for
from isogloss.storage import WORK, remove_stale_files, write_json
from isogloss.training.distillation import Distillation
from isogloss.types import PairSource, PairView

logger = logging.getLogger(__name__)

CANDIDATE = "candidate"
KEPT_OF_PAIRS = ("source_language", "dictionaries", "licenses", "held_out", "max_per_language", "max_per_corpus", "on_error")


class Refused(IsoglossError):
    """An old language lost more than the gate allows. `result` has the scores and the candidate's folder."""

    def __init__(self, message: str, hint: str, result: RunResult) -> None:
        super().__init__(message, hint)
        self.result = result


def add_languages(recipe: Recipe, on_progress: OnProgress = silent, fresh: bool = False, replace: bool = False) -> RunResult:
    """Run a recipe with an [add] table, as `recipe_of` makes it. Raises `Refused` if the gate does not accept the result."""
    assert recipe.add is not None
    finished = open_finished(recipe.add.run, recipe.add.teacher, recipe.add.original)
    _refuse_known(recipe.languages, finished.languages, recipe)
    stores = recipe.add.replay_from or [store.folder for store, _ in finished.old_pairs()]
    refuse_overlap(recipe.output.folder, (finished.model, *stores))
    if recipe.teacher.model:
        refuse_useless(vector_folder(recipe))
    with Run.open(recipe, on_progress, fresh, replace, Path(WORK) / CANDIDATE) as run:
        return _add(run, finished, recipe.add)


def add(
    settings: AddingSettings,
    overrides: Sequence[str] = (),
    on_progress: OnProgress = silent,
    fresh: bool = False,
    replace: bool = False,
) -> RunResult:
    """Fill in a recipe that adds languages to a finished student, and run it; `overrides` are `key=value` changes to it."""
    finished = open_finished(settings.run, settings.teacher, settings.original)
    return add_languages(recipe_of(finished, settings, overrides), on_progress, fresh, replace)


def recipe_of(finished: Finished, settings: AddingSettings, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe that the finished student came from, for the new languages and their pairs.

    There is no new bridge, and the replay takes the place of [balance]. A student with a multilingual body retrieves
    translations of a new language even before its embeddings are close to the teacher's. Selecting by retrieval alone would
    keep the initial weights, so the distance to the teacher counts, too.
    """
    if any(override.strip().startswith("bridge") for override in overrides):
        raise RecipeError("the student already has its bridge, which is kept", hint="leave bridge.… out of --set")
    new = list(dict.fromkeys(map(canonical, settings.languages)))
    dropped = ("balance", "stage")
    data = {name: value for name, value in deepcopy(finished.recipe).items() if name not in dropped}
    kept = {key: value for key, value in data.get("pairs", {}).items() if key in KEPT_OF_PAIRS}
    source_language = kept.get("source_language", PairsSettings().source_language)
    data["pairs"] = kept | {"files": list(settings.pairs), "language": _only_language(settings.pairs, new, source_language)}
    data["bridge"] = {"enabled": False}
    losses, training = dict(LossSettings()) | data.get("losses", {}), data.get("training", {})
    if training.get("select") == "retrieval" and any(losses[name] for name in FIXED_TEACHER_LOSSES):
        data["training"] = training | {"select": "both"}
    data["output"] = data.get("output", {}) | {"folder": settings.out}
    data["add"] = {name: value for name, value in as_dict(settings).items() if name in AddSettings.model_fields}
    data |= {"name": Path(settings.out).name, "languages": new}
    recipe = recipes.parse(data, overrides, f"the recipe of {finished.folder}")
    if not recipe.training.epochs:
        raise RecipeError(
            f"training.epochs is 0 in the recipe of {finished.folder}, but adding a language needs training",
            hint="add --set training.epochs=4",
        )
    _refuse_known(recipe.languages, finished.languages, recipe)
    return recipe


def _only_language(files: Sequence[str], new: Sequence[str], source_language: str) -> str:
    """The new language if there is only one and no file name says another; else empty."""
    named = {source.language for source in find_sources(files, source_language=source_language)} - {""}
    return new[0] if len(new) == 1 and named <= set(new) else ""


def _refuse_known(new: Sequence[str], old: Sequence[str], recipe: Recipe) -> None:
    for language in new:
        if language == canonical(recipe.pairs.source_language):
            raise RecipeError(f"{language} is the source language, which the teacher knows", hint="name another language")
        if language in old:
            raise RecipeError(
                f"{language} is already one of its languages: {', '.join(old)}",
                hint="to train it on more pairs, run its recipe again with all of them",
            )


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The old pairs, the new ones, those that are replayed (None: no replay), and the stores for the record."""

    old: PairView
    new: PairView
    store: Store
    left_out: int
    replay: PairView | None
    stores: list[dict[str, Any]]

    @property
    def trained(self) -> PairSource:
        return self.new if self.replay is None else together((self.new, self.replay))


def _add(run: Run, finished: Finished, settings: AddSettings) -> RunResult:
    recipe, candidate = run.recipe, run.work / CANDIDATE
    if run.record is not None:
        remove_stale_files(candidate)
        shutil.rmtree(candidate / MODEL, ignore_errors=True)  # of an earlier attempt
    with run.timed("read"), run.distributed.main_process_first():
        pairs = _gather(run, finished, settings)
    sample = measured_pairs(together((pairs.old, pairs.new)), recipe.evaluation)
    evaluator = AlignmentEvaluator(sample, recipe.evaluation.max_candidates)
    _refuse_unmeasured(evaluator, pairs.old.languages, recipe.languages)
    queries = measured_queries(recipe.evaluation, evaluator.languages)
    with run.timed("models"):
        teacher, student = _open(run, finished)
    with run.timed("measure"):
        measurements = Measurements(run, evaluator, queries, teacher, student)
        measurements.measure(BEFORE)
    with run.timed("vocabulary"):
        growth = grow_for(student, pairs.new, sample, recipe, teacher, run.on_progress)
    with run.timed("measure"):
        if growth is not None:
            measurements.measure("grown")
    with run.timed("distill"):
        session = Distillation(student, teacher, pairs.trained, recipe, run.work, run.cache, run.on_progress)
        everything = recipe.replace(languages=(*pairs.old.languages, *recipe.languages))
        hashes = {"pairs": pairs.store.hash, "teacher": teacher.fingerprint if teacher else "", "student": session.key}
        run.note(recipe=as_dict(everything), hashes=hashes, pairs=training_data(pairs.store.manifest), stores=pairs.stores)
        summary = session.train()
    with run.timed("measure"):
        measurements.add("after", session.trained_vectors(measurements.texts))
        near_teacher = teacher is None or bool(recipe.losses.mse)
        lost, setback = measurements.regressions(near_teacher, trained=bool(summary.best_step))
    reports = measurements.reports
    verdict = judge(reports[0], reports[-1], pairs.old.languages, settings)
    replayed = {} if pairs.replay is None else {one: pairs.replay.counts.total(language=one) for one in pairs.replay.languages}
    details = {
        "store": str(pairs.store.folder),
        "leak_scan": leak_scan_of(pairs.store.manifest),
        "student": {"growth": asdict(growth)} if growth else {},
        "pairs": pair_counts(pairs.new) | {"touched_held_out": pairs.left_out, "replayed": replayed},
        "added_to": str(finished.folder),
        "added": list(recipe.languages),
        "changed": [*(["vocabulary"] if growth else []), *(["weights"] if summary.best_step else [])],
        "gate": verdict.as_dict(),
        "regressions": lost,
    }
    stage = StageResult("distill", summary, {"pairs": len(session.pairs)}).with_setback(setback)
    result = run.result(reports, [stage], details)
    retrieved = measurements.retrieval(recorded_scan(training_data(pairs.store.manifest)))
    details = result.details | measurements.uncertainty_and_bias()
    result = replace(result, folder=candidate if verdict.over else run.folder, retrieval=retrieved, details=details)
    if run.record is None:  # the main process saves
        return result
    with run.timed("save"):
        _save(recipe, result, student, pairs, finished.training)
    if verdict.over:
        write_json(candidate / RESULTS, result.as_dict())
        run.note(status="refused")
        raise Refused(
            f"{verdict.refusal()}: {' and '.join(recipe.languages)} not added",
            f"the candidate is in {candidate}; replay more (--replay {2 * max(settings.replay, 0.5):g}), lower "
            "training.learning_rate, or accept it with --gate off",
            result,
        )
    if (candidate / METRICS).is_file():  # not if training was finished before
        os.replace(candidate / METRICS, run.folder / METRICS)
    run.record.folder = run.folder
    run.finish(result)
    shutil.rmtree(candidate, ignore_errors=True)
    return result


def _gather(run: Run, finished: Finished, settings: AddSettings) -> _Pairs:
    """The old pairs, the new ones without held-out text of the old ones, and the sample that is replayed."""
    recipe = run.recipe
    parts = _old_stores(run, finished, settings)
    old = together([language_subset(*part) for part in parts])
    _refuse_known(recipe.languages, old.languages, recipe)
    found, store = gather_source(recipe, run.folder / PAIRS, run.on_progress)
    if store.source_language != old.source_language:
        raise DataError(
            f"the source language of the new pairs is {store.source_language}, that of the old ones {old.source_language}",
            hint="give pairs with the same source language",
        )
    held = held_out_text(together((old, found)))
    new = without_held_out(found, held)
    left_out = len(found) - len(new)
    counts = pair_counts(new)
    train = counts["train"] - counts["source_only"]
    if train <= 0:
        raise DataError(
            f"there are no pairs of {', '.join(recipe.languages)} to train on: {left_out:,} have held-out text of the "
            "old languages in them, the others are held out themselves",
            hint="add pairs, or lower pairs.held_out (--set pairs.held_out=0.05)",
        )
    wanted = round(settings.replay * train)
    replay = draw(old, wanted, held, recipe.seed, run.on_progress) if wanted else None
    if wanted and replay is None:
        raise DataError(
            f"there are no training pairs of {', '.join(old.languages)} to replay",
            hint="name some with --replay-from PAIRS, or train without them: --replay 0",
        )
    stores = [
        {"folder": os.path.relpath(part.folder, run.folder), "hash": part.hash, "languages": list(languages)}
        for part, languages in (*parts, (store, recipe.languages))
    ]
    return _Pairs(old, new, store, left_out, replay, stores)


def _old_stores(run: Run, finished: Finished, settings: AddSettings) -> list[StorePart]:
    """The stores of the finished run, or one made from the files that the user names."""
    if not settings.replay_from:
        return finished.old_pairs()
    pairs = run.recipe.pairs.replace(files=settings.replay_from, language="")
    recipe = run.recipe.replace(languages=finished.languages, pairs=pairs)
    _, store = gather_source(recipe, run.folder / REPLAY, lambda step: run.on_progress(replace(step, stage="old pairs")))
    return [target_languages(store, finished.languages)]


def _refuse_unmeasured(evaluator: AlignmentEvaluator, old: Sequence[str], new: Sequence[str]) -> None:
    if unseen := sorted(set(old) - set(evaluator.languages)):
        logger.warning("there are no held-out pairs of %s, so the gate cannot check them", ", ".join(unseen))
    if missing := sorted(set(new) - set(evaluator.languages)):
        raise DataError(
            f"there are no held-out pairs of {', '.join(missing)} to measure on",
            hint="raise pairs.held_out (--set pairs.held_out=0.2), or give a split column",
        )


def _open(run: Run, finished: Finished) -> tuple[Encoder | None, Student]:
    """The teacher, if there is one, and the finished student as it was saved."""
    recipe = run.recipe
    teacher = open_teacher(recipe, run.on_progress)
    if teacher is not None and finished.teacher not in ("", teacher.fingerprint):
        logger.warning("%s has changed since %s was trained with it", recipe.teacher.model, finished.folder)
    count = 1 if teacher is None else 2
    run.on_progress(Step("models", count - 1, count, "models", f"loading {finished.folder}"))
    known = "max_tokens" in finished.recipe.get("student", {}) or recipe.student.max_tokens != MAX_TOKENS
    limit = recipe.student.max_tokens if known else None  # a saved model without a record has its own
    student = Student.from_pretrained(str(finished.model), max_tokens=limit, device=recipe.device)
    run.on_progress(Step("models", count, count, "models"))
    return teacher, student


def _save(recipe: Recipe, result: RunResult, student: Student, pairs: _Pairs, before: Mapping[str, Any] | None) -> None:
    counts, changed = result.details["pairs"], result.details["changed"]
    entry = {
        "languages": list(recipe.languages),
        "when": datetime.now(UTC).date().isoformat(),
        "pairs": counts["train"],
        "replayed": sum(counts["replayed"].values()),
        "changed": changed,
    }
    added = [*(before or {}).get("added", []), entry]
    trained_on = f"{amount(counts['train'], 'pair')} of {', '.join(recipe.languages)}, added to a finished model, and "
    trained_on += f"{amount(entry['replayed'], 'replayed pair')} of its earlier languages"
    trained_on += "" if "weights" in changed else "; training did not improve it, so the weights are unchanged"
    training = combined_training(before, training_data(pairs.store.manifest)) | {"added": added}
    info = card_info(recipe, result, together((pairs.new, pairs.old)), training, trained_on)
    save_student(recipe, student, result.model, replace(info, notes=[_added_table(added)]), training)


def _added_table(added: Sequence[Mapping[str, Any]]) -> str:
    """A section of the model card: which languages were added when, with how many pairs, and what changed."""
    lines = ["## Added languages", "", "| added | languages | pairs | old pairs replayed | changed |", "|---|---|---|---|---|"]
    for entry in added:
        changed = ", ".join(entry["changed"]) or "nothing" if "changed" in entry else "–"  # of an earlier version
        cells = entry["when"], ", ".join(entry["languages"]), f"{entry['pairs']:,}", f"{entry['replayed']:,}", changed
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
