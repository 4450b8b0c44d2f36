"""Indexes of faiss against the exact search: recall, memory, interruptions, and sides smaller than an index expects."""

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("faiss")

from isogloss.config.mining import SearchSettings
from isogloss.progress import Step
from isogloss.search import faiss_index
from isogloss.search.approximate import search_both_ways
from isogloss.search.faiss_index import FaissSearch, Tuned, as_entries, as_queries
from isogloss.search.neighbors import both_ways
from isogloss.search.plan import choose
from isogloss.search.sides import without_copies
from search.clustered import topical
from search.test_approximate import _Interrupted, _interrupting, cpu, pairs, share

KINDS = ["ivf-pq", "hnsw"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalize", [True, False])
def test_an_index_finds_what_is_wanted(kind: str, normalize: bool) -> None:
    left, right = topical(1500, topics=80)
    how = SearchSettings(device="cpu", search=kind, recall=0.95, normalize=normalize)  # type: ignore[arg-type]
    exact, found = both_ways(left, right, 4, how), search_both_ways(left, right, 4, how)
    true = (share(found.left, exact[0]) + share(found.right, exact[1])) / 2
    account = found.account
    assert account.kind == kind and true > 0.94
    assert account.recall == pytest.approx(true, abs=0.02) and account.sampled == 1024
    assert 0 < account.index_bytes <= choose(1500, 1500, 32, 2**30, 0.95, kind).memory
    assert account.probes >= 4
    assert len(pairs(found.left, found.right) & pairs(*exact)) >= 0.94 * len(pairs(*exact))
    for one, other in ((found.left, exact[0]), (found.right, exact[1])):
        same = one.ids == other.ids
        assert np.array_equal(one.similarity[same], other.similarity[same])


def test_the_index_is_asked_for_the_true_order() -> None:
    left, right = topical(60)
    sides = without_copies(left, right.astype(np.float16), True)
    rows = torch.arange(60)
    products = as_queries(sides.left, rows) @ as_entries(sides.right, sides.left, rows).T
    one, other = (side.raw.double() * side.scale[:, None] for side in (sides.left, sides.right))
    off = products - (one @ other.T).numpy()
    assert np.abs(off - off.mean(axis=1, keepdims=True)).max() < 1e-5  # one number a row apart: the same order


@pytest.mark.parametrize("swapped", [False, True])
def test_what_one_side_finds_is_told_to_the_other(swapped: bool) -> None:
    left, right = topical(300)
    sides, plan = without_copies(left, right, True), choose(300, 300, 32, 2**30, 0.9, "ivf-pq")
    asking, other = (sides.right, sides.left) if swapped else (sides.left, sides.right)
    index = faiss_index.trained_index(plan, other, asking, 2**20)
    index.add(as_entries(other, asking, torch.arange(300)))
    search = FaissSearch(index, sides, swapped, 4, Tuned(plan.lists, 300))  # everything is looked at
    assert search.stripe(0, lambda share: None)
    exact = both_ways(left, right, 4, cpu())
    found = search.found()
    assert np.array_equal(found[0].ids, exact[0].ids) and np.array_equal(found[1].ids, exact[1].ids)


@pytest.mark.parametrize("kind", KINDS)
def test_interrupted_work_goes_on_where_it_was(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_index, "STRIPE", 100)
    left, right = topical(800, seed=3)
    wanted = search_both_ways(left, right, 4, cpu(kind))
    seen: list[int] = []
    plain, build = FaissSearch.stripe, faiss_index.trained_index

    def watched(self: FaissSearch, number: int, *rest: object) -> bool:
        seen.append(number)
        return plain(self, number, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(FaissSearch, "stripe", watched)
    with pytest.raises(_Interrupted):
        search_both_ways(left, right, 4, cpu(kind, folder=tmp_path), _interrupting(300))
    before, built_again = len(seen), 0
    assert 1 < before < 8 and len(list(tmp_path.glob("index-*.faiss"))) == 1

    def counted(*arguments: object) -> object:
        nonlocal built_again
        built_again += 1
        return build(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(faiss_index, "trained_index", counted)
    steps: list[Step] = []
    found = search_both_ways(left, right, 4, cpu(kind, folder=tmp_path), steps.append)
    assert built_again == 1  # that of the other side
    assert 16 <= len(seen) < before + 16 and any("reused" in step.note for step in steps)
    if kind == "ivf-pq":  # a graph depends on the order in which threads add to it
        assert np.array_equal(found.left.ids, wanted.left.ids) and np.array_equal(found.right.ids, wanted.right.ids)
    for kept in tmp_path.glob("index-*.faiss"):
        kept.write_bytes(kept.read_bytes()[:100])
    assert (search_both_ways(left, right, 4, cpu(kind, folder=tmp_path)).account.recall or 0) > 0.95


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [(1, 1), (3, 40), (200, 5)])
def test_few_sentences(kind: str, rows: tuple[int, int]) -> None:
    left, right = topical(rows[0])[0], topical(rows[1])[1]
    exact, found = both_ways(left, right, 4, cpu()), search_both_ways(left, right, 4, cpu(kind))
    for one, other in ((found.left, exact[0]), (found.right, exact[1])):
        assert one.ids.shape == other.ids.shape and (one.ids >= 0).all()
        assert share(one, other) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_many_copies(kind: str) -> None:
    left, right = (np.repeat(side, 8, axis=0) for side in topical(60))
    exact, found = both_ways(left, right, 4, cpu()), search_both_ways(left, right, 4, cpu(kind))
    for one, other in ((found.left, exact[0]), (found.right, exact[1])):
        assert all(len(set(row)) == 4 for row in one.ids.tolist())
        assert (np.abs(one.similarity - other.similarity) < 1e-6).mean() > 0.9
