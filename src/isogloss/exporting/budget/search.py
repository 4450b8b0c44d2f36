"""The search for the best form of a model that fits: predict sizes, measure what fits, write the best.

    OUT/model/          the best form that fits
    OUT/frontier.json   everything that was tried; frontier.html and frontier.svg show it
    OUT/work/           models that were trained again, and measurements

What is in OUT/work is reused, so the same command continues after an interruption.
"""

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from isogloss.config.exporting import BudgetSettings, Precision
from isogloss.errors import IsoglossError
from isogloss.exporting.budget.card import BudgetCard
from isogloss.exporting.budget.forms import Form, Forms
from isogloss.exporting.budget.frontier import Candidate, Tried, best_within
from isogloss.exporting.budget.megabytes import in_megabytes, parse_budget
from isogloss.exporting.budget.result import Budgeted, Original, write_frontier
from isogloss.exporting.budget.retraining import ShortModels
from isogloss.exporting.budget.scores import HalvesMeasured, Scorer, is_split, sentences_per_second, spread_texts
from isogloss.exporting.budget.shipping import Graphs, folder_bytes, graphs, ship, temporary_model
from isogloss.exporting.budget.sizes import Sizes
from isogloss.exporting.export import default_folder
from isogloss.exporting.source import ExportSource
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.models.saving import refuse_other_content
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.record import versions
from isogloss.shapes import as_type
from isogloss.storage import WORK, atomic_write, content_hash, folder_lock, read_json, remove_stale_files, write_json
from isogloss.types import FloatArray

logger = logging.getLogger(__name__)

MODEL = "model"
STAGE = "measuring what fits"


def export_within_budget(
    model: str,
    budget: str,
    out: Path | str | None = None,
    *,
    pairs: Sequence[str] = (),
    teacher: str | None = None,
    settings: BudgetSettings | None = None,
    on_progress: OnProgress = silent,
) -> Budgeted:
    """Write the best form of a model that fits into a budget such as "60MB", as an ONNX folder.

    Tries smaller vocabularies, fewer layers, shorter embeddings and other precisions; models that lost layers are trained again
    for a moment. `out` is by default `export/budget` in the run's folder. What was computed is kept in it, so the same call
    continues after an interruption, and another budget reuses it.
    """
    allowed = parse_budget(budget)
    settings = settings or BudgetSettings()
    source = ExportSource(model, settings, pairs, teacher, on_progress)
    folder = Path(out) if out is not None else default_folder(source, "budget")
    refuse_other_content(folder / MODEL)
    with folder_lock(folder, "another isogloss is writing to this folder", "wait for it, or name another --out"):
        for place in (folder, folder / WORK):
            remove_stale_files(place)
        return BudgetSearch(source, allowed, settings, folder).run()


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a measurement."""

    size: int
    sentences_per_second: float
    measured: HalvesMeasured


class BudgetSearch:
    """All candidates of one model within one budget."""

    def __init__(self, source: ExportSource, budget: int, settings: BudgetSettings, folder: Path) -> None:
        self.source, self.budget, self.settings, self.folder = source, budget, settings, folder
        self.work = folder / WORK
        self.short = ShortModels(source, settings, self.work)
        self.forms = Forms(source, settings, self.short)
        self._scorers: dict[int, Scorer] = {}

    def run(self) -> Budgeted:
        """Predict, measure, choose, write."""
        predicted = self.predicted()
        self._refuse_if_nothing_fits(predicted)
        fitting = [(form, precision) for (form, precision), size in predicted.items() if size <= self.budget]
        kept: dict[tuple[Form, Precision], Kept] = {}
        for form in dict.fromkeys(form for form, _precision in fitting):
            wanted = [precision for one, precision in fitting if one == form]
            kept |= {(form, precision): found for precision, found in self.measured(form, wanted).items()}
            self.source.on_progress(Step(STAGE, len(kept), len(fitting), "candidates"))
        tried = {key: _tried(*key, size, kept.get(key)) for key, size in predicted.items()}
        best = best_within(list(tried.values()), self.budget)
        if best is None:  # the prediction was a little too low
            raise self._nothing_fits(min(one.bytes for one in tried.values() if one.measured))
        chosen = next(key for key, one in tried.items() if one is best)
        original = self.original()
        size = self._write(*chosen, kept[chosen], original)
        result = Budgeted(
            folder=self.folder,
            model=self.folder / MODEL,
            budget=self.budget,
            best=best,
            tried=tuple(sorted(tried.values(), key=lambda one: one.bytes)),
            original=original,
            languages=kept[chosen].measured.languages,
            size=size,
            halves=is_split(self.scorer(self.source.student.dimension).evaluator),
            cut_index=best.candidate.dimension != self.source.student.dimension and self.source.teacher is not None,
            all_layers=self.forms.all_layers,
            losses=kept[chosen].measured.losses,
            name=self.source.title,
        )
        if result.warning:
            logger.warning("%s", result.warning)
        write_frontier(result)
        return result

    def predicted(self) -> dict[tuple[Form, Precision], int]:
        """The bytes of every candidate, computed once."""
        wanted, forms = self.settings.precisions, self.forms.all()
        named = self.source.student.fingerprint, self.forms.text_key, repr(forms), *wanted, versions()["isogloss"]
        path = self.work / f"sizes-{content_hash(*named)[:16]}.json"
        keys = [(form, precision) for form in forms for precision in wanted]
        try:
            kept = as_type(read_json(path)["sizes"], list[int])
            return dict(zip(keys, kept, strict=True))
        except (OSError, ValueError, KeyError, TypeError):
            found = self._predicted(forms)
            write_json(path, {"sizes": [found[key] for key in keys]})
            return found

    def _predicted(self, forms: Sequence[Form]) -> dict[tuple[Form, Precision], int]:
        sizes = Sizes(self.forms, self.settings.precisions, self._card.blank, self.work)
        found: dict[tuple[Form, Precision], int] = {}
        for done, form in enumerate(forms, 1):
            found |= {(form, precision): sizes(form, precision) for precision in self.settings.precisions}
            self.source.on_progress(Step("predicting sizes", done, len(forms), "forms"))
        return found

    def _refuse_if_nothing_fits(self, predicted: dict[tuple[Form, Precision], int]) -> None:
        (form, precision), smallest = min(predicted.items(), key=lambda item: item[1])
        if smallest > self.budget:
            raise self._nothing_fits(smallest, f" ({form.describe(self.forms.all_layers)}, {precision})")

    def _nothing_fits(self, smallest: int, what: str = "") -> IsoglossError:
        return IsoglossError(
            f"{self.source.name}: nothing fits into {in_megabytes(self.budget)}: the smallest candidate has"
            f" {in_megabytes(smallest)}{what}",
            hint="raise --budget, try fewer layers with --layers, or write a static model with --to static",
        )

    # ── one form ────────────────────────────────────────────────────────────────────────────────────────────────────

    def scorer(self, dimension: int) -> Scorer:
        """Scores embeddings of one size."""
        return self._scorers.setdefault(dimension, Scorer(self.source, dimension))

    @cached_property
    def original_vectors(self) -> FloatArray:
        """The original's embeddings of the texts of all measurements."""
        texts = self.scorer(self.source.student.dimension).evaluator.texts
        return self.source.student.encode(texts, self.source.on_progress, "embedding, original")

    def original(self) -> Original:
        """The same numbers of the original, run by torch."""
        student = self.source.student
        scorer = self.scorer(student.dimension)
        measured = scorer(self.original_vectors, self.original_vectors)
        speed = sentences_per_second(student, self._speed_texts(scorer))
        size = None if student.origin is None else folder_bytes(student.origin)
        return Original(size, speed, measured.shown, measured.languages)

    def _speed_texts(self, scorer: Scorer) -> list[str]:
        return spread_texts(scorer.evaluator.texts, self.settings.speed_sentences)

    def measured(self, form: Form, wanted: Sequence[Precision]) -> dict[Precision, Kept]:
        """Measure a form in some precisions, or find what an earlier call measured."""
        found = {precision: self._read(form, precision) for precision in wanted}
        missing = [precision for precision, kept in found.items() if kept is None]
        if missing:
            student, scorer = self.forms.open(form), self.scorer(form.dimension)
            for precision, proto in self._graphs(student, missing):
                with temporary_model(self.work) as folder:
                    ship(student, proto, folder, self._card.blank(form, precision))
                    encoder = OnnxEncoder(folder)
                    title = f"embedding, {form.layers or 'no'} layers, {precision}"
                    vectors = encoder.encode(scorer.evaluator.texts, self.source.on_progress, title)
                    speed = sentences_per_second(encoder, self._speed_texts(scorer))
                    kept = Kept(folder_bytes(folder), speed, scorer(vectors, self.original_vectors))
                found[precision] = kept
                write_json(self._path(form, precision), asdict(kept))
        return {precision: kept for precision, kept in found.items() if kept is not None}

    def _graphs(self, student: Student, precisions: Sequence[Precision]) -> Graphs:
        reduced = self.settings.cpu == "avx2"
        return graphs(student, precisions, self.work, self.source.calibration_texts, reduced)

    @cached_property
    def _card(self) -> BudgetCard:
        return BudgetCard(self.source, self.forms.all_layers, self.budget)

    def _read(self, form: Form, precision: Precision) -> Kept | None:
        try:
            return as_type(read_json(self._path(form, precision)), Kept)
        except (OSError, ValueError):
            return None

    def _path(self, form: Form, precision: Precision) -> Path:
        """Where a measurement is kept: its name depends on the model, the form, the sentences and the teacher."""
        scorer = self.scorer(form.dimension)
        cut = "" if form.layers == self.forms.all_layers else self.short.folder(form.layers).name
        teacher = "" if self.source.teacher is None else self.source.teacher.fingerprint
        pairs, sentences = self.source.measured.hash, str(self.settings.speed_sentences)
        int8 = f"{self.settings.cpu} {self.settings.calibration}" if precision == "int8" else ""
        named = self.source.student.fingerprint, repr(form), precision, int8, cut, teacher, pairs, sentences
        return self.work / f"measured-{content_hash(*named, *scorer.evaluator.texts)[:16]}.json"

    def _write(self, form: Form, precision: Precision, measured: Kept, original: Original) -> int:
        """Write the folder of a candidate; returns its bytes."""
        student = self.forms.open(form)
        card = self._card(form, precision, measured.size, measured.measured, original.languages)
        ((_precision, proto),) = self._graphs(student, [precision])
        with atomic_write(self.folder / MODEL) as temporary:
            ship(student, proto, temporary, card)
        return folder_bytes(self.folder / MODEL)


def _tried(form: Form, precision: Precision, predicted: int, kept: Kept | None) -> Tried:
    candidate = Candidate(form.trim, form.layers, form.dimension, precision, form.rows)
    if kept is None:
        return Tried(candidate, predicted)
    measured = kept.measured
    return Tried(
        candidate, predicted, kept.size, kept.sentences_per_second, measured.chosen_by, measured.shown, measured.cosine
    )
