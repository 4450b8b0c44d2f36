"""Is the student in the teacher's space? Three measures per language, on held-out pairs.

1. *Teacher index*: the index has English sentences embedded by the teacher; the query is in another language and embedded by
   the student. Is the nearest English sentence the right one? This is what distillation is for: existing indexes keep working.
2. *Translation retrieval*, in both directions, with the student on both sides.
3. *Cosine* and *mean squared error* between the student's embedding of a translation and the teacher's embedding of its source.
   The error is what distillation minimizes; it depends on the scale of the teacher, so it compares students of one teacher.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from isogloss.config import CleaningSettings, LeakSettings
from isogloss.corpora.prepare import prepare
from isogloss.corpora.reading.readers import bitext_of
from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import Draws, Interval, Sample, average, interval, ratio
from isogloss.evaluation.leak_report import scan_of
from isogloss.evaluation.metrics import Doubles, cosines, hits, mean_squared_error
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.bias import among_both
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, silent
from isogloss.search.neighbors import nearest
from isogloss.storage import content_hash
from isogloss.types import TEST, Bitext, FloatArray, IntArray, LanguageScores, Report

AS_GIVEN = CleaningSettings(min_script=0, min_language=0, min_numbers=0, min_addresses=0, max_repetition=1)


class PerQuery(NamedTuple):
    """One score per query: 1 or 0 for right or wrong, or a cosine; and the source sentence that each query belongs to."""

    values: Doubles
    sources: IntArray


class LanguageResult(NamedTuple):
    """The scores of one model in one language, and the values per query that they are the mean of, by the same names."""

    scores: LanguageScores
    per_query: dict[str, PerQuery]


class AlignmentEvaluator:
    """The held-out pairs and the candidates they are searched in; made once for any number of models.

    evaluator = AlignmentEvaluator(pairs)
    evaluator.set_teacher(teacher)
    report = evaluator(model)
    """

    def __init__(self, bitext: Bitext, max_candidates: int = 10_000) -> None:
        translations = bitext.keep(np.array([code != bitext.source_language for code in bitext.column("language")], dtype=bool))
        self.test = translations.where(split=TEST)
        if not len(self.test):
            raise DataError("there are no held-out pairs to measure on", hint="raise pairs.held_out, or give a split column")
        self.sources = _first_then(self.test.sources(), translations.sources(), max_candidates)
        self.languages = self.test.languages
        self.targets: dict[str, list[str]] = {}
        self.sources_of: dict[str, dict[str, set[str]]] = {}
        for language in self.languages:
            own = translations.where(language=language)
            held_out = self.test.where(language=language)
            self.targets[language] = _first_then(held_out.column("target"), own.column("target"), max_candidates)
            self.sources_of[language] = {}
            for pair in own:
                self.sources_of[language].setdefault(pair.target, set()).add(pair.source)
        self.texts = list(dict.fromkeys([*self.sources, *(text for texts in self.targets.values() for text in texts)]))
        self._teacher: Space | None = None

    def set_teacher(self, teacher: Encoder, on_progress: OnProgress = silent, stage: str = "teacher") -> None:
        """Embed the source sentences with the teacher; without one, only translation retrieval is measured."""
        self._teacher = Space.encode(teacher, self.sources, on_progress, stage)

    def __call__(self, model: Encoder, on_progress: OnProgress = silent) -> Report:
        """Score a model."""
        return self.report(model.name, self.score(model.encode(self.texts, on_progress, f"embedding, {model.name}")))

    def report(self, model: str, results: Sequence[LanguageResult]) -> Report:
        """The scores without the values per query."""
        return Report(model, tuple(result.scores for result in results), len(self.sources))

    def score(self, vectors: FloatArray) -> tuple[LanguageResult, ...]:
        """Scores with their values per query, from embeddings of `texts`; with the teacher's if they have its dimension."""
        student = Space({text: row for row, text in enumerate(self.texts)}, vectors)
        comparable = self._teacher is not None and self._teacher.vectors.shape[1] == vectors.shape[1]
        return tuple(self._language(code, student, self._teacher if comparable else None) for code in self.languages)

    def intervals(self, results: Sequence[LanguageResult]) -> dict[str, dict[str, Interval]]:
        """95 % intervals of shares and cosines: language, or "average" → score → interval. Source sentences are resampled."""
        samples = {result.scores.language: _samples(result) for result in results}
        names = list(samples[results[0].scores.language])
        samples["average"] = {name: average([own[name] for own in samples.values()]) for name in names}
        draws = Draws()
        return {
            language: {name: interval(draws.of([sample])[0]) for name, sample in own.items()}
            for language, own in samples.items()
        }

    def own_language_share(self, vectors: FloatArray) -> dict[str, float]:
        """The language bias: how many of a sentence's ten nearest are in its own language, among it and the source language.

        Half of them without bias. `vectors` are the embeddings of `texts`.
        """
        space, shares = Space({text: row for row, text in enumerate(self.texts)}, vectors), dict[str, float]()
        for language in self.languages:
            pairs = dict(zip(*(self.test.where(language=language).column(side) for side in ("target", "source")), strict=True))
            sides = space.of(list(pairs)), space.of(list(pairs.values()))
            near = [among_both(*sides)[1], among_both(*sides[::-1])[1]]
            shares[language] = float(np.mean(near))
        return shares

    def _language(self, language: str, student: Space, teacher: Space | None) -> LanguageResult:
        held, candidates = self.test.where(language=language), self.targets[language]
        sources, targets, source_queries = held.column("source"), held.column("target"), held.sources()
        sources_of, row_of = self.sources_of[language], {text: row for row, text in enumerate(self.sources)}
        source_of = {target: row_of[source] for source, target in zip(sources, targets, strict=True)}  # distinct queries
        accepted = [{row_of[text] for text in sources_of[query] if text in row_of} for query in source_of]
        targets_of: dict[str, set[int]] = defaultdict(set)
        for row, text in enumerate(candidates):
            for source in sources_of[text]:
                targets_of[source].add(row)

        def found(queries: FloatArray, index: FloatArray, right: list[set[int]], rows: Iterable[int]) -> PerQuery:
            return PerQuery(hits(nearest(queries, index), right).astype(float), np.array(list(rows), dtype=np.int64))

        queries = student.of(list(source_of))
        back = student.of(source_queries), student.of(candidates), [targets_of[text] for text in source_queries]
        per_query = {
            "to_source": found(queries, student.of(self.sources), accepted, source_of.values()),
            "from_source": found(*back, (row_of[text] for text in source_queries)),
        }
        mse = None
        if teacher is not None:
            translated, wanted = student.of(targets), teacher.of(sources)
            per_query["teacher_index"] = found(queries, teacher.of(self.sources), accepted, source_of.values())
            per_query["cosine"] = PerQuery(cosines(translated, wanted), np.array([row_of[text] for text in sources]))
            mse = mean_squared_error(translated, wanted)
        means = {name: float(one.values.mean()) for name, one in per_query.items()}
        own = means.pop("to_source"), means.pop("from_source")
        scores = LanguageScores(language, len(source_of), means.get("teacher_index"), *own, means.get("cosine"), mse)
        return LanguageResult(scores, per_query)


def _samples(result: LanguageResult) -> dict[str, Sample]:
    """The scores per source sentence, so that languages with the same sentences are resampled together."""
    samples = {}
    for name, one in result.per_query.items():
        sources, place = np.unique(one.sources, return_inverse=True)
        sums, counts = np.bincount(place, one.values).astype(np.float64), np.bincount(place).astype(np.float64)
        samples[name] = ratio(sums, counts, f"source sentences {content_hash(*map(str, sources.tolist()))[:16]}")
    return samples


def _first_then(needed: list[str], others: list[str], limit: int) -> list[str]:
    """All that are needed, then others up to the limit."""
    wanted = list(dict.fromkeys(needed))
    return list(dict.fromkeys(needed + others))[: max(limit, len(wanted))]


def evaluate(
    model: Encoder | str,
    teacher: Encoder | str | None,
    pairs: Bitext | Any,  # noqa: ANN401 - whatever `read` takes
    max_candidates: int = 10_000,
    on_progress: OnProgress = silent,
) -> Report:
    """Measure how well `model` stands in for `teacher` on held-out pairs.

    Models are encoders or their names; `pairs` is anything that `read` takes. Without a teacher, only translation retrieval
    is measured. Pairs in memory must have a test split; files without one are test data as a whole. Candidates are the
    held-out sentences, then the others, up to `max_candidates`.
    """
    bitext = bitext_of(pairs)
    if not hasattr(pairs, "in_blocks") and TEST not in bitext.table.column("split").unique().to_pylist():
        bitext = bitext.with_column("split", [TEST] * len(bitext))
    evaluator = AlignmentEvaluator(bitext, max_candidates)
    if teacher is not None:
        evaluator.set_teacher(open_encoder(teacher) if isinstance(teacher, str) else teacher, on_progress)
    return evaluator(open_encoder(model) if isinstance(model, str) else model, on_progress)


def evaluate_models(
    models: Sequence[str],
    teacher: str,
    pairs: Bitext,
    held_out: float = 1.0,
    max_candidates: int = 10_000,
    on_progress: OnProgress = silent,
) -> list[Report]:
    """Measure models by name on pairs as they are given, and note what their training text was scanned for.

    `held_out` is the share to measure on, if the pairs have no split; an empty `teacher` leaves its measures out.
    """
    bitext = prepare(pairs, AS_GIVEN, held_out, leaks=LeakSettings(level="off")).bitext
    evaluator = AlignmentEvaluator(bitext, max_candidates)
    if teacher:
        evaluator.set_teacher(open_encoder(teacher), on_progress)
    reports = [evaluator(open_encoder(model), on_progress) for model in models]
    scans = map(scan_of, models)
    return [replace(report, scanned=None if scan is None else scan.names) for report, scan in zip(reports, scans, strict=True)]
