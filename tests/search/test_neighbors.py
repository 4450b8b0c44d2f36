"""Neighbors against all cosines in double precision: whatever the precision, blocks, threads and interruptions."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.config.mining import SearchSettings
from isogloss.errors import DataError, IsoglossError
from isogloss.progress import Step
from isogloss.search.blockwise import FEWEST_LISTED, CandidateList, ExactSearch
from isogloss.search.neighbors import Neighbors, both_ways, neighbors
from isogloss.search.sides import prepare_sides
from isogloss.search.stripes import SMALLEST_BLOCK
from isogloss.types import FloatArray
from mining.oracles import cosine_table, crowded, nearest_by_definition, two_sides


def same(found: Neighbors, table: FloatArray, k: int) -> None:
    ids, values = nearest_by_definition(table, k)
    assert found.ids.tolist() == ids
    assert found.similarity.tolist() == values
    assert found.ids.dtype == np.int64 and found.similarity.dtype == np.float32


def exactly(left: FloatArray, right: FloatArray) -> FloatArray:
    """The same table as the oracle's, for more vectors than loops can bear."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    lengths = np.linalg.norm(one, axis=1)[:, None] * np.linalg.norm(other, axis=1)
    table: FloatArray = ((one @ other.T) / lengths).astype(np.float32)
    return table


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    with ThreadPoolExecutor(1) as pool:  # as it was found, for threads to come, too
        assert torch.get_num_threads() == pool.submit(torch.get_num_threads).result() == 2
    torch.set_num_threads(before)


@settings(max_examples=60, deadline=None)
@given(two_sides(), st.integers(1, 6), st.sampled_from(["auto", "float32", "bfloat16", "float16"]), st.sampled_from([32, 64]))
def test_neighbors_equal_the_definition(sides: tuple[FloatArray, FloatArray], k: int, precision: str, block: int) -> None:
    table = cosine_table(*sides)
    left, right = both_ways(*sides, k, SearchSettings(device="cpu", precision=precision, block=block))  # type: ignore[arg-type]
    same(left, table, k)
    same(right, table.T, k)
    same(neighbors(*sides, k, SearchSettings(device="cpu", precision=precision, block=block)), table, k)  # type: ignore[arg-type]


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.usefixtures("two_threads")
def test_precision_blocks_and_threads_change_nothing(precision: str) -> None:
    left, right = crowded(800, 48, 1), crowded(700, 48, 2)
    table = exactly(left, right)
    for block in (128, 512):
        found = both_ways(left, right, 5, SearchSettings(device="cpu", precision=precision, block=block))  # type: ignore[arg-type]
        for one, own in zip(found, (table, table.T), strict=True):
            assert np.allclose(one.similarity, -np.sort(-own, axis=1)[:, :5], rtol=0, atol=1e-7)
            assert np.allclose(np.take_along_axis(own, one.ids, axis=1), one.similarity, rtol=0, atol=1e-7)
    with pytest.raises(AssertionError):  # k is looked at
        same(found[0], table, 4)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float16", "float32"])
def test_a_card_finds_the_same(precision: str) -> None:
    left, right = crowded(3000, 64, 1), crowded(2500, 64, 2).astype(np.float16)
    wanted = both_ways(left, right, 5, SearchSettings(device="cpu", precision="float32"))
    found = both_ways(left, right, 5, SearchSettings(device="cuda", precision=precision, block=1024))  # type: ignore[arg-type]
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one.ids, other.ids) and np.array_equal(one.similarity, other.similarity)


def test_neighbors_closer_than_the_product_can_tell_are_told_apart() -> None:
    random = np.random.default_rng(3)
    center = random.normal(size=64)
    right = (center + 1e-4 * random.normal(size=(400, 64))).astype(np.float32)
    left = (center + 1e-4 * random.normal(size=(200, 64))).astype(np.float32)
    fine, coarse = (both_ways(left, right, 4, SearchSettings(device="cpu", precision=one)) for one in ("float32", "bfloat16"))
    for one, other in zip(fine, coarse, strict=True):
        assert np.array_equal(one.ids, other.ids)
        assert np.array_equal(one.similarity, other.similarity)
    rough = torch.from_numpy(left).bfloat16() @ torch.from_numpy(right).bfloat16().T
    assert not np.array_equal(rough.float().topk(4, dim=1).indices.numpy(), fine[0].ids)


def test_many_equal_vectors_go_by_their_numbers_in_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = np.ones((700, 8), dtype=np.float32), np.ones((600, 8), dtype=np.float16)
    right[::2] *= 2
    lengths: list[int] = []
    plain = CandidateList.prune

    def watched(self: CandidateList) -> None:
        lengths.append(self.length)
        plain(self)

    monkeypatch.setattr(CandidateList, "prune", watched)
    one, other = both_ways(left, right, 3, SearchSettings(device="cpu", precision="bfloat16", memory=1))
    assert (one.ids == [0, 1, 2]).all() and (one.similarity == 1).all()
    assert (other.ids == [0, 1, 2]).all()
    assert 0 < max(lengths) <= FEWEST_LISTED + SMALLEST_BLOCK**2  # everything ties with everything, and would be listed


def test_mapped_halves_and_copies_in_a_file(tmp_path: Path) -> None:
    for name, rows in (("left", 300), ("right", 200)):
        np.save(tmp_path / f"{name}.npy", crowded(rows, 24, rows).astype(np.float16))
    left, right = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("left", "right"))
    table = exactly(left, right)
    found = both_ways(left, right, 4, SearchSettings(device="cpu", precision="bfloat16", memory=1))
    for one, own in zip(found, (table, table.T), strict=True):
        assert np.allclose(one.similarity, -np.sort(-own, axis=1)[:, :4], rtol=0, atol=1e-7)


def test_vectors_may_be_taken_as_they_are() -> None:
    left, right = crowded(60, 8, 1), crowded(50, 8, 2)
    found = neighbors(left, right, 3, SearchSettings(device="cpu", precision="bfloat16", normalize=False))
    products = left.astype(np.float64) @ right.astype(np.float64).T
    assert np.array_equal(found.ids, np.argsort(-products, axis=1)[:, :3])
    assert np.allclose(found.similarity, -np.sort(-products, axis=1)[:, :3], rtol=1e-6)


@settings(max_examples=40, deadline=None)
@given(two_sides(), st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), st.booleans())
def test_the_product_is_no_further_off_than_it_says(
    sides: tuple[FloatArray, FloatArray], dtype: torch.dtype, normalize: bool
) -> None:
    one, other = sides[0].astype(np.float64), sides[1].astype(np.float64)
    if normalize:
        one, other = (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30) for rows in (one, other))
    with prepare_sides(*sides, "cpu", dtype, normalize, 2**20) as both:
        rough = (both.left.coarse @ both.right.coarse.T)[: len(one), : len(other)].double().numpy()
        assert np.abs(rough - (one @ other.T - both.constant)).max() <= both.error
        assert len(both.left.coarse) % 32 == 0 and not both.left.coarse[len(one) :].any()


def test_errors_that_all_point_the_same_way_are_allowed_for() -> None:
    """Equal entries are all rounded alike: the worst that can happen to a product of copies."""
    for dimension in range(2, 90):
        side = np.stack([np.ones(dimension), -np.ones(dimension)]).astype(np.float32)
        with prepare_sides(side, side, "cpu", torch.bfloat16, True, 2**20) as both:
            rough = (both.left.coarse @ both.right.coarse.T)[:2, :2].double()
            assert float((rough - torch.tensor([[1.0, -1.0], [-1.0, 1.0]])).abs().max()) <= both.error


def test_the_further_columns_hold_what_the_means_add() -> None:
    left, right = crowded(50, 24, 1), crowded(40, 24, 2)
    one, other = (rows.astype(np.float64) / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right))
    with prepare_sides(left, right, "cpu", torch.bfloat16, True, 2**20) as both:
        further = both.left.coarse[:50, 24:26].double().sum(1).numpy()
        wanted = (one - one.mean(axis=0)) @ other.mean(axis=0)
        assert np.abs(further - wanted).max() <= both.left.number_off * 1.001 < 1e-4 * both.left.number
        assert (both.left.coarse[:50, 26:28] == 1).all() and (both.right.coarse[:40, 24:26] == 1).all()


def test_taking_out_the_mean_makes_the_product_finer() -> None:
    left, right = 5 + crowded(500, 64, 1), 5 + crowded(500, 64, 2)
    unit = [torch.nn.functional.normalize(torch.from_numpy(rows)) for rows in (left, right)]
    plain = sum(float((rows - rows.bfloat16().float()).norm(dim=1).max()) for rows in unit) + 2**-9
    with prepare_sides(left, right, "cpu", torch.bfloat16, True, 2**30) as both:
        assert both.error < plain / 2


def test_a_product_that_is_worse_than_it_says_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = torch.mm

    def worse(one: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return exact(one, other, out=out).add_(0.01)

    monkeypatch.setattr(torch, "mm", worse)
    with pytest.raises(IsoglossError, match="less exact"):
        both_ways(crowded(40, 8, 1), crowded(40, 8, 2), 2, SearchSettings(device="cpu", precision="float32"))


class _Interrupted(Exception):
    pass


def _stripes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The stripes that are searched from now on."""
    seen: list[int] = []
    plain = ExactSearch.stripe

    def watched(self: ExactSearch, first: int, *rest: object) -> bool:
        seen.append(first)
        return plain(self, first, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(ExactSearch, "stripe", watched)
    return seen


def test_interrupted_work_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = crowded(640, 16, 1), crowded(500, 16, 2)
    wanted = both_ways(left, right, 4, SearchSettings(device="cpu"))
    how = SearchSettings(device="cpu", block=64, folder=tmp_path)
    seen = _stripes(monkeypatch)

    def stop(step: Step) -> None:
        if step.done >= 200:
            raise _Interrupted

    with pytest.raises(_Interrupted):
        both_ways(left, right, 4, how, stop)
    before = len(seen)
    assert 2 < before < 10
    steps: list[Step] = []
    found = both_ways(left, right, 4, how, steps.append)
    assert 10 - before <= len(seen) - before < 10
    assert "reused" in steps[0].note
    assert steps[-1].done == steps[-1].total == 640
    for one, other in zip(found, wanted, strict=True):
        assert np.array_equal(one.ids, other.ids) and np.array_equal(one.similarity, other.similarity)
    seen.clear()
    again = both_ways(left, right, 4, how)
    assert seen == [] and np.array_equal(again[1].ids, wanted[1].ids)
    both_ways(left, right, 3, how)
    assert len(seen) == 10  # another question


def test_damaged_state_is_not_used(tmp_path: Path) -> None:
    left, right = crowded(100, 16, 1), crowded(90, 16, 2)
    how = SearchSettings(device="cpu", folder=tmp_path)
    wanted = both_ways(left, right, 4, how)
    (kept,) = tmp_path.glob("*.npz")
    kept.write_bytes(kept.read_bytes()[:100])
    assert np.array_equal(both_ways(left, right, 4, how)[0].ids, wanted[0].ids)


def test_nothing_to_search_among() -> None:
    left, right = both_ways(np.zeros((3, 4), np.float32), np.zeros((0, 4), np.float32), 2)
    assert left.ids.shape == (3, 0) and right.ids.shape == (0, 0)


@pytest.mark.parametrize(
    ("left", "k", "how", "message"),
    [
        (np.ones((3, 5), np.float32), 2, SearchSettings(), "cannot be compared"),
        (np.ones(4, np.float32), 2, SearchSettings(), "cannot be compared"),
        (np.ones((3, 4), np.float32), 0, SearchSettings(), "at least 1"),
        (np.ones((3, 4), np.int32), 1, SearchSettings(), "int32"),
        (np.full((3, 4), np.nan, np.float32), 1, SearchSettings(device="cpu"), "left vector in row 0 is not finite"),
    ],
)
def test_what_cannot_be_searched_is_refused(left: FloatArray, k: int, how: SearchSettings, message: str) -> None:
    with pytest.raises(DataError, match=message):
        both_ways(left, np.ones((2, 4), np.float32), k, how)


def test_unknown_precision() -> None:
    with pytest.raises(IsoglossError, match="precision = 'half'"):
        SearchSettings(precision="half")  # type: ignore[arg-type]
