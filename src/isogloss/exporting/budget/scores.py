"""How good and how fast a form of the model is: on one half of the held-out sentences to choose, on the other to tell.

Whatever is chosen as the best of many on some queries looks better on them than it is. So the queries are split by their
source sentence, every other one: candidates are compared on the even ones, and what is shown was measured on the odd ones.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from isogloss.evaluation.alignment import AlignmentEvaluator, LanguageResult, PerQuery
from isogloss.evaluation.metrics import cosines, unit
from isogloss.evaluation.regressions import Regression, regressions
from isogloss.exporting.budget.frontier import Scores
from isogloss.exporting.source import ExportSource
from isogloss.models.encoder import Encoder
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray

ROUNDS = 3
BATCH = 32  # sentences
ORIGINAL = "the original"
FOUND = ("teacher_index", "to_source", "from_source")  # a lower cosine alone is no loss
Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class HalvesMeasured:
    """The scores of one model on both halves, those of each language on the second, and its cosine to the original.

    `losses` are scores on the second half that are clearly lower than the original's, in a language or on average.
    """

    chosen_by: Scores
    shown: Scores
    languages: dict[str, Scores]
    cosine: float
    losses: tuple[Regression, ...] = ()


class Prefix:
    """An encoder whose embeddings are cut to their first coordinates and brought to length 1."""

    def __init__(self, encoder: Encoder, dimension: int) -> None:
        self.encoder, self.dimension = encoder, dimension
        self.name, self.fingerprint = encoder.name, f"{encoder.fingerprint}-{dimension}"

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row per sentence."""
        return prefix(self.encoder.encode(texts, on_progress, stage), self.dimension)


def prefix(vectors: FloatArray, dimension: int) -> FloatArray:
    """The first coordinates of vectors, brought to length 1."""
    return unit(vectors[:, :dimension])


class Scorer:
    """Scores models of one dimension on the same held-out sentences, beside the original."""

    def __init__(self, source: ExportSource, dimension: int) -> None:
        self.source, self.dimension = source, dimension
        self.cut = dimension != source.student.dimension

    @cached_property
    def evaluator(self) -> AlignmentEvaluator:
        """The evaluator of the export; for a prefix, one with an index of prefixes."""
        if not self.cut:
            return self.source.evaluator
        evaluator = AlignmentEvaluator(self.source.measured, self.source.settings.max_candidates)
        teacher = self.source.teacher
        if teacher is not None and teacher.dimension == self.source.student.dimension:
            evaluator.set_teacher(Prefix(teacher, self.dimension), self.source.on_progress, "teacher, held out")
        return evaluator

    def __call__(self, vectors: FloatArray, original: FloatArray) -> HalvesMeasured:
        """Scores of the embeddings of the evaluator's texts; `original` has those of the original model."""
        results = self.evaluator.score(vectors)
        halves = [[_scores(result, odd) for result in results] for odd in (0, 1)]
        is_too_small = any(None in half for half in halves)
        if is_too_small:
            halves = [[_scores(result, None) for result in results]] * 2
        first, second = ([one for one in half if one is not None] for half in halves)
        languages = {result.scores.language: one for result, one in zip(results, second, strict=True)}
        reference = prefix(original, self.dimension) if self.cut else original
        losses = clear_losses(self.source.evaluator.score(original), results, None if is_too_small else 1)
        return HalvesMeasured(_mean(first), _mean(second), languages, float(cosines(vectors, reference).mean()), losses)


def clear_losses(before: Sequence[LanguageResult], after: Sequence[LanguageResult], odd: int | None) -> tuple[Regression, ...]:
    """Scores of a copy on one half of the queries (None: on all) that are lower than the original's, by more than noise."""
    found = regressions(ORIGINAL, *([_half(result, odd) for result in results] for results in (before, after)))
    return tuple(one for one in found if one.clear)


def _half(result: LanguageResult, odd: int | None) -> LanguageResult:
    """The values that candidates are compared by, on one half of the queries."""
    kept = {name: one for name, one in result.per_query.items() if name in FOUND}
    if odd is not None:
        halves = {name: one.sources % 2 == odd for name, one in kept.items()}
        kept = {name: PerQuery(one.values[halves[name]], one.sources[halves[name]]) for name, one in kept.items()}
    return result._replace(per_query=kept)


def is_split(evaluator: AlignmentEvaluator) -> bool:
    """Whether every language has sentences in both halves."""
    row_of = {text: row for row, text in enumerate(evaluator.sources)}
    held = (evaluator.test.where(language=language).sources() for language in evaluator.languages)
    return all(len({row_of[text] % 2 for text in sources}) == 2 for sources in held)


def _scores(result: LanguageResult, odd: int | None) -> Scores | None:
    """The scores of one language on the queries of one half, or on all; None if that half has none."""

    def mean(name: str) -> float | None:
        per_query = result.per_query[name]
        values = per_query.values if odd is None else per_query.values[per_query.sources % 2 == odd]
        return float(values.mean()) if len(values) else None

    both = [mean("to_source"), mean("from_source")]
    if any(one is None for one in both):
        return None
    retrieval = sum(one for one in both if one is not None) / len(both)
    return Scores(mean("teacher_index") if "teacher_index" in result.per_query else None, retrieval)


def _mean(scores: Sequence[Scores]) -> Scores:
    """The mean over languages."""
    index = [one.teacher_index for one in scores if one.teacher_index is not None]
    known = len(index) == len(scores)
    return Scores(float(np.mean(index)) if known else None, float(np.mean([one.retrieval for one in scores])))


def sentences_per_second(encoder: Encoder, texts: Sequence[str], clock: Clock = time.perf_counter) -> float:
    """The best of three rounds over the same sentences, in batches as they come, after one to warm up."""
    batches = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]

    def seconds() -> float:
        began = clock()
        for batch in batches:
            encoder.encode(batch)
        return clock() - began

    seconds()
    return len(texts) / max(min(seconds() for _ in range(ROUNDS)), 1e-9)


def spread_texts(texts: Sequence[str], count: int) -> list[str]:
    """`count` of some texts, from the first to the last."""
    return [texts[place] for place in np.unique(np.linspace(0, len(texts) - 1, min(count, len(texts))).astype(int)).tolist()]
