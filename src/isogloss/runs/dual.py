"""A dual encoder from translations, without a teacher: mUSE and LaBSE, from files to a measured and saved model.

    read, clean → (masked language modelling) → round 1 → hard negatives by its model → round 2, from the same start → save

A round trains one student for all its tasks: translation ranking, and beside it inference and answers where there are files
(`training/tasks/rank.py`, `training/tasks/sentence_pairs.py`). In a second round the student goes back to the weights the first
began with, and is trained again with the wrong translations that the first one's model took for near: so mUSE was made, by the
account of Reimers & Gurevych (2020). `dual_rounds` has these stages, `dual_settings` what each paper chose. Every stage keeps
checkpoints and what was measured after it: the same command goes on, and once it has finished, only looks all that up.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.config import Recipe, as_dict
from isogloss.corpora.store import Store, leaks_in_words, scan_of, training_data
from isogloss.errors import DataError
from isogloss.evaluation import alignment
from isogloss.export.card import CardInfo, DataRow, data_rows, example_sentences, model_card
from isogloss.models.loading import choose_device, open_model
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.dual_rounds import OtherText, Rounds, pooled_by
from isogloss.runs.dual_settings import TABLES, DualSettings, with_recipe
from isogloss.runs.gathering import gather_source
from isogloss.runs.models import text_blocks
from isogloss.runs.pipeline import measured_pairs, pair_counts
from isogloss.runs.record import Record
from isogloss.runs.run_folder import MODEL, PAIRS, RESULTS, run_folder
from isogloss.shapes import COUNT, Exactly, check, fields_shape
from isogloss.storage import WORK, canonical_json, content_hash, read_json, weights_hash, write_json
from isogloss.training.tasks.mlm import with_mask_token
from isogloss.types import TEST, LanguageScores, PairSource, Report


@dataclass(frozen=True, slots=True)
class DualResult:
    """What a training gives back: where the model is, how it did after each stage, and what there is to know of each."""

    folder: Path
    reports: tuple[Report, ...]
    seconds: float
    details: dict[str, Any]

    @property
    def model(self) -> Path:
        """The folder that `SentenceTransformer` loads."""
        return self.folder / MODEL

    def as_dict(self) -> dict[str, Any]:
        """The results as they are written to results.json."""
        stages = {
            report.model: {
                "average": _retrieval(report.average()),
                "languages": {one.language: _retrieval(one) for one in report.scores},
            }
            for report in self.reports
        }
        candidates = self.reports[0].candidates if self.reports else 0
        times = {"seconds": round(self.seconds, 1)}
        return {"model": str(self.model), "candidates": candidates, "stages": stages, **times, **self.details}


def _retrieval(score: Any) -> dict[str, float]:  # noqa: ANN401 - a LanguageScores
    return {name: round(getattr(score, name), 4) for name in ("queries", "to_source", "from_source")}


def train_dual(
    pairs: str | Sequence[str],
    student: str = "multilingual-e5-small",
    out: str | Path = "runs/dual",
    like: str = "",
    on_progress: OnProgress = silent,
    fresh: bool = False,
    overrides: Sequence[str] = (),
    replace: bool = False,
    **settings: Any,  # noqa: ANN401 - the fields of DualSettings
) -> DualResult:
    """Train a dual encoder on translations, `like` "labse", "muse", or as the other settings say (`DualSettings`).

    `overrides` are `key=value` for these settings by name, and for the recipe's [pairs], [cleaning], [leaks] and [evaluation].
    Interrupted, the same call goes on where it was; `fresh` forgets unfinished work first. A finished model of
    other settings is replaced only with `replace`.
    """
    files = (pairs,) if isinstance(pairs, str) else tuple(pairs)
    chosen, recipe = with_recipe(like, {**settings, "pairs": files, "student": student, "out": str(out)}, overrides)
    folder = Path(chosen.out)
    tables = {name: as_dict(getattr(recipe, name)) for name in TABLES}
    with run_folder(folder, {"settings": as_dict(chosen), "recipe": tables}, fresh, replace):
        return _Dual(chosen, recipe, folder, on_progress).run()


@dataclass(slots=True)
class _Dual:
    """One training, from its files to its model."""

    settings: DualSettings
    recipe: Recipe
    folder: Path
    on_progress: OnProgress
    reports: list[Report] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def run(self) -> DualResult:
        """All stages in order."""
        began = time.monotonic()
        tables = {name: as_dict(getattr(self.recipe, name)) for name in TABLES}
        record = Record(self.folder, {"verb": "train-dual", "settings": as_dict(self.settings), "recipe": tables})
        with record.timed("pairs"):
            others = OtherText.read(self.settings)
            source, store = gather_source(self.recipe, self.folder / PAIRS, self.on_progress)
        counts = pair_counts(source)
        if counts["train"] < 2:  # said before a model is loaded
            found = amount(counts["train"], "pair")
            raise DataError(f"{found} to train on, but a translation is told from those of other pairs", hint="add pairs")
        questions = self._questions(source)
        asked = content_hash(source.hash, canonical_json(tables["evaluation"]))
        with record.timed("models"):
            student = self._student(source, others)
        with record.timed("measure"):
            self._ask("untouched", student, questions, asked)
        self._prepare(student)
        self._train(record, student, source, others, questions, asked)
        self.details |= {"student": self.settings.student, "pairs": counts, "other": others.counts()}
        with record.timed("save"):
            self._save(student, source, store, others)
        result = DualResult(self.folder, tuple(self.reports), time.monotonic() - began, self.details)
        write_json(self.folder / RESULTS, result.as_dict())
        record.note(hashes={"pairs": source.hash, "other": others.hash, "weights": weights_hash(result.model)})
        record.finish()
        return result

    def _train(
        self,
        record: Record,
        student: Student,
        source: PairSource,
        others: OtherText,
        questions: alignment.AlignmentEvaluator | None,
        asked: str,
    ) -> None:
        """All rounds, each measured when it has ended."""
        with record.timed("train"):
            rounds = Rounds(self.settings, student, source, others, self.folder, self.on_progress)
            stages = rounds.stages()
        self.details["dev_pairs"] = 0 if rounds.dev is None else len(rounds.dev)
        while True:
            with record.timed("train"):
                name = next(stages, None)
            if name is None:
                break
            with record.timed("measure"):
                self._ask(name, student, questions, asked)
        self.details["training"] = rounds.summaries

    def _questions(self, source: PairSource) -> alignment.AlignmentEvaluator | None:
        """What the student is asked after each stage; None where nothing is held out."""
        limits = self.recipe.evaluation
        held = measured_pairs(source, limits)
        return alignment.AlignmentEvaluator(held, limits.max_candidates) if len(held.where(split=TEST)) else None

    def _student(self, source: PairSource, others: OtherText) -> Student:
        """The student as it comes, but for its vocabulary."""
        one = self.settings
        self.on_progress(Step("models", 0, 1, "models", f"loading {one.student}"))
        student = Student(open_model(one.student).to(choose_device(one.device)), one.student, one.prompt, one.max_tokens)
        if one.trim != "off":
            texts = [(source.source_language, others.sentences())] if others.counts() else []
            self.details["trimming"] = student.trim(chain(text_blocks(source), texts), one.trim).as_dict()
        self.on_progress(Step("models", 1, 1, "models"))
        return student

    def _prepare(self, student: Student) -> None:
        """Let it have the mask token and the pooling that it is trained with."""
        one = self.settings
        if one.mlm or one.tlm:
            with_mask_token(student)
        pooled_by(student, one.pooling)
        if one.normalize:
            student.add_normalization()

    def _ask(self, name: str, student: Student, questions: alignment.AlignmentEvaluator | None, asked: str) -> None:
        """Measure the student as it is now; a report on the same weights and questions (`asked` names these) is kept."""
        if questions is None:
            return
        path = self.folder / WORK / f"measured-{content_hash(student.fingerprint, asked)[:16]}.json"
        stage, texts = f"measuring, {name}", questions.texts()
        report = _kept_report(path, name)
        if report is not None:
            self.on_progress(Step(stage, len(texts), len(texts), "sentences", "reused"))
        else:
            vectors = student.encode(texts, self.on_progress, stage)
            rows = alignment.Rows({text: row for row, text in enumerate(texts)}, vectors)
            report = questions.ask(name, rows, None)
            write_json(path, {"candidates": report.candidates, "scores": [asdict(one) for one in report.scores]})
        self.reports.append(report)

    def _save(self, student: Student, source: PairSource, store: Store, others: OtherText) -> None:
        """Write the model. Text beside the pairs was scanned for no test set, so then nothing is said of a scan."""
        learnt = training_data(store.manifest) | {"other_text": others.counts()}
        if others.counts():
            del learnt["leak_scan"]
        student.model.to("cpu")
        info = self._card_info(source, store, others)
        student.save_pretrained(self.folder / MODEL, model_card(info, student.model), learnt)

    def _card_info(self, source: PairSource, store: Store, others: OtherText) -> CardInfo:
        one, counts = self.settings, self.details["pairs"]
        rounds = f" in {one.rounds} rounds with {one.hard_negatives} hard negatives per pair" if one.rounds > 1 else ""
        unscanned = f" Not scanned: {', '.join(others.counts())}." if others.counts() else ""
        return CardInfo(
            name=self.folder.name,
            description=f"`{one.student}` trained as a dual encoder{f' like {one.like}' if one.like else ''} with isogloss on "
            f"{amount(counts['train'], 'translation pair')}: {', '.join(one.tasks)}{rounds}, margin {one.margin:g}, "
            f"seed {one.seed}.",
            base_model=one.student,
            languages=sorted({*source.languages, source.source_language}),
            tags=("dual-encoder",),
            reports=self.reports,
            data=[
                *data_rows(training_data(store.manifest)),
                *(DataRow(name, count) for name, count in others.counts().items()),
            ],
            leak_scan=leaks_in_words(scan_of(store.manifest)) + unscanned,
            examples=example_sentences(source),
        )


def _kept_report(path: Path, name: str) -> Report | None:
    """What was measured before; None if nothing was, or if it cannot be read."""
    try:
        kept = check(read_json(path), {"scores": [Exactly(fields_shape(LanguageScores))], "candidates": COUNT})
    except (OSError, ValueError):
        return None
    return Report(name, tuple(LanguageScores(**one) for one in kept["scores"]), kept["candidates"])
