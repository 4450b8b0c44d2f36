"""The vector cache: what was computed once is not computed again, whatever was asked in between."""

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isogloss.errors import IsoglossError, ModelError
from isogloss.models import cached_encoder as encoder_module
from isogloss.models import vector_cache as cache_module
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.vector_cache import INDEX, KEY, VectorCache, refuse_unwritable, refuse_useless, text_key, text_keys
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray
from killed import ended, share_cache, started, text_vectors


class Counting:
    """A real function of the text that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        return np.array([[len(text), sum(map(ord, text)) % 97, 1.0] for text in texts], dtype=np.float32)


class Computed:
    """Any function of texts as an encoder."""

    name, fingerprint, dimension = "computed", "computed", 3

    def __init__(self, compute: Callable[[Sequence[str]], FloatArray]) -> None:
        self.compute = compute

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        return self.compute(texts)


def embed(cache: VectorCache, texts: Sequence[str], compute: Callable[[Sequence[str]], FloatArray]) -> tuple[FloatArray, int]:
    """Encode through a cache: the vectors, and how many of them were found."""
    encoder = CachedEncoder(Computed(compute), cache)
    return encoder.encode(texts), encoder.reused


@given(
    st.lists(st.lists(st.text(max_size=8), max_size=12), min_size=1, max_size=8),
    st.sampled_from([(200_000, 100, 1 << 20), (5, 100, 3), (200_000, 2, 1)]),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
def test_any_order_of_requests_gives_the_same_as_computing(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[str]], sizes: tuple[int, int, int], one_session: bool
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    compute = Counting()
    cache = VectorCache(folder, "model", 3)
    with pytest.MonkeyPatch.context() as patch:
        for name, size in zip(("NEW_ROWS", "NEW_SHARDS", "MERGED_AT_ONCE"), sizes, strict=True):
            patch.setattr(cache_module, name, size)
        for texts in requests:
            before = set(compute.asked)
            cache = cache if one_session else VectorCache(folder, "model", 3)
            vectors, found = embed(cache, texts, compute)
            assert np.array_equal(vectors, Counting()(texts).reshape(-1, 3))
            assert found == sum(text in before for text in texts)
    assert len(compute.asked) == len(set(compute.asked))


def test_models_do_not_share_vectors(tmp_path: Path) -> None:
    compute = Counting()
    for fingerprint in ("one", "two"):
        embed(VectorCache(tmp_path, fingerprint, 3), ["a"], compute)
    assert compute.asked == ["a", "a"]


def test_interrupted_work_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SHARD_SECONDS", 0.0)
    monkeypatch.setattr(encoder_module, "CHUNK", 2)
    compute = Counting()

    def failing(texts: Sequence[str]) -> FloatArray:
        if len(compute.asked) >= 4:
            raise KeyboardInterrupt
        return compute(texts)

    texts = [f"text {n}" for n in range(9)]
    with pytest.raises(KeyboardInterrupt):
        embed(VectorCache(tmp_path, "m", 3), texts, failing)
    again = Counting()
    vectors, found = embed(VectorCache(tmp_path, "m", 3), texts, again)
    assert found == 4
    assert not set(again.asked) & set(compute.asked)
    assert np.array_equal(vectors, Counting()(texts))


def test_leftovers_of_a_killed_process_are_not_read(tmp_path: Path) -> None:
    store = VectorCache(tmp_path, "m", 3)
    embed(store, ["a"], Counting())
    (store.folder / ".abc.npy.partial-1234").write_bytes(b"half")
    assert embed(store, ["a"], Counting())[1] == 1


def test_a_stray_of_yesterday_is_removed_and_one_of_today_is_not(tmp_path: Path) -> None:
    store = VectorCache(tmp_path, "m", 3)
    embed(store, ["a"], Counting())
    old, new = store.folder / ".abc.npy.partial-1234", store.folder / ".abd.npy.partial-1235"
    for stray in (old, new):
        stray.write_bytes(b"half")
    yesterday = time.time() - 25 * 3600
    os.utime(old, (yesterday, yesterday))
    VectorCache(tmp_path, "m", 3).find(text_keys(["a"]))
    assert new.exists() and not old.exists()


def test_the_longest_texts_are_computed_first(tmp_path: Path) -> None:
    compute = Counting()
    embed(VectorCache(tmp_path, "m", 3), ["aa", "a", "aaaa", "bb", "aaa"], compute)
    assert compute.asked == ["aaaa", "aaa", "aa", "bb", "a"]


def test_what_an_interruption_finds_computed_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_module, "CHUNK", 1)
    compute = Counting()

    def interrupted(texts: Sequence[str]) -> FloatArray:
        if compute.asked:
            raise KeyboardInterrupt
        return compute(texts)

    with pytest.raises(KeyboardInterrupt):
        embed(VectorCache(tmp_path, "m", 3), ["aa", "b"], interrupted)
    assert VectorCache(tmp_path, "m", 3).find(text_keys(["aa", "b"]))[0].tolist() == [True, False]


def test_little_waits_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SHARD_BYTES", 50 * (16 + 6 + 8))
    monkeypatch.setattr(encoder_module, "CHUNK", 10)
    store = VectorCache(tmp_path, "m", 3)
    embed(store, [str(n) for n in range(600)], Counting())
    assert len(list(store.folder.glob("*.rows"))) == 10  # each with the sixty that are more than fifty


# ── the index ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = [f"sentence {n}" for n in range(40)]


@pytest.fixture
def indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VectorCache:
    """A cache of eight shards, all of them in the index."""
    monkeypatch.setattr(cache_module, "NEW_ROWS", 5)
    for start in range(0, len(TEXTS), 5):
        embed(VectorCache(tmp_path, "m", 3), TEXTS[start : start + 5], Counting())
    VectorCache(tmp_path, "m", 3).find(text_keys(TEXTS))
    return VectorCache(tmp_path, "m", 3)


def answers(cache: VectorCache) -> dict[str, list[float]]:
    known, vectors = cache.find(text_keys(TEXTS))
    found = [text for text, one in zip(TEXTS, known, strict=True) if one]
    assert np.array_equal(vectors, Counting()(found).reshape(-1, 3))
    return dict(zip(found, vectors.tolist(), strict=True))


def test_many_small_shards_are_indexed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "NEW_SHARDS", 3)
    cache = VectorCache(tmp_path, "m", 3)
    for count, text in enumerate(TEXTS[:5]):
        embed(cache, [text], Counting())
        assert (cache.folder / INDEX).exists() == (count >= 3)  # it is asked for the shards that were there before
    assert set(answers(cache)) == set(TEXTS[:5])


def test_keys_are_found_in_the_index_without_reading_shards_for_them(
    indexed: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: set[Path] = set()

    rows_of = cache_module._rows_of

    def watched(path: Path, record: "np.dtype[np.void]") -> NDArray[np.void]:
        opened.add(path)
        return rows_of(path, record)

    monkeypatch.setattr(cache_module, "_rows_of", watched)
    known, vectors = indexed.find(text_keys(["not there", TEXTS[7], TEXTS[6], TEXTS[7]]))
    assert known.tolist() == [False, True, True, True]
    assert np.array_equal(vectors, Counting()([TEXTS[7], TEXTS[6], TEXTS[7]]))
    assert len(opened) == 1


def test_a_shard_that_is_gone_is_not_known(indexed: VectorCache) -> None:
    shard = min(indexed.folder.glob("*.rows"))
    lost = {bytes(key) for key in np.fromfile(shard, indexed.record)["key"]}
    shard.unlink()
    assert set(answers(indexed)) == {text for text in TEXTS if np.array([text_key(text)], KEY)[0] not in lost}
    again = Counting()
    embed(indexed, TEXTS, again)
    assert len(again.asked) == 5
    assert len(answers(VectorCache(indexed.folder.parents[1], "m", 3))) == len(TEXTS)


def test_a_damaged_shard_is_computed_again(indexed: VectorCache) -> None:
    shard = min(indexed.folder.glob("*.rows"))
    shard.write_bytes(shard.read_bytes()[:-10])  # cut short: the last row is not whole
    assert len(answers(indexed)) == len(TEXTS) - 1
    again = Counting()
    vectors, found = embed(indexed, TEXTS, again)
    assert (len(again.asked), found) == (1, len(TEXTS) - 1)
    assert np.array_equal(vectors, Counting()(TEXTS))


@pytest.mark.parametrize("where", range(7))
def test_a_flipped_byte_costs_the_vectors_it_hit_and_never_gives_another(indexed: VectorCache, where: int) -> None:
    """In a header, keys, vectors and checksums; what is found is right, and the second time nothing is damaged any more."""
    shard = min(indexed.folder.glob("*.rows"))
    data = bytearray(shard.read_bytes())
    data[where * (len(data) - 1) // 6] ^= 0x10
    shard.write_bytes(data)
    cache = VectorCache(indexed.folder.parents[1], "m", 3)
    vectors, _found = embed(cache, TEXTS, Counting())
    assert np.array_equal(vectors, Counting()(TEXTS))
    again = Counting()
    vectors, _found = embed(VectorCache(indexed.folder.parents[1], "m", 3), TEXTS, again)
    assert np.array_equal(vectors, Counting()(TEXTS)) and not again.asked, "what is computed again is found the next time"


def test_an_index_that_does_not_fit_never_gives_a_wrong_vector(indexed: VectorCache) -> None:
    shards = sorted(indexed.folder.glob("*.rows"))
    contents = [shard.read_bytes() for shard in shards]
    for shard, content in zip(shards, [*contents[1:], contents[0]], strict=True):
        shard.write_bytes(content)
    assert answers(indexed) == {}
    (indexed.folder / INDEX).unlink()
    assert len(answers(VectorCache(indexed.folder.parents[1], "m", 3))) == len(TEXTS)


@pytest.mark.parametrize("damage", [b"", b"\xff" * 100, b"\x02" + bytes(7) + b"[]" + bytes(5)], ids=["no", "odd", "cut"])
def test_a_damaged_index_is_made_again(indexed: VectorCache, damage: bytes) -> None:
    (indexed.folder / INDEX).write_bytes(damage)
    assert len(answers(VectorCache(indexed.folder.parents[1], "m", 3))) == len(TEXTS)
    assert (indexed.folder / INDEX).stat().st_size > len(TEXTS) * 24


def test_where_no_index_can_be_written_vectors_are_found_all_the_same(
    indexed: VectorCache, caplog: pytest.LogCaptureFixture
) -> None:
    (indexed.folder / INDEX).unlink()
    (indexed.folder / INDEX).mkdir()
    assert len(answers(VectorCache(indexed.folder.parents[1], "m", 3))) == len(TEXTS)
    assert len([record for record in caplog.records if "index" in record.getMessage()]) == 1


def test_processes_that_share_a_cache_and_are_killed_never_crash_or_get_a_wrong_vector(tmp_path: Path) -> None:
    """Three write, merge and read at once, and two of them are killed on their way, then once more."""
    for turn in range(2):
        dying = (-1, 40, 60)
        processes = [started(share_cache, tmp_path, 10 * turn + number, 90, at) for number, at in enumerate(dying)]
        codes = [ended(process) for process in processes]
        assert codes[0] == 0 and set(codes[1:]) <= {0, -signal.SIGKILL}, codes
    texts = [f"text {number}" for number in range(300)]
    vectors, found = embed(VectorCache(tmp_path, "model", 3), texts, text_vectors)
    assert np.array_equal(vectors, text_vectors(texts)) and found


def test_the_index_that_is_mapped_is_the_one_whose_header_was_read(
    indexed: VectorCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process puts a longer index in its place between the two."""
    path = indexed.folder / INDEX
    longer = indexed.folder / "longer"
    rows = 100
    names = json.dumps(["x.npy"]).encode().ljust(16)
    longer.write_bytes(len(names).to_bytes(8, "little") + names + bytes(24 * rows))
    read = json.loads

    def swapped(text: bytes) -> object:
        os.replace(longer, path)
        monkeypatch.setattr(json, "loads", read)
        return read(text)

    monkeypatch.setattr(json, "loads", swapped)
    assert len(answers(VectorCache(indexed.folder.parents[1], "m", 3))) == len(TEXTS)


@pytest.mark.parametrize("names", ["{}", "[1, 2]", '"text"', "null", '["x.npy"]'])
def test_an_index_with_strange_names_is_no_index(indexed: VectorCache, names: str) -> None:
    path = indexed.folder / INDEX
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    path.write_bytes(data[:8] + names.encode().ljust(length) + data[8 + length :])
    assert len(answers(VectorCache(indexed.folder.parents[1], "m", 3))) == len(TEXTS)


def test_vectors_too_long_for_fp16_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="float16"):
        embed(VectorCache(tmp_path, "m", 3), ["a"], lambda texts: np.full((1, 3), 1e6, dtype=np.float32))


def test_a_cache_that_cannot_be_written_is_named_before_anything_is_computed(tmp_path: Path) -> None:
    def never(texts: Sequence[str]) -> FloatArray:
        raise AssertionError(f"{texts} were computed")

    (tmp_path / "file").write_text("")
    for check in (refuse_unwritable, refuse_useless, lambda folder: embed(VectorCache(folder, "model", 3), ["one"], never)):
        with pytest.raises(IsoglossError, match=r"the embedding cache cannot be used: .*/file/vectors: cannot be") as caught:
            check(tmp_path / "file")
        assert "ISOGLOSS_CACHE" in caught.value.hint and "output.cache" in caught.value.hint


def test_a_cache_that_has_everything_need_not_be_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Counting()
    embed(VectorCache(tmp_path, "model", 3), ["one", "two"], known)

    def read_only(_folder: Path) -> None:
        raise IsoglossError("nothing can be written here")

    monkeypatch.setattr(cache_module, "refuse_unwritable", read_only)
    refuse_useless(tmp_path)
    assert embed(VectorCache(tmp_path, "model", 3), ["two", "one"], known)[1] == 2 and known.asked == ["one", "two"]
    with pytest.raises(IsoglossError, match="nothing can be written here"):
        embed(VectorCache(tmp_path, "model", 3), ["three"], known)
    assert known.asked == ["one", "two"]
