"""How often a student's query finds what the teacher's English query finds: arrays in, scores with intervals out.

    overlap       share of the teacher's first k results among the student's first k
    first_found   whether the teacher's first result is among the student's first k
    same_first    whether both have the same first result
    rbo           rank-biased overlap: how alike both rankings are, the first places counting most
    cosine        of the student's query vector with the teacher's vector of the English query
    recall, mrr   against gold documents: the share found among the first k, and 1 / the rank of the first one
    kept_recall   the student's recall divided by the teacher's, on the same queries

Averages over queries have 95 % intervals by the bootstrap. Languages that have the same queries are resampled together, so the
interval of their average counts a query once, however many translations it has.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isogloss.evaluation.bootstrap import Draws, Interval, Sample, average, interval, ratio, share
from isogloss.evaluation.metrics import Doubles, cosines
from isogloss.evaluation.ranking_metrics import overlap_at, rank_biased_overlap, recall_at, reciprocal_rank_at
from isogloss.storage import content_hash
from isogloss.types import FloatArray, IntArray

AVERAGE = "average"
Gold = Sequence[Mapping[int, float]]  # for each query: document → grade; empty where it is not known


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The documents that each query found, best first, as numbers (-1: none), and the vectors of the queries."""

    documents: IntArray
    vectors: FloatArray

    def rows(self, chosen: Sequence[int]) -> "Found":
        """Some of the queries."""
        return Found(self.documents[list(chosen)], self.vectors[list(chosen)])


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The queries in one language: which of the English queries they translate, and what the student found with them."""

    rows: Sequence[int]
    found: Found


@dataclass(frozen=True, slots=True)
class Measured:
    """A score and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, eq=False)
class LanguageAgreement:
    """The scores of one language, by name, and the overlap and RBO of each query; `judged` counts queries with gold."""

    queries: int
    scores: dict[str, Measured]
    judged: int = 0
    per_query: dict[str, Doubles] = field(default_factory=dict)


def agreements(
    asked: Mapping[str, Asked], teacher: Found, ids: Sequence[str], gold: Gold, k: int, apart: Sequence[str], resamples: int
) -> tuple[dict[str, LanguageAgreement], dict[str, Measured]]:
    """The scores of each language and of their average, and the teacher's own against gold.

    `teacher` has the English queries, which are named by `ids`. Languages in `apart` are left out of the average.
    """
    draws = Draws(resamples=resamples)
    found, samples = {}, {}
    for language, own in asked.items():
        per_query = _per_query(own.found, teacher.rows(own.rows), k)
        samples[language] = _samples(per_query, [ids[row] for row in own.rows])
        judged = [place for place, row in enumerate(own.rows) if gold[row]]
        if judged:
            samples[language] |= _against_gold(own, teacher, ids, gold, k, judged)
        scores = _measured(samples[language], draws)
        found[language] = LanguageAgreement(len(own.rows), scores, len(judged), per_query)
    averaged = [language for language in asked if language not in apart]
    if len(averaged) > 1:
        shared = [name for name in samples[averaged[0]] if all(name in samples[one] for one in averaged)]
        means = {name: average([samples[one][name] for one in averaged]) for name in shared}
        counts = [sum(getattr(found[one], count) for one in averaged) for count in ("queries", "judged")]
        found[AVERAGE] = LanguageAgreement(counts[0], _measured(means, draws, together=False), counts[1])
    return found, _measured(_own_gold(teacher, ids, gold, k), draws)


def _per_query(student: Found, teacher: Found, k: int) -> dict[str, Doubles]:
    """One number per query of each score that needs no gold."""
    first = teacher.documents[:, :1]
    return {
        "overlap": overlap_at(student.documents, teacher.documents, k),
        "first_found": overlap_at(student.documents[:, :k], first, k),
        "same_first": overlap_at(student.documents[:, :1], first, 1),
        "rbo": rank_biased_overlap(student.documents, teacher.documents, k),
        "cosine": cosines(student.vectors, teacher.vectors),
    }


def _samples(per_query: Mapping[str, Doubles], ids: Sequence[str]) -> dict[str, Sample]:
    unit = _unit(ids)
    return {name: share(values, unit) for name, values in per_query.items()}


def _against_gold(
    own: Asked, teacher: Found, ids: Sequence[str], gold: Gold, k: int, judged: Sequence[int]
) -> dict[str, Sample]:
    """Scores of the queries that have gold documents."""
    rows = [own.rows[place] for place in judged]
    relevance, unit = [gold[row] for row in rows], _unit([ids[row] for row in rows])
    student, its = own.found.rows(judged).documents, teacher.rows(rows).documents
    recall = recall_at(student, relevance, k)
    return {
        "recall": share(recall, unit),
        "mrr": share(reciprocal_rank_at(student, relevance, k), unit),
        "kept_recall": ratio(recall, recall_at(its, relevance, k), unit),
    }


def _own_gold(teacher: Found, ids: Sequence[str], gold: Gold, k: int) -> dict[str, Sample]:
    """What the teacher itself reaches with the English queries."""
    rows = [row for row, own in enumerate(gold) if own]
    if not rows:
        return {}
    relevance, unit = [gold[row] for row in rows], _unit([ids[row] for row in rows])
    documents = teacher.documents[rows]
    return {
        "recall": share(recall_at(documents, relevance, k), unit),
        "mrr": share(reciprocal_rank_at(documents, relevance, k), unit),
    }


def _measured(samples: Mapping[str, Sample], draws: Draws, together: bool = True) -> dict[str, Measured]:
    """Values and intervals. Samples of the same queries are resampled `together`, which is faster."""
    groups: dict[object, list[str]] = {}
    for name, sample in samples.items():
        groups.setdefault(sample.terms[0][1].units if together else name, []).append(name)
    spans: dict[str, Interval] = {}
    for names in groups.values():
        drawn = draws.of([samples[name] for name in names])
        spans |= {name: interval(values) for name, values in zip(names, drawn, strict=True)}
    return {name: Measured(_rounded(sample.value()), *map(_rounded, spans[name])) for name, sample in samples.items()}


def _rounded(value: float) -> float:
    """Scores as they are kept: a certificate does not depend on the last bits of a sum."""
    return round(float(value), 4)


def _unit(ids: Sequence[str]) -> str:
    """The same name for the same queries in all languages: they are resampled together."""
    return content_hash(*ids)


def as_numbers(results: Sequence[Sequence[str]], number_of: dict[str, int], k: int) -> IntArray:
    """Lists of ids as rows of numbers, k in each; `number_of` gets the ids that are new."""
    found = np.full((len(results), k), -1, dtype=np.int64)
    for row, ids in enumerate(results):
        for place, name in enumerate(ids[:k]):
            found[row, place] = number_of.setdefault(name, len(number_of))
    return found
