"""Ranking metrics against loops written from their definitions, and against trec_eval if it is installed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.evaluation.ranking_metrics import (
    hit_at,
    ndcg_at,
    overlap_at,
    rank_biased_overlap,
    recall_at,
    reciprocal_rank_at,
)
from isogloss.types import IntArray

DOCUMENTS = 8
GRADES = st.dictionaries(st.integers(0, DOCUMENTS - 1), st.integers(0, 3), max_size=5)
RANKING = st.permutations(range(DOCUMENTS)).map(lambda order: order[:6])
QUERIES = st.lists(st.tuples(RANKING, GRADES), min_size=1, max_size=5)
K = st.integers(1, 7)


def discounted(gains: list[int]) -> float:
    return sum(gain / math.log2(place + 1) for place, gain in enumerate(gains, 1))


@given(QUERIES, K)
def test_metrics_are_their_definitions(queries: list[tuple[list[int], dict[int, int]]], k: int) -> None:
    found, relevance = np.array([ranking for ranking, _ in queries]), [graded for _, graded in queries]
    for row, (ranking, graded) in enumerate(queries):
        relevant = {document for document, grade in graded.items() if grade >= 1}
        first = ranking[:k]
        right = [rank for rank, document in enumerate(first, 1) if document in relevant]
        best = discounted(sorted(graded.values(), reverse=True)[:k])
        assert hit_at(found, relevance, k)[row] == bool(right)
        assert recall_at(found, relevance, k)[row] == (len(right) / len(relevant) if relevant else 0)
        assert reciprocal_rank_at(found, relevance, k)[row] == (1 / right[0] if right else 0)
        gained = discounted([graded.get(document, 0) for document in first])
        assert ndcg_at(found, relevance, k)[row] == pytest.approx(gained / best if best else 0)


@given(st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=5), K)
def test_overlap_is_a_share_of_sets(pairs: list[tuple[list[int], list[int]]], k: int) -> None:
    found, other = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    wanted = [len(set(one[:k]) & set(two[:k])) / len(two[:k]) for one, two in pairs]
    assert overlap_at(found, other, k).tolist() == pytest.approx(wanted)


def test_empty_places_are_no_documents() -> None:
    found: IntArray = np.array([[3, -1, -1], [-1, -1, -1]])
    relevance = [{3: 1, 5: 1}, {0: 1}]
    assert hit_at(found, relevance, 3).tolist() == [1, 0]
    assert recall_at(found, relevance, 3).tolist() == [0.5, 0]
    assert overlap_at(found, found, 3).tolist() == [1, 0]
    assert overlap_at(found, np.array([[3, 4, -1], [1, 2, 3]]), 3).tolist() == [0.5, 0]
    assert reciprocal_rank_at(np.empty((2, 0), dtype=np.int64), relevance, 3).tolist() == [0, 0]


@given(QUERIES.filter(lambda queries: any(graded for _, graded in queries)), K)
def test_metrics_are_trec_evals(queries: list[tuple[list[int], dict[int, int]]], k: int) -> None:
    package = pytest.importorskip("pytrec_eval", reason="pytrec_eval is not installed: pip install pytrec-eval-terrier")
    judged = {str(row): pair for row, pair in enumerate(queries) if pair[1]}
    qrels = {name: {str(document): grade for document, grade in graded.items()} for name, (_, graded) in judged.items()}
    run = {name: {str(document): -float(rank) for rank, document in enumerate(order)} for name, (order, _) in judged.items()}
    wanted = package.RelevanceEvaluator(qrels, {f"ndcg_cut.{k}", f"recall.{k}", "recip_rank"}).evaluate(run)
    found, relevance = np.array([order for order, _ in judged.values()]), [graded for _, graded in judged.values()]
    for metric, ours in (
        (f"ndcg_cut_{k}", ndcg_at(found, relevance, k)),
        (f"recall_{k}", recall_at(found, relevance, k)),
        ("recip_rank", reciprocal_rank_at(found, relevance, DOCUMENTS)),
    ):
        assert ours.tolist() == pytest.approx([wanted[name][metric] for name in judged], abs=1e-6)


def rbo_by_definition(one: list[int], other: list[int], p: float) -> float:
    """Equation 23 of Webber, Moffat & Zobel (2010), for rankings of the same length k: the overlap goes on as at depth k."""
    k = len(one)
    shares = [len(set(one[:depth]) & set(other[:depth])) / depth for depth in range(1, k + 1)]
    return shares[-1] * p**k + (1 - p) / p * sum(share * p**depth for depth, share in enumerate(shares, 1))


@given(st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=5), st.integers(1, 6), st.sampled_from([0.5, 0.9, 0.98]))
def test_rank_biased_overlap_is_its_formula(pairs: list[tuple[list[int], list[int]]], k: int, p: float) -> None:
    found, other = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    wanted = [rbo_by_definition(one[:k], two[:k], p) for one, two in pairs]
    assert rank_biased_overlap(found, other, k, p).tolist() == pytest.approx(wanted)
    assert rank_biased_overlap(other, found, k, p).tolist() == pytest.approx(wanted), "symmetric"
    assert rank_biased_overlap(found, found, k, p).tolist() == pytest.approx([1] * len(pairs))
    assert rank_biased_overlap(found, other + DOCUMENTS, k, p).tolist() == [0] * len(pairs)


def test_the_first_places_count_most() -> None:
    one = np.arange(10)[None]
    first, last = one.copy(), one.copy()
    first[0, :2], last[0, 8:] = [1, 0], [9, 8]
    best, middle, worst = (rank_biased_overlap(other, one, 10)[0] for other in (last, first, one[:, ::-1]))
    assert 1 > best > middle > worst > 0


def test_short_rankings_are_compared_up_to_their_length() -> None:
    short: IntArray = np.array([[4, 2, -1, -1]])
    assert rank_biased_overlap(short, short, 4).tolist() == pytest.approx([1]), "an index of two documents"
    assert rank_biased_overlap(short[:, :2], short[:, :2], 4).tolist() == pytest.approx([1])
    assert rank_biased_overlap(np.array([[2, 4, -1]]), short, 3)[0] == pytest.approx(rbo_by_definition([2, 4], [4, 2], 0.9))
    assert rank_biased_overlap(np.full((1, 3), -1), np.full((1, 3), -1), 3).tolist() == [0]
