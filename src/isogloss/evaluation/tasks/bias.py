"""Language bias: whether a model prefers pairs, or neighbors, in some languages.

1. *Joined sets* (Reimers & Gurevych 2020, table 8): the correlation over the pairs of all languages in one list, against the
   average of the separate correlations. Without bias they are equal; a model that finds all English pairs more similar than
   all Arabic ones loses in the joined list.

       expected = 1/n · Σ_i ρ(set i)        actual = ρ(set 1 ∪ … ∪ set n)        difference = actual − expected

2. *Mixed retrieval*: the translation of a sentence is searched among sentences of both languages. How often is it the nearest,
   compared with searching translations only; and how many of the ten nearest are in the sentence's own language? Half of
   them, without bias.

The simplest remedy is to subtract each language's mean: `space.LanguageMeans`.
"""

from collections.abc import Sequence

import numpy as np

from isogloss.evaluation.bootstrap import Correlation, Sample, average, difference, joined, share
from isogloss.evaluation.compare import TaskScore
from isogloss.evaluation.data.test_sets import EvaluationSet, RatedPairs
from isogloss.evaluation.metrics import Doubles
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.sts import MEASURE, similarities
from isogloss.evaluation.tasks.task import Task
from isogloss.search.neighbors import nearest, neighbors
from isogloss.types import BoolArray, FloatArray

NEAR = 10
MIXED = "translation is nearest of all, both directions"
EXPECTED, ACTUAL, DIFFERENCE = "Expected Score", "Actual Score", "Difference"


def joined_sets(table: str, sets: Sequence[RatedPairs]) -> Task:
    """Expected score, actual score, and the difference, resampled on the same pairs."""

    def measure(space: Space) -> list[TaskScore]:
        parts = [Correlation(similarities(one, space)["cosine"], one.gold, ((one.unit, len(one.gold)),)) for one in sets]
        expected, actual = average(list(map(Sample.of, parts))), Sample.of(joined(parts))
        origin = tuple(file for one in sets for file in one.origin)
        columns = ((EXPECTED, expected), (ACTUAL, actual), (DIFFERENCE, difference(actual, expected)))
        return [TaskScore(table, name, MEASURE, sample, {}, origin, averaged=False) for name, sample in columns]

    return Task(sets, measure)


def mixed_retrieval(table: str, sets: Sequence[EvaluationSet]) -> Task:
    """For each language, how often the translation is the nearest sentence of both languages."""
    return Task(sets, lambda space: [_mixed(table, one, space) for one in sets])


def _mixed(table: str, pairs: EvaluationSet, space: Space) -> TaskScore:
    sides = space.columns(pairs)
    rows = np.arange(len(sides[0]))
    apart = [nearest(sides[own], sides[1 - own]) == rows for own in (0, 1)]
    mixed = [among_both(sides[own], sides[1 - own]) for own in (0, 1)]
    found = np.mean([hit for hit, _ in mixed], axis=0)
    others = {
        "translations alone": float(np.mean(apart)),
        "lost to own language": float(np.mean(apart) - found.mean()),
        "own language in nearest 10": float(np.mean([own for _, own in mixed])),
    }
    sample = share(found, f"{pairs.set} {pairs.subset} mixed")
    return TaskScore(table, pairs.subset, MIXED, sample, others, pairs.origin, shown=tuple(others))


def among_both(queries: FloatArray, translations: FloatArray) -> tuple[BoolArray, Doubles]:
    """Whether each query's nearest sentence, except itself, is its translation; and the share of its own side in the top 10."""
    rows = np.arange(len(queries))
    count = min(NEAR, 2 * len(rows) - 1)
    ids = neighbors(queries, np.concatenate([translations, queries]), count + 1).ids
    other = ids != (len(rows) + rows)[:, None]
    other[other.all(axis=1), -1] = False  # copies of the query came first
    ids = ids[other].reshape(len(rows), count)
    return ids[:, 0] == rows, (ids >= len(rows)).mean(axis=1)
