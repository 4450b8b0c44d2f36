"""More languages for a finished student: new vocabulary rows, its pairs with a replay of the old ones, and a gate.

    open → read → measure → grow the vocabulary → measure → distill → measure → gate → save

It starts from the student as it is: trained, with its bridge inside. Nothing of the finished run is changed. The new run
gets a model, results and a record only if the gate accepts it; until then everything is in its `work` folder, where a
refused candidate stays to be looked at. As in `pipeline`, the same command continues after an interruption.

`finished` finds the student, `replay` mixes the pairs, `vocabulary` grows, `gate` compares, `lineage` writes down.
"""

import logging
import os
import shutil
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isogloss import recipes
from isogloss.amounts import amount
from isogloss.config import AddingSettings, AddSettings, LossSettings, Recipe, as_dict
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.sources import find_sources
from isogloss.corpora.store import Store, leaks_in_words, scan_of, training_data
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.export.card import CardInfo, data_rows, example_sentences, model_card
from isogloss.models.encoder import Encoder
from isogloss.models.loading import choose_device, open_model
from isogloss.models.static import StaticStudent
from isogloss.models.student import MAX_TOKENS, Student
from isogloss.models.vector_cache import refuse_useless
from isogloss.models.vocabulary.grow import Growth
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.finished import Finished, open_finished, translations
from isogloss.runs.gate import Verdict, judge
from isogloss.runs.gathering import LanguageSubset, gather_source
from isogloss.runs.lineage import added_table, learnt_in_all
from isogloss.runs.measure import Measurements, measured_pairs, pair_counts
from isogloss.runs.models import open_teacher
from isogloss.runs.record import Record
from isogloss.runs.replay import Clear, Drawn, Together, draw, held_out_text
from isogloss.runs.run import Run, RunResult, StageResult, vector_folder
from isogloss.runs.run_folder import METRICS, MODEL, PAIRS, REPLAY, RESULTS
from isogloss.runs.vocabulary import grow_for
from isogloss.storage import WORK, remove_stale_files, weights_hash, write_json
from isogloss.training.distill import Distillation
from isogloss.types import PairSource

logger = logging.getLogger(__name__)

CANDIDATE = "candidate"
KEPT_OF_PAIRS = ("source_language", "dictionaries", "licences", "held_out", "on_error")


class Refused(IsoglossError):
    """An old language lost more than it may. `result` has the scores; its folder is that of the candidate."""

    def __init__(self, message: str, hint: str, result: RunResult) -> None:
        super().__init__(message, hint)
        self.result = result


def add_languages(recipe: Recipe, on_progress: OnProgress = silent, fresh: bool = False, replace: bool = False) -> RunResult:
    """Do what a recipe with an [add] table says; `recipe_of` makes one. Raises `Refused` if the gate does not accept it."""
    assert recipe.add is not None
    finished = open_finished(recipe.add.run, recipe.add.teacher, recipe.add.original)
    _refuse_known(recipe.languages, finished.languages, recipe)
    _refuse_own_folders(Path(recipe.output.folder), finished, recipe.add)
    if recipe.teacher.model:
        refuse_useless(vector_folder(recipe))
    with Run.open(recipe, on_progress, fresh, replace, Path(WORK) / CANDIDATE) as run:
        return _Addition(run, finished).add()


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

    There is no new bridge. The balance of the old recipe was for its own pairs; here the replay is the balance. A student
    with a multilingual body finds translations of a new language before it puts them where the teacher does, so retrieval
    alone would choose the weights of the start: the cosine to the teacher counts as much.
    """
    if any(one.split("=")[0].strip().startswith("bridge") for one in overrides):
        raise RecipeError("the student has its bridge already, and no other is built", hint="leave bridge.… out of --set")
    new = list(dict.fromkeys(map(canonical, settings.languages)))
    data = deepcopy(finished.recipe)
    for section in ("balance", "bridge", "add", "stage"):
        data.pop(section, None)
    data["bridge"] = {"enabled": False}
    kept = {key: value for key, value in data.get("pairs", {}).items() if key in KEPT_OF_PAIRS}
    language = _only_language(settings.pairs, new, kept.get("source_language", "en"))
    data["pairs"] = kept | {"files": list(settings.pairs), "language": language}
    weights = data.get("losses", {})
    follows = weights.get("mse", LossSettings().mse) or weights.get("soft_similarity", 0.0)
    if follows and data.get("training", {}).get("select", "retrieval") == "retrieval":
        data["training"] = data.get("training", {}) | {"select": "both"}
    data["output"] = data.get("output", {}) | {"folder": settings.out}
    data |= {"name": Path(settings.out).name, "languages": new, "add": as_dict(settings.as_table())}
    recipe = recipes.parse(data, overrides, f"the recipe of {finished.folder}")
    if not recipe.training.epochs:
        raise RecipeError(
            f"the recipe of {finished.folder} has training.epochs = 0, and a language is added by training",
            hint="add --set training.epochs=4",
        )
    _refuse_known(recipe.languages, finished.languages, recipe)
    return recipe


def _only_language(files: Sequence[str], new: Sequence[str], source_language: str) -> str:
    """The one new language, for files whose names do not say it; "" if a name says another."""
    named = {source.language for source in find_sources(files, source_language=source_language)} - {""}
    return new[0] if len(new) == 1 and named <= set(new) else ""


def _refuse_known(new: Sequence[str], old: Sequence[str], recipe: Recipe) -> None:
    for language in new:
        if language == canonical(recipe.pairs.source_language):
            raise RecipeError(f"{language} is the source language, which the teacher knows", hint="name another language")
        if language in old:
            raise RecipeError(
                f"{language} is one of its languages already: {', '.join(old)}",
                hint="to teach it from more pairs, run its recipe again with all of them",
            )


def _refuse_own_folders(out: Path, finished: Finished, settings: AddSettings) -> None:
    """The finished run and the pairs that are replayed are only read."""
    stores = [Path(name) for name in settings.replay_from if Path(name).is_dir()]
    stores += [] if settings.replay_from else [one.store.folder for one in finished.old_pairs()]
    place = out.resolve()
    for own in (finished.model, *stores):
        if own.resolve().is_relative_to(place) or place.is_relative_to(own.resolve()):
            raise IsoglossError(f"{out}: what is in it is read here, and is never changed", hint="name another --out")


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The pairs of all languages: `old` and `new` as they are, `trained` what training sees."""

    old: PairSource
    new: Clear
    store: Store
    replay: Drawn | None
    stores: list[dict[str, Any]]

    @property
    def trained(self) -> PairSource:
        return self.new if self.replay is None else Together((self.new, self.replay))


class _Addition:
    """One way from a finished student to one with more languages."""

    def __init__(self, run: Run, finished: Finished) -> None:
        assert run.recipe.add is not None
        self.run, self.recipe, self.settings, self.finished = run, run.recipe, run.recipe.add, finished
        self.candidate = run.work / CANDIDATE
        if run.record is not None:
            remove_stale_files(self.candidate)
            shutil.rmtree(self.candidate / MODEL, ignore_errors=True)  # of an attempt before this one

    def add(self) -> RunResult:
        """Go all the way: to a saved student, or to a refusal."""
        run, recipe = self.run, self.recipe
        with run.timed("read"), run.distributed.main_process_first():
            pairs = self._gather()
        sample = measured_pairs(Together((pairs.old, pairs.new)), recipe.evaluation)
        evaluator = AlignmentEvaluator(sample, recipe.evaluation.max_candidates)
        self._refuse_unmeasured(evaluator, pairs.old.languages)
        with run.timed("models"):
            teacher, student = self._open()
        with run.timed("measure"):
            measurements = Measurements(evaluator, teacher, run.cache, run.work, run.on_progress)
            before, tokens = measurements.vectors(student, "finished student"), measurements.tokens(student)
            measurements.add("before", before)
        with run.timed("vocabulary"):
            growth = grow_for(student, pairs.new, sample, recipe, teacher, run.on_progress)
        details = self._details(pairs, growth)
        with run.timed("measure"):
            if growth is not None:
                measurements.add("grown", measurements.after_growing(student, before, tokens, "grown student"))
        with run.timed("distill"):
            session = Distillation(student, teacher, pairs.trained, recipe, run.work, run.cache, run.on_progress)
            self._note(pairs, teacher, session.key)
            summary = session.train()
        changed = {"vocabulary": growth is not None, "weights": bool(summary.best_step)}
        details["changed"] = [name for name, has_changed in changed.items() if has_changed]
        with run.timed("measure"):
            measurements.add("after", session.trained_vectors(measurements.texts))
        first, last = measurements.reports[0], measurements.reports[-1]
        verdict = judge(first, last, pairs.old.languages, self.settings.gate_limit, self.settings.gate_on)
        details["gate"] = verdict.as_dict()
        stages = [StageResult("distill", summary, {"pairs": len(session.pairs)})]
        result = replace(
            run.result(measurements.reports, stages, details), folder=self.candidate if verdict.over else run.folder
        )
        if run.record is None:  # the main process saves
            return result
        with run.timed("save"):
            self._save(result, student, pairs)
        self._conclude(run.record, result, verdict)
        return result

    # ── what it is made from ────────────────────────────────────────────────────────────────────────────────────────────

    def _gather(self) -> _Pairs:
        recipe = self.recipe
        old = Together(self._old_pairs())
        _refuse_known(recipe.languages, old.languages, recipe)
        found, store = gather_source(recipe, self.run.folder / PAIRS, self.run.on_progress)
        if store.source_language != old.source_language:
            raise DataError(
                f"the new pairs are from {store.source_language}, those it learnt from are from {old.source_language}",
                hint="a student has one source language: give pairs that have it",
            )
        held = held_out_text(Together((old, found)))
        new = Clear(found, held)
        counts = pair_counts(new)
        train = counts["train"] - counts["source_only"]
        if train <= 0:
            raise DataError(
                f"there are no pairs of {', '.join(recipe.languages)} to train on: {new.left_out:,} have held-out text of the "
                "old languages in them, the others are held out themselves",
                hint="add pairs, or lower pairs.held_out (--set pairs.held_out=0.05)",
            )
        wanted = round(self.settings.replay * train)
        replay = draw(old, wanted, held, recipe.seed, self.run.work, self.run.on_progress) if wanted else None
        if wanted and replay is None:
            raise DataError(
                f"there are no training pairs of {', '.join(old.languages)} to replay",
                hint="name some with --replay-from PAIRS, or do without them: --replay 0",
            )
        spoken = [
            *((one.store, one.languages) for one in old.parts if isinstance(one, LanguageSubset)),
            (store, recipe.languages),
        ]
        stores = [
            {"folder": os.path.relpath(one.folder, self.run.folder), "hash": one.hash, "languages": list(languages)}
            for one, languages in spoken
        ]
        return _Pairs(old, new, store, replay, stores)

    def _old_pairs(self) -> list[LanguageSubset]:
        """Where the finished run says they are, or what the user names."""
        if not self.settings.replay_from:
            return self.finished.old_pairs()
        pairs = self.recipe.pairs.replace(files=self.settings.replay_from, language="")
        recipe = self.recipe.replace(languages=self.finished.languages, pairs=pairs)

        def tell(step: Step) -> None:
            self.run.on_progress(replace(step, stage="old pairs"))

        _, store = gather_source(recipe, self.run.folder / REPLAY, tell)
        return [translations(store, self.finished.languages)]

    def _refuse_unmeasured(self, evaluator: AlignmentEvaluator, old: Sequence[str]) -> None:
        if unseen := sorted(set(old) - set(evaluator.languages)):
            logger.warning("there are no held-out pairs of %s, so the gate cannot see what they lose", ", ".join(unseen))
        if missing := sorted(set(self.recipe.languages) - set(evaluator.languages)):
            raise DataError(
                f"there are no held-out pairs of {', '.join(missing)} to measure on",
                hint="raise pairs.held_out (--set pairs.held_out=0.2), or give a split column",
            )

    def _open(self) -> tuple[Encoder | None, Student]:
        """The teacher, if there is one, and the finished student as it was saved."""
        recipe, device, teacher = self.recipe, choose_device(self.recipe.device), None
        if recipe.teacher.model:
            self.run.on_progress(Step("models", 0, 2, "models", f"loading {recipe.teacher.model}"))
            teacher = open_teacher(recipe)
        if teacher is not None and self.finished.teacher not in ("", teacher.fingerprint):
            logger.warning("%s is not as it was when %s learnt from it", recipe.teacher.model, self.finished.folder)
        self.run.on_progress(Step("models", 1, 2, "models", f"loading {self.finished.folder}"))
        model = open_model(str(self.finished.model))
        kind = StaticStudent if type(model[0]).__name__ == "StaticEmbedding" else Student
        known = "max_tokens" in self.finished.recipe.get("student", {}) or recipe.student.max_tokens != MAX_TOKENS
        limit = recipe.student.max_tokens if known else None  # of a saved model without a record, what it was stored with
        student = kind(model.to(device), str(self.finished.folder), "", limit)
        self.run.on_progress(Step("models", 2, 2, "models"))
        return teacher, student

    # ── what is left behind ─────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, pairs: _Pairs, teacher: Encoder | None, student_key: str) -> None:
        everything = self.recipe.replace(languages=(*pairs.old.languages, *self.recipe.languages))
        hashes = {"pairs": pairs.store.hash, "teacher": teacher.fingerprint if teacher else "", "student": student_key}
        learnt = training_data(pairs.store.manifest)
        self.run.note(recipe=as_dict(everything), hashes=hashes, pairs=learnt, stores=pairs.stores)

    def _details(self, pairs: _Pairs, growth: Growth | None) -> dict[str, Any]:
        replayed = {} if pairs.replay is None else pairs.replay.counts
        return {
            "store": str(pairs.store.folder),
            "leak_scan": scan_of(pairs.store.manifest),
            "student": {"growth": growth.as_dict()} if growth else {},
            "pairs": pair_counts(pairs.new) | {"touched_held_out": pairs.new.left_out, "replayed": replayed},
            "added_to": str(self.finished.folder),
            "added": list(self.recipe.languages),
        }

    def _save(self, result: RunResult, student: Student, pairs: _Pairs) -> None:
        recipe, counts, replayed = self.recipe, result.details["pairs"], result.details["pairs"]["replayed"]
        today = datetime.now(UTC).date().isoformat()
        entry = {
            "languages": list(recipe.languages),
            "when": today,
            "pairs": counts["train"],
            "replayed": sum(replayed.values()),
            "changed": result.details["changed"],
        }
        before = self.finished.training
        added = [*(before or {}).get("added", []), entry]
        trained_on = f"{amount(counts['train'], 'pair')} of {', '.join(recipe.languages)}, added to a finished model, and "
        trained_on += f"{amount(entry['replayed'], 'replayed pair')} of its earlier languages"
        trained_on += "" if "weights" in entry["changed"] else "; training did not improve it, so the weights are unchanged"
        languages = sorted({*pairs.old.languages, *recipe.languages, pairs.old.source_language})
        training = learnt_in_all(before, training_data(pairs.store.manifest)) | {"added": added}
        info = CardInfo(
            name=recipe.name,
            description=f"`{recipe.student.model}` distilled from `{recipe.teacher.model}` with isogloss on {trained_on}.",
            base_model=recipe.student.model,
            teacher=recipe.teacher.model,
            languages=languages,
            tags=("distillation",),
            reports=result.reports,
            data=data_rows(training),
            leak_scan=leaks_in_words(result.details["leak_scan"]),
            notes=[added_table(added)],
            examples=example_sentences(pairs.new),
        )
        student.model.to("cpu")
        student.save_pretrained(result.model, model_card(info, student.model), training)
        write_json(result.folder / RESULTS, result.as_dict())

    def _conclude(self, record: Record, result: RunResult, verdict: Verdict) -> None:
        """The model and its results are in place: say what became of it, in the record, last of all."""
        if verdict.over:
            record.note(status="refused")
            raise Refused(
                f"{verdict.refusal()}: {' and '.join(self.recipe.languages)} not added",
                f"the candidate is in {result.folder}; replay more (--replay {2 * max(self.settings.replay, 0.5):g}), lower "
                "training.learning_rate, or take it as it is with --gate off",
                result,
            )
        if (self.candidate / METRICS).is_file():  # not if training was finished before
            os.replace(self.candidate / METRICS, self.run.folder / METRICS)
        record.folder = self.run.folder
        record.note(hashes={"weights": weights_hash(result.model)})
        record.finish()
        shutil.rmtree(self.candidate, ignore_errors=True)
