"""A language more for a finished student: rows for what it writes, pairs of it with a replay of the old ones, and a gate.

    open → gather → measure → grow → measure → distil → measure → gate → save

It starts from the student as it is: trained, with its bridge inside. Nothing of the finished run is changed. The new run
gets a model, results and a record only if the gate lets it pass; until then everything is in its `work` folder, where a
refused candidate stays to be looked at. As in `pipeline`, every stage is kept under a name made from its inputs, so the
same command goes on after an interruption.

`finished` finds the student, `replay` mixes the pairs, `vocabulary` grows, `gate` compares, `descent` writes down.
"""

import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from isogloss import recipes
from isogloss.amounts import amount
from isogloss.config import AddingSettings, BridgeSettings, LossSettings, Recipe, as_dict
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.sources import find_sources
from isogloss.corpora.store import Store, leaks_in_words, scan_of, training_data
from isogloss.errors import DataError, IsoglossError, RecipeError
from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.export.card import CardInfo, data_rows, example_sentences, model_card
from isogloss.models.encoder import SentenceEncoder, load
from isogloss.models.loading import choose_device, open_model
from isogloss.models.static import StaticStudent
from isogloss.models.student import MAX_TOKENS, Student
from isogloss.models.vector_cache import refuse_useless
from isogloss.models.vocabulary.grow import Growth
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.exam import Exam
from isogloss.runs.finished import Finished, open_finished, translations
from isogloss.runs.gate import Verdict, judge
from isogloss.runs.gathering import LanguageSubset, gather_source
from isogloss.runs.lineage import added_table, learnt_in_all
from isogloss.runs.models import cache_of
from isogloss.runs.pipeline import RunResult, measured_pairs, pair_counts
from isogloss.runs.record import RECORD, Metrics, Record, peak_memory_gib
from isogloss.runs.replay import Clear, Drawn, Together, draw, held_out_text
from isogloss.runs.run_folder import METRICS, MODEL, PAIRS, REPLAY, RESULTS, run_folder
from isogloss.runs.trackers import Trackers
from isogloss.runs.vocabulary import grow_for
from isogloss.storage import WORK, remove_stale_files, weights_hash, write_json
from isogloss.training.distill import Distillation
from isogloss.training.distributed import Distributed
from isogloss.types import PairSource

logger = logging.getLogger(__name__)

CANDIDATE = "candidate"
KEPT_OF_PAIRS = ("source_language", "dictionaries", "licences", "held_out", "on_error")


class Refused(IsoglossError):
    """An old language lost more than it may. `result` has the scores; its folder is that of the candidate."""

    def __init__(self, message: str, hint: str, result: RunResult) -> None:
        super().__init__(message, hint)
        self.result = result


def add(
    settings: AddingSettings,
    overrides: Sequence[str] = (),
    on_progress: OnProgress = silent,
    fresh: bool = False,
    replace: bool = False,
) -> RunResult:
    """Teach a finished student more languages, and keep the result if no old one loses more than it may.

    `overrides` are `key=value` changes to the recipe of the finished run; `fresh` forgets unfinished work in the new run's
    folder first. A finished model of other settings there is replaced only with `replace`. Raises `Refused` if the gate does
    not let the result pass.
    """
    finished = open_finished(settings.run, settings.teacher, settings.original)
    recipe = recipe_of(finished, settings, overrides)
    folder = Path(recipe.output.folder)
    _refuse_own_folders(folder, finished, settings)
    if recipe.teacher.model:
        refuse_useless(cache_of(recipe))
    if not Distributed.here().is_main_process:
        return _Addition(settings, finished, recipe, silent).walk()
    asked = {name: value for name, value in as_dict(recipe).items() if name != "languages"}  # the record has the old ones too
    record = Path(WORK) / CANDIDATE / RECORD
    with run_folder(folder, {"recipe": asked, "adding": as_dict(settings)}, fresh, replace, record):
        return _Addition(settings, finished, recipe, on_progress).walk()


def recipe_of(finished: Finished, settings: AddingSettings, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe that the student came from, for the new languages and their pairs.

    There is no new bridge. The balance of the old recipe was for its own pairs; here the replay is the balance. A student
    with a multilingual body finds translations of a new language before it puts them where the teacher does, so retrieval
    alone would choose the weights of the start: the cosine to the teacher counts as much.
    """
    if any(one.split("=")[0].strip().startswith("bridge") for one in overrides):
        raise RecipeError("the student has its bridge already, and no other is built", hint="leave bridge.… out of --set")
    new = list(dict.fromkeys(map(canonical, settings.languages)))
    data = deepcopy(finished.recipe)
    for section in ("balance", "bridge"):
        data.pop(section, None)
    if data.get("teacher", {}).get("model") == "":  # a recipe with the bridge of the defaults would be refused
        data["bridge"] = {"enabled": False}
    pairs = {key: value for key, value in data.get("pairs", {}).items() if key in KEPT_OF_PAIRS}
    told = _told(settings.pairs, new, pairs.get("source_language", "en"))
    data["pairs"] = pairs | {"files": list(settings.pairs), "language": told}
    weights = data.get("losses", {})
    taught = weights.get("mse", LossSettings().mse) or weights.get("soft_similarity", 0.0)
    if taught and data.get("training", {}).get("select", "retrieval") == "retrieval":
        data["training"] = data.get("training", {}) | {"select": "both"}
    data["output"] = data.get("output", {}) | {"folder": settings.out}
    data |= {"name": Path(settings.out).name, "languages": new}
    recipe = recipes.parse(data, overrides, f"the recipe of {finished.folder}")
    if not recipe.training.epochs:
        raise RecipeError(
            f"the recipe of {finished.folder} has training.epochs = 0, and a language is added by training",
            hint="add --set training.epochs=4",
        )
    _refuse_known(recipe.languages, finished.languages, recipe)
    return replace(recipe, bridge=BridgeSettings(enabled=False))


def _told(files: Sequence[str], new: Sequence[str], source_language: str) -> str:
    """The one new language, for files whose names say nothing; not where the name of any says another."""
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


def _refuse_own_folders(out: Path, finished: Finished, settings: AddingSettings) -> None:
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

    def __init__(self, settings: AddingSettings, finished: Finished, recipe: Recipe, on_progress: OnProgress) -> None:
        self.settings, self.finished, self.recipe = settings, finished, recipe
        self.began, self.distributed = time.monotonic(), Distributed.here()
        self.out = Path(recipe.output.folder)
        self.work, self.candidate = self.out / WORK, self.out / WORK / CANDIDATE
        if recipe.threads:
            torch.set_num_threads(recipe.threads)
        self.tell = on_progress
        self.record: Record | None = None
        if self.distributed.is_main_process:
            remove_stale_files(self.candidate)
            shutil.rmtree(self.candidate / MODEL, ignore_errors=True)  # of an attempt before this one
            self.record = Record(self.candidate, {"recipe": as_dict(recipe), "adding": as_dict(settings)})
            self.tell = Metrics(self.candidate / METRICS, on_progress)
            self.tell = Trackers(recipe, self.out, self.tell) if recipe.training.trackers else self.tell

    def walk(self) -> RunResult:
        """Go all the way: to a saved student, or to a refusal."""
        with self._timed("pairs"), self.distributed.main_process_first():
            pairs = self._gather()
        sample = measured_pairs(Together((pairs.old, pairs.new)), self.recipe.evaluation)
        questions = AlignmentEvaluator(sample, self.recipe.evaluation.max_candidates)
        self._refuse_unmeasured(questions, pairs.old.languages)
        with self._timed("models"):
            teacher, student = self._open()
        with self._timed("vectors"):
            exam = Exam(questions, teacher, cache_of(self.recipe), self.work, self.tell)
            exam.ask("before", exam.vectors(student, "finished student"))
        with self._timed("vocabulary"):
            growth = grow_for(student, pairs.new, sample, self.recipe, teacher, self.tell)
        details = self._details(pairs, growth)
        with self._timed("vectors of the grown"):
            if growth is not None:
                exam.ask("grown", exam.vectors(student, "grown student"))
            session = Distillation(student, teacher, pairs.trained, self.recipe, self.work, cache_of(self.recipe), self.tell)
        self._note(pairs, teacher, session.key)
        with self._timed("distil"):
            summary = session.train()
        details["training"] = asdict(summary)
        details["changed"] = [*(["vocabulary"] if growth is not None else []), *(["weights"] if summary.best_step else [])]
        with self._timed("measure"):
            exam.ask("after", session.trained_vectors(exam.texts))
        verdict = judge(exam.reports[0], exam.reports[-1], pairs.old.languages, self.settings.gate, self.settings.gate_on)
        details |= {"gate": verdict.as_dict(), "peak_memory_gib": peak_memory_gib(), "recipe": self.recipe.name}
        folder = self.candidate if verdict.over else self.out
        result = RunResult(folder, tuple(exam.reports), time.monotonic() - self.began, summary, details)
        if self.record is None:  # one process saves and says what became of it; the others have done their part
            return result
        with self._timed("save"):
            self._save(result, student, pairs)
        self._conclude(self.record, result, verdict)
        return result

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        if self.record is None:
            yield
            return
        with self.record.timed(stage):
            yield

    # ── what it is made from ────────────────────────────────────────────────────────────────────────────────────────────

    def _gather(self) -> _Pairs:
        recipe = self.recipe
        old = Together(self._old_pairs())
        _refuse_known(recipe.languages, old.languages, recipe)
        found, store = gather_source(recipe, self.out / PAIRS, self.tell)
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
        replay = draw(old, wanted, held, recipe.seed, self.work, self.tell) if wanted else None
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
            {"folder": os.path.relpath(one.folder, self.out), "hash": one.hash, "languages": list(languages)}
            for one, languages in spoken
        ]
        return _Pairs(old, new, store, replay, stores)

    def _old_pairs(self) -> list[LanguageSubset]:
        """Where the finished run says they are, or what the user names."""
        if not self.settings.replay_from:
            return self.finished.old_pairs()
        pairs = replace(self.recipe.pairs, files=self.settings.replay_from, language="")
        recipe = replace(self.recipe, languages=self.finished.languages, pairs=pairs)
        _, store = gather_source(recipe, self.out / REPLAY, lambda step: self.tell(replace(step, stage="old pairs")))
        return [translations(store, self.finished.languages)]

    def _refuse_unmeasured(self, questions: AlignmentEvaluator, old: Sequence[str]) -> None:
        if unseen := sorted(set(old) - set(questions.languages)):
            logger.warning("there are no held-out pairs of %s, so the gate cannot see what they lose", ", ".join(unseen))
        if missing := sorted(set(self.recipe.languages) - set(questions.languages)):
            raise DataError(
                f"there are no held-out pairs of {', '.join(missing)} to measure on",
                hint="raise pairs.held_out (--set pairs.held_out=0.2), or give a split column",
            )

    def _open(self) -> tuple[SentenceEncoder | None, Student]:
        """The teacher, if there is one, and the finished student as it was saved."""
        recipe, device, teacher = self.recipe, choose_device(self.recipe.device), None
        if recipe.teacher.model:
            self.tell(Step("models", 0, 2, "models", f"loading {recipe.teacher.model}"))
            teacher = load(
                recipe.teacher.model, recipe.teacher.prompt, recipe.teacher.batch_size, recipe.device, recipe.teacher.precision
            )
        if teacher is not None and self.finished.teacher not in ("", teacher.fingerprint):
            logger.warning("%s is not as it was when %s learnt from it", recipe.teacher.model, self.finished.folder)
        self.tell(Step("models", 1, 2, "models", f"loading {self.finished.folder}"))
        model = open_model(str(self.finished.model))
        kind = StaticStudent if type(model[0]).__name__ == "StaticEmbedding" else Student
        told = "max_tokens" in self.finished.recipe.get("student", {}) or recipe.student.max_tokens != MAX_TOKENS
        limit = recipe.student.max_tokens if told else None  # of a saved model without a record, what it was stored with
        student = kind(model.to(device), str(self.finished.folder), "", limit)
        self.tell(Step("models", 2, 2, "models"))
        return teacher, student

    # ── what is left behind ─────────────────────────────────────────────────────────────────────────────────────────────

    def _note(self, pairs: _Pairs, teacher: SentenceEncoder | None, student_key: str) -> None:
        if self.record is None:
            return
        everything = replace(self.recipe, languages=(*pairs.old.languages, *self.recipe.languages))
        hashes = {"pairs": pairs.store.hash, "teacher": teacher.fingerprint if teacher else "", "student": student_key}
        learnt = training_data(pairs.store.manifest)
        self.record.note(recipe=as_dict(everything), hashes=hashes, pairs=learnt, stores=pairs.stores)

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
            os.replace(self.candidate / METRICS, self.out / METRICS)
        record.folder = self.out
        record.note(hashes={"weights": weights_hash(result.model)})
        record.finish()
        shutil.rmtree(self.candidate, ignore_errors=True)
