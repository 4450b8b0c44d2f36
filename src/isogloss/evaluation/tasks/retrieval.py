"""Retrieval: whether the documents with the answer come first, and how much of the teacher's retrieval is kept.

Up to three tables per test set:

1. *The teacher's index*: documents embedded by the teacher, queries in each language by the model. This is what a distilled
   model is for: an index that exists keeps working. The *kept share* is its recall divided by that of the teacher with English
   queries, which the column `teacher` has. Both are resampled on the same queries.
2. *Own index*: the model embeds the documents, too. Queries in each language are searched in English documents.
3. *Own index, same language*: queries are searched in documents in their own language, if there are any.

Queries and documents are embedded with the prompts that the model, or the teacher, has for them (`models.encoders.roles`).

Recall, nDCG and MRR are those of BEIR (`ranking_metrics`), by cosine. English is left out of the averages over languages.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import Sample, ratio, share
from isogloss.evaluation.compare import AVERAGE, Comparison, Score, TaskScore
from isogloss.evaluation.data.retrieval_sets import NamedTexts, RetrievalSearch, RetrievalSet
from isogloss.evaluation.metrics import Doubles
from isogloss.evaluation.ranking_metrics import Relevance, ndcg_at, recall_at, reciprocal_rank_at
from isogloss.evaluation.space import Space, language_means
from isogloss.evaluation.tasks.task import Task
from isogloss.models.encoder import Encoder
from isogloss.progress import OnProgress, silent
from isogloss.search.neighbors import neighbors
from isogloss.storage import content_hash
from isogloss.types import IntArray

DEPTH = 10
METRICS: dict[str, Callable[[IntArray, Relevance], Doubles]] = {
    "recall@1": partial(recall_at, k=1),
    "recall@10": partial(recall_at, k=DEPTH),
    "nDCG@10": partial(ndcg_at, k=DEPTH),
    "MRR@10": partial(reciprocal_rank_at, k=DEPTH),
}
MAIN, *FURTHER = METRICS
KEPT = {f"kept {name}": name for name in ("recall@1", "recall@10")}
TEACHER = "teacher"  # the column of its own queries

PerQuery = dict[str, Doubles]  # metric → one value per query


def teacher_space(data: RetrievalSet, teacher: Encoder, on_progress: OnProgress = silent) -> Space:
    """The teacher's embeddings of the documents in its index, and of the queries in their language."""
    index = data.index_language
    if not index or index not in data.queries:
        there = ", ".join(data.queries if index else data.documents)
        raise DataError(
            f"{data.name} has {'queries' if index else 'documents'} in {there}, but a teacher's index needs them in English",
            hint='leave the teacher out (--teacher ""), or add English files',
        )
    return Space.of_sets(teacher, [data.documents[index], data.queries[index]], on_progress, f"embedding, {teacher.name}")


def retrieval(data: RetrievalSet, teacher: Space | None = None, own_index: bool = True) -> Task:
    """The tables of a test set: that of the teacher's index only with a teacher, the others only with `own_index`."""
    across, within = data.across(), data.within() if own_index else []
    indexed = [*(across[:1] if own_index else []), *within]
    sets: list[NamedTexts] = [one.queries for one in (*across, *within)] + [one.documents for one in indexed]

    def measure(space: Space) -> list[TaskScore]:
        found = [] if teacher is None else _teachers_index(data, across, space, _as_measured(teacher, data, space))
        if own_index:
            for searches, what in ((across, "own index"), (within, "own index, same language")):
                found += [_score(_title(data, what, searches), data, one, _ranked(one, space, space)) for one in searches]
        return found

    return Task(list(dict.fromkeys(sets)), measure, None if teacher is None else teacher.vectors.shape[1])


def kept_shares(comparison: Comparison) -> dict[str, Score]:
    """The kept shares of the last model, by metric, averaged over languages; empty if there was no teacher."""
    columns = comparison.tables[0].columns
    average = next((column for column in columns if column.name == AVERAGE), columns[0])
    return {KEPT[name]: score for name, score in average.cells[-1].further.items() if name in KEPT}


def kept_in_words(shares: Mapping[str, Score]) -> str:
    """The kept shares as a sentence."""
    parts = []
    for name, score in shares.items():
        span = "" if score.interval is None else " ({:.1f} to {:.1f})".format(*(100 * bound for bound in score.interval))
        parts.append(f"{100 * score.value:.1f} %{span} of the {name}")
    kept = " and ".join(parts)
    return f"With queries in other languages, the model keeps {kept} that the teacher has with queries in English."


def _teachers_index(data: RetrievalSet, searches: Sequence[RetrievalSearch], space: Space, teacher: Space) -> list[TaskScore]:
    title = _title(data, "teacher's index", searches)
    english = next(one for one in searches if one.queries.language == data.index_language)
    reference = _ranked(english, teacher, teacher)
    scores = []
    for search in searches:
        values = _ranked(search, space, teacher)
        scores.append(_score(title, data, search, values, _kept(data, search, values, english, reference)))
    own = _kept(data, english, reference, english, reference)
    return [*scores, _score(title, data, english, reference, own, TEACHER)]


def _as_measured(teacher: Space, data: RetrievalSet, space: Space) -> Space:
    """The teacher's space, with its own mean subtracted if the model's means are."""
    if space.means is None:
        return teacher
    index = data.index_language
    return replace(teacher, means=language_means(teacher, [data.documents[index], data.queries[index]]))


def _ranked(search: RetrievalSearch, queries: Space, documents: Space) -> PerQuery:
    """All metrics of queries embedded by one model, searched in documents embedded by another."""
    (asked,), (indexed,) = queries.columns(search.queries), documents.columns(search.documents)
    found = neighbors(asked, indexed, DEPTH).ids
    return {name: metric(found, search.relevance) for name, metric in METRICS.items()}


def _kept(
    data: RetrievalSet, search: RetrievalSearch, values: PerQuery, english: RetrievalSearch, reference: PerQuery
) -> dict[str, Sample]:
    """The recall of a search divided by the teacher's with the same queries in English."""
    row_of = {name: row for row, name in enumerate(english.queries.ids)}
    rows = [(row, row_of[name]) for row, name in enumerate(search.queries.ids) if name in row_of]
    if not rows:
        raise DataError(
            f"{data.name}: no query in {search.queries.language} has the id of an English one",
            hint="translations of a query have the same id",
        )
    own, its = np.array(rows).T
    unit = _unit(data, [search.queries.ids[row] for row in own])
    return {name: ratio(values[metric][own], reference[metric][its], unit) for name, metric in KEPT.items()}


def _score(
    title: str,
    data: RetrievalSet,
    search: RetrievalSearch,
    values: PerQuery,
    kept: dict[str, Sample] | None = None,
    column: str = "",
) -> TaskScore:
    language, unit = search.queries.language, _unit(data, search.queries.ids)
    return TaskScore(
        title,
        column or language,
        MAIN,
        share(values[MAIN], unit),
        origin=(*search.queries.origin, *search.documents.origin),
        averaged=not column and language != data.index_language,
        further={name: share(values[name], unit) for name in FURTHER} | (kept or {}),
    )


def _unit(data: RetrievalSet, ids: Sequence[str]) -> str:
    """The same name for the same queries in all languages: they are resampled together."""
    return f"{data.name} {content_hash(*ids)[:16]}"


def _title(data: RetrievalSet, index: str, searches: Sequence[RetrievalSearch]) -> str:
    """The name of a table, with the number of documents that are searched."""
    counts = {len(one.documents.ids) for one in searches}
    languages = {one.documents.language for one in searches}
    count = amount(max(counts), "document") if len(counts) == 1 else f"{min(counts):,} to {max(counts):,} documents"
    return f"{data.name}, {index} ({count}{f' in {languages.pop()}' if len(languages) == 1 else ''})"
