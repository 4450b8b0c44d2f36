"""The search that does not compare all with all, against the one that does: what it finds, what it says, and interruptions."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from isogloss.config.mining import SearchSettings
from isogloss.errors import DataError, IsoglossError
from isogloss.mining.margin import candidate_scores
from isogloss.mining.matching import matched
from isogloss.progress import Step
from isogloss.search import approximate, blockwise, cells
from isogloss.search.approximate import (
    FoundNeighbors,
    Sample,
    measure_recall,
    recall_of,
    sample_rows,
    search_both_ways,
    target_recall,
)
from isogloss.search.cells import CellSearch
from isogloss.search.neighbors import Neighbors, both_ways
from isogloss.types import FloatArray
from search.clustered import topical


def cpu(search: str = "cells", wanted: float = 0.97, folder: Path | None = None, memory: int = 0) -> SearchSettings:
    return SearchSettings(device="cpu", search=search, recall=wanted, folder=folder, memory=memory)  # type: ignore[arg-type]


def share(found: Neighbors, exact: Neighbors) -> float:
    """Neighbors that were found, by loops."""
    hits = sum(len(set(one) & set(other)) for one, other in zip(found.ids.tolist(), exact.ids.tolist(), strict=True))
    return hits / exact.ids.size


def pairs(left: Neighbors, right: Neighbors) -> set[tuple[int, int]]:
    matches = matched(left, right, *candidate_scores(left, right))
    return set(zip(matches.left.tolist(), matches.right.tolist(), strict=True))


@pytest.mark.parametrize("wanted", [0.8, 0.97])
def test_cells_find_what_is_wanted_and_say_how_much(wanted: float) -> None:
    left, right = topical(3000, topics=150)
    exact = both_ways(left, right, 4, cpu())
    found = search_both_ways(left, right, 4, cpu(wanted=wanted))
    true = (share(found.left, exact[0]) + share(found.right, exact[1])) / 2
    account = found.account
    assert account.kind == "cells" and account.recall_wanted == wanted and account.sampled == 1024
    assert wanted - 0.01 < true < 1
    assert account.recall == pytest.approx(true, abs=0.03)
    shares = []
    for seed, (one, other) in enumerate(((found.left, exact[0]), (found.right, exact[1]))):
        rows = sample_rows(3000, seed)[512:]  # of those that were not tuned by
        shares.append(share(Neighbors(one.ids[rows], one.similarity[rows]), Neighbors(other.ids[rows], other.similarity[rows])))
    assert account.recall == sum(shares) / 2
    assert account.compared is not None and account.compared < 0.35
    assert 1 <= account.probes < account.lists == int(2.5 * 3000**0.5)
    assert account.index_bytes > 2 * 3000 * 32 * 2
    assert len(pairs(found.left, found.right) & pairs(*exact)) >= wanted * len(pairs(*exact))
    for one, other in ((found.left, exact[0]), (found.right, exact[1])):  # what is found is exact, and in order
        same = one.ids == other.ids
        assert np.array_equal(one.similarity[same], other.similarity[same])
        assert (one.ids >= 0).all() and (np.diff(one.similarity, axis=1) <= 0).all()
    assert json.loads(json.dumps(asdict(account)))["recall"] == account.recall


def test_a_higher_recall_compares_more() -> None:
    left, right = topical(1500, topics=100, seed=5)
    shares = [search_both_ways(left, right, 4, cpu(wanted=one)).account.compared or 9 for one in (0.5, 0.98, 0.999)]
    assert shares == sorted(shares) and shares[0] < shares[2]


def test_halves_in_a_mapped_file(tmp_path: Path) -> None:
    for name, rows in zip(("left", "right"), topical(1200, seed=6), strict=True):
        np.save(tmp_path / f"{name}.npy", rows.astype(np.float16))
    left, right = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("left", "right"))
    exact = both_ways(left, right, 4, cpu())
    found = search_both_ways(left, right, 4, cpu())
    assert share(found.left, exact[0]) > 0.95 < share(found.right, exact[1])


def test_where_little_would_be_saved_it_is_exact() -> None:
    random = np.random.default_rng(0)
    left, right = (random.normal(size=(700, 64)).astype(np.float32) for _ in range(2))
    found = search_both_ways(left, right, 4, cpu())
    exact = both_ways(left, right, 4, cpu())
    assert found.account.kind == "exact" and "of all comparisons would be needed" in found.account.why
    assert np.array_equal(found.left.ids, exact[0].ids) and np.array_equal(found.right.similarity, exact[1].similarity)


def _twice(rows: int, seed: int) -> FloatArray:
    return np.repeat(topical(rows, seed=seed)[0], 2, axis=0)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.ones((1, 5), np.float32), np.ones((1, 5), np.float32)),
        (np.ones((3, 5), np.float32), -np.ones((7, 5), np.float32)),
        (np.zeros((40, 5), np.float32), np.ones((50, 5), np.float32)),
        (topical(30)[0], topical(9)[1]),
        (_twice(200, 1), _twice(150, 1)),
        (topical(300, dimension=1)[0], topical(300, dimension=1)[1]),
        (topical(300)[0], topical(2)[1]),
    ],
)
def test_few_sentences_copies_and_nothing(left: FloatArray, right: FloatArray) -> None:
    found, exact = search_both_ways(left, right, 4, cpu(wanted=0.9)), both_ways(left, right, 4, cpu())
    for one, other in zip((found.left, found.right), exact, strict=True):
        assert one.ids.shape == other.ids.shape and (one.ids >= 0).all()
        assert all(len(set(row)) == len(row) for row in one.ids.tolist())
        # Equals may stand for each other: what counts is how near they are.
        assert (np.abs(one.similarity - other.similarity) < 1e-6).mean() > 0.8


def test_nothing_to_search_among() -> None:
    found = search_both_ways(np.zeros((3, 4), np.float32), np.zeros((0, 4), np.float32), 2, cpu("approximate"))
    assert found.left.ids.shape == (3, 0) and found.right.ids.shape == (0, 0) and found.account.kind == "exact"


def test_sentences_that_meet_nobody_are_compared_with_all() -> None:
    left, right = topical(600, topics=30, seed=8)
    left[:20] += 30 * np.random.default_rng(1).normal(size=(20, 32)).astype(np.float32)
    right = right[20:]
    found, exact = search_both_ways(left, right, 4, cpu(wanted=0.3)), both_ways(left, right, 4, cpu())
    assert (found.left.ids >= 0).all() and np.isfinite(found.left.similarity).all()
    assert share(found.left, exact[0]) > 0.3


class _Interrupted(Exception):
    pass


def _interrupting(after: int) -> Callable[[Step], None]:
    def stop(step: Step) -> None:
        if step.stage == "neighbors" and step.done >= after:
            raise _Interrupted

    return stop


def test_interrupted_work_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "STRIPE", 200)
    left, right = topical(1000, seed=9)
    wanted = search_both_ways(left, right, 4, cpu())
    seen: list[int] = []
    plain, made = CellSearch.stripe, cells._made

    def watched(self: CellSearch, number: int, *rest: object) -> bool:
        seen.append(number)
        return plain(self, number, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(CellSearch, "stripe", watched)
    with pytest.raises(_Interrupted):
        search_both_ways(left, right, 4, cpu(folder=tmp_path), _interrupting(600))
    before = len(seen)
    assert 2 < before < 10 and len(list(tmp_path.glob("index-*.npz"))) == 2  # cells and samples

    def never(*_: object) -> None:
        raise AssertionError("the index was there")

    monkeypatch.setattr(cells, "_made", never)
    steps: list[Step] = []
    found = search_both_ways(left, right, 4, cpu(folder=tmp_path), steps.append)
    assert 10 <= len(seen) < before + 10
    assert any("reused" in step.note for step in steps) and steps[-1].done == steps[-1].total == 2000
    assert np.array_equal(found.left.ids, wanted.left.ids) and np.array_equal(found.right.ids, wanted.right.ids)
    assert found.account == wanted.account
    monkeypatch.setattr(cells, "_made", made)
    for kept in tmp_path.glob("index-*.npz"):
        kept.write_bytes(kept.read_bytes()[:500])
    again = search_both_ways(left, right, 4, cpu(folder=tmp_path))
    assert np.array_equal(again.left.ids, wanted.left.ids)


def test_memory_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = topical(2000, topics=100)
    areas: list[int] = []
    plain = blockwise.padded

    def watched(*arguments: object) -> object:
        block = plain(*arguments)  # type: ignore[arg-type]
        areas.append(block.products.numel())
        return block

    monkeypatch.setattr(cells, "padded", watched)
    memory = 2**22
    found = search_both_ways(left, right, 4, cpu(memory=memory))
    assert found.account.kind == "cells" and found.account.index_bytes <= memory
    assert 0 < max(areas) * 4 <= memory // 4
    assert (found.account.recall or 0) > 0.95
    with pytest.raises(DataError, match="takes"):
        search_both_ways(left, right, 4, cpu(memory=2**17))


def test_auto_says_what_it_does_and_why() -> None:
    left, right = topical(200)
    steps: list[Step] = []
    found = search_both_ways(left, right, 4, cpu("auto"), steps.append)
    assert found.account.kind == "exact" and found.account.recall is None
    assert steps[0].note == f"exact: {found.account.why}" and "takes about" in found.account.why


def test_faiss_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.delitem(sys.modules, "isogloss.search.faiss_index", raising=False)
    left, right = topical(100)
    for kind in ("hnsw", "ivf-pq"):
        with pytest.raises(IsoglossError, match="needs the package faiss") as caught:
            search_both_ways(left, right, 4, cpu(kind))
        assert "pip install 'isogloss[mining]'" in str(caught.value.hint)
    assert isinstance(search_both_ways(left, right, 4, cpu("approximate")), FoundNeighbors)  # cells need none


def test_samples_are_tuned_by_one_half_and_measured_by_the_other() -> None:
    rows = sample_rows(5000, 0)
    assert len(set(rows.tolist())) == 2 * approximate.SAMPLED and rows.tolist() != sample_rows(5000, 1).tolist()
    sample = Sample(np.array([7, 3, 5]), np.array([[1, 2], [3, 4], [5, 6]]))
    assert sample.half == 2
    assert [one.tolist() for one in sample.pairs] == [[7, 7, 3, 3], [1, 2, 3, 4]]
    ids = np.zeros((8, 2), dtype=np.int64)
    ids[5] = [6, 9]
    found = Neighbors(ids, np.zeros((8, 2), np.float32))
    assert measure_recall((sample, sample), (found, found)) == (0.5, 2)
    assert recall_of(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]])) == 0.75
    assert recall_of(np.empty((0, 2), np.int64), np.empty((0, 2), np.int64)) == 1
    assert 0.97 < target_recall(0.97, 1000) < 0.98 and target_recall(1.0, 10) == 1 and target_recall(0.99, 1) == 1
