"""Metrics of ranked results, per query: arrays in, one number per query out. Their means are the usual scores.

`found` has the rows of the documents found for each query, the nearest first (queries × depth); -1 is an empty place.
`relevance` has the relevant documents of each query and their grades, as in BEIR's qrels: 1 or more is relevant, 0 is not.
Grades and ties follow trec_eval, which BEIR and MTEB use through pytrec_eval. A query without relevant documents gets 0.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from isogloss.evaluation.metrics import Doubles
from isogloss.types import IntArray

PERSISTENCE = 0.9  # of rank-biased overlap, as in its paper

Relevance = Sequence[Mapping[int, float]]  # for each query: document row → grade


def grades(found: IntArray, relevance: Relevance, k: int) -> Doubles:
    """The grade of each of the first k documents: queries × k, 0 for those that are not relevant."""
    rows = [[max(own.get(row, 0), 0) for row in ids] for ids, own in zip(found[:, :k].tolist(), relevance, strict=True)]
    return np.array(rows, dtype=np.float64).reshape(len(found), -1)


def hit_at(found: IntArray, relevance: Relevance, k: int) -> Doubles:
    """1 if a relevant document is among the first k, else 0."""
    return np.asarray((grades(found, relevance, k) > 0).any(axis=1), dtype=np.float64)


def recall_at(found: IntArray, relevance: Relevance, k: int) -> Doubles:
    """The share of the relevant documents that is among the first k."""
    relevant = np.array([sum(grade > 0 for grade in own.values()) for own in relevance], dtype=np.float64)
    return np.asarray((grades(found, relevance, k) > 0).sum(axis=1) / np.maximum(relevant, 1))


def reciprocal_rank_at(found: IntArray, relevance: Relevance, k: int) -> Doubles:
    """1 / the rank of the first relevant document; 0 if it is not among the first k. The mean is MRR@k."""
    right = grades(found, relevance, k) > 0
    ranks = 1 + np.arange(right.shape[1])
    return np.asarray((right / ranks).max(axis=1, initial=0.0))


def ndcg_at(found: IntArray, relevance: Relevance, k: int) -> Doubles:
    """Normalized discounted cumulative gain, with the grade as the gain (Järvelin & Kekäläinen 2002).

    DCG@k = Σ_{i ≤ k} grade of document i / log2(i + 1);   nDCG@k = DCG@k / DCG@k of the best order
    """
    ideal = np.zeros((len(found), k))
    for row, own in enumerate(relevance):
        best = sorted((grade for grade in own.values() if grade > 0), reverse=True)[:k]
        ideal[row, : len(best)] = best
    possible = _dcg(ideal)
    return np.divide(_dcg(grades(found, relevance, k)), possible, out=np.zeros(len(found)), where=possible > 0)


def overlap_at(found: IntArray, other: IntArray, k: int) -> Doubles:
    """The share of the first k documents of `other` that is among the first k of `found`."""
    wanted = other[:, :k]
    shared = ((found[:, :k, None] == wanted[:, None, :]) & (wanted >= 0)[:, None, :]).any(axis=1).sum(axis=1)
    return np.asarray(shared / np.maximum((wanted >= 0).sum(axis=1), 1))


def rank_biased_overlap(found: IntArray, other: IntArray, k: int, persistence: float = PERSISTENCE) -> Doubles:
    """How alike the first k of two rankings are, the first places counting most (Webber, Moffat & Zobel 2010).

    RBO_ext = p^k · A_k + (1 − p)/p · Σ_{d ≤ k} p^d · A_d;   A_d = share of the first d documents that both rankings have

    1 for equal rankings, 0 if they share nothing. Unlike Kendall's or Spearman's correlation it is defined for rankings that
    do not have the same documents. `persistence` is p: at 0.9, the first ten places have 86 % of the weight. If `other` is
    shorter than k, both rankings are compared up to its length.
    """
    found, other = (np.pad(one[:, :k], ((0, 0), (0, k - one[:, :k].shape[1])), constant_values=-1) for one in (found, other))
    same = (found[:, :, None] == other[:, None, :]) & (other >= 0)[:, None, :]
    later = np.maximum.outer(np.arange(k), np.arange(k))  # of the two places: the depth from which a document is shared
    depths = 1 + np.arange(k)
    shared = np.stack([same[:, later == place].sum(axis=1) for place in range(k)], axis=1).cumsum(axis=1) / depths
    length = np.maximum((other >= 0).sum(axis=1), 1)
    inside = np.where(depths <= length[:, None], persistence**depths * shared, 0.0).sum(axis=1)
    last = shared[np.arange(len(shared)), length - 1]
    return np.asarray(persistence**length * last + (1 - persistence) / persistence * inside)


def _dcg(gains: Doubles) -> Doubles:
    return np.asarray((gains / np.log2(2 + np.arange(gains.shape[1]))).sum(axis=1))
