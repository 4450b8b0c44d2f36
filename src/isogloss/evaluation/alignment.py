"""Is the student in the teacher's space? Three measures per language, on held-out pairs.

1. *Teacher index*: the index has English sentences embedded by the teacher; the query is in another language and embedded by
   the student. Is the nearest English sentence the right one? This is what distillation is for: existing indexes keep working.
2. *Translation retrieval*, in both directions, with the student on both sides.
3. *Cosine* and *mean squared error* between the student's embedding of a translation and the teacher's embedding of its source.
   The error is what distillation minimizes; it depends on the scale of the teacher, so it compares students of one teacher.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isogloss.config import CleaningSettings, LeakSettings
from isogloss.corpora.prepare import prepare
from isogloss.corpora.reading.readers import bitext_of
from isogloss.errors import DataError
from isogloss.evaluation.leak_report import scan_of
from isogloss.evaluation.metrics import Doubles, cosines, hits, mean_squared_error
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.progress import OnProgress, silent
from isogloss.search.neighbours import nearest
from isogloss.types import TEST, Bitext, FloatArray, IntArray, LanguageScores, Report

AS_GIVEN = CleaningSettings(min_script=0, min_language=0, min_numbers=0, min_addresses=0, max_repetition=1)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """One score per query: 1 or 0 for right or wrong, or a cosine; and the source sentence that each query belongs to."""

    values: Doubles
    sources: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The scores of one model in one language, and the values per query that they are the mean of, by the same names."""

    scores: LanguageScores
    items: dict[str, Items]


class AlignmentEvaluator:
    """The held-out pairs and the candidates they are searched in; made once for any number of models."""

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
            pairs = defaultdict(set)
            for pair in own:
                pairs[pair.target].add(pair.source)
            self.sources_of[language] = dict(pairs)

    def texts(self) -> list[str]:
        """Every sentence that a model must embed."""
        return list(dict.fromkeys([*self.sources, *(text for texts in self.targets.values() for text in texts)]))

    def ask(self, model: str, student: "Rows", teacher: "Rows | None") -> Report:
        """Score one model from its embeddings, and the teacher's if they have the same dimension."""
        return self.report(model, self.answers(student, teacher))

    def report(self, model: str, answers: "tuple[Answers, ...]") -> Report:
        """The scores without the values per query."""
        return Report(model, tuple(one.scores for one in answers), len(self.sources))

    def answers(self, student: "Rows", teacher: "Rows | None") -> "tuple[Answers, ...]":
        """Scores with their values per query, for comparing one model with another."""
        comparable = teacher is not None and teacher.vectors.shape[1] == student.vectors.shape[1]
        return tuple(self._language(one, student, teacher if comparable else None) for one in self.languages)

    def _language(self, language: str, student: "Rows", teacher: "Rows | None") -> Answers:
        held = self.test.where(language=language)
        queries, targets = list(dict.fromkeys(held.column("target"))), self.targets[language]
        sources_of = self.sources_of[language]
        source_row = {text: row for row, text in enumerate(self.sources)}
        right_sources = [{source_row[text] for text in sources_of[query] if text in source_row} for query in queries]
        source_queries = held.sources()
        targets_of: dict[str, set[int]] = defaultdict(set)
        for row, text in enumerate(targets):
            for source in sources_of[text]:
                targets_of[source].add(row)
        right_targets = [targets_of[source] for source in source_queries]
        source_of = dict(zip(held.column("target"), held.column("source"), strict=True))
        asked_of = np.array([source_row[source_of[query]] for query in queries], dtype=np.int64)
        query_vectors, source_vectors = student.of(queries), student.of(self.sources)
        to_source = hits(nearest(query_vectors, source_vectors), right_sources)
        back = hits(nearest(student.of(source_queries), student.of(targets)), right_targets)
        asked_by = np.array([source_row[text] for text in source_queries], dtype=np.int64)
        items = {"to_source": Items(to_source.astype(float), asked_of), "from_source": Items(back.astype(float), asked_by)}
        mse = None
        if teacher is not None:
            indexed = hits(nearest(query_vectors, teacher.of(self.sources)), right_sources)
            translated, wanted = student.of(held.column("target")), teacher.of(held.column("source"))
            paired = np.array([source_row[text] for text in held.column("source")], dtype=np.int64)
            items["teacher_index"] = Items(indexed.astype(float), asked_of)
            items["cosine"] = Items(cosines(translated, wanted), paired)
            mse = mean_squared_error(translated, wanted)
        means = {name: float(one.values.mean()) for name, one in items.items()}
        scores = LanguageScores(
            language=language,
            queries=len(queries),
            teacher_index=means.get("teacher_index"),
            to_source=means["to_source"],
            from_source=means["from_source"],
            cosine=means.get("cosine"),
            mse=mse,
        )
        return Answers(scores, items)


def _first_then(needed: list[str], others: list[str], limit: int) -> list[str]:
    """All that are needed, then others up to the limit."""
    wanted = list(dict.fromkeys(needed))
    return list(dict.fromkeys(needed + others))[: max(limit, len(wanted))]


class Rows:
    """Embeddings by text."""

    def __init__(self, row_of: Mapping[str, int], vectors: FloatArray) -> None:
        self.row_of, self.vectors = row_of, vectors

    def of(self, texts: list[str]) -> FloatArray:
        """The embeddings of `texts`, in order."""
        return self.vectors[[self.row_of[text] for text in texts]]


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
    opened = open_encoder(teacher) if isinstance(teacher, str) else teacher
    encoder = open_encoder(model) if isinstance(model, str) else model
    return next(evaluate_each([encoder], opened, bitext, max_candidates, on_progress))


def evaluate_each(
    models: Iterable[Encoder],
    teacher: Encoder | None,
    bitext: Bitext,
    max_candidates: int = 10_000,
    on_progress: OnProgress = silent,
) -> Iterator[Report]:
    """The same for several models, one after the other: the teacher embeds its sentences once."""
    evaluator = AlignmentEvaluator(bitext, max_candidates)
    teacher_rows = None
    if teacher is not None:
        sources = list(dict.fromkeys(evaluator.sources + evaluator.test.sources()))
        teacher_rows = Rows({text: row for row, text in enumerate(sources)}, teacher.encode(sources, on_progress, "teacher"))
    texts = evaluator.texts()
    row_of = {text: row for row, text in enumerate(texts)}
    for model in models:
        vectors = model.encode(texts, on_progress, f"embedding, {model.name}")
        report = evaluator.ask(model.name, Rows(row_of, vectors), teacher_rows)
        del vectors, model  # before the next one is loaded
        yield report


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
    opened = open_encoder(teacher) if teacher else None
    reports = evaluate_each(map(open_encoder, models), opened, bitext, max_candidates, on_progress)
    scans = map(scan_of, models)
    return [replace(report, scanned=None if scan is None else scan.names) for report, scan in zip(reports, scans, strict=True)]
