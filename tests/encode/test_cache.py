"""The vector cache: what was computed once is not computed again, whatever was asked in between."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isogloss.encode import cache as cache_module
from isogloss.encode.cache import VectorCache
from isogloss.types import FloatArray


class Counting:
    """A real function of the text that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, texts: Sequence[str]) -> FloatArray:
        self.asked += texts
        return np.array([[len(text), sum(map(ord, text)) % 97, 1.0] for text in texts], dtype=np.float32)


@given(st.lists(st.lists(st.text(max_size=8), max_size=12), min_size=1, max_size=5))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30, deadline=None)
def test_any_order_of_requests_gives_the_same_as_computing(
    tmp_path_factory: pytest.TempPathFactory, requests: list[list[str]]
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    compute = Counting()
    for texts in requests:
        vectors, _ = VectorCache(folder, "model", 3).embed(texts, compute)
        assert np.array_equal(vectors, Counting()(texts).reshape(-1, 3))
    assert len(compute.asked) == len(set(compute.asked))


def test_models_do_not_share_vectors(tmp_path: Path) -> None:
    compute = Counting()
    for fingerprint in ("one", "two"):
        VectorCache(tmp_path, fingerprint, 3).embed(["a"], compute)
    assert compute.asked == ["a", "a"]


def test_interrupted_work_keeps_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "SHARD_SECONDS", 0.0)
    monkeypatch.setattr(cache_module, "CHUNK", 2)
    compute = Counting()

    def failing(texts: Sequence[str]) -> FloatArray:
        if len(compute.asked) >= 4:
            raise KeyboardInterrupt
        return compute(texts)

    texts = [f"text {n}" for n in range(9)]
    with pytest.raises(KeyboardInterrupt):
        VectorCache(tmp_path, "m", 3).embed(texts, failing)
    again = Counting()
    vectors, found = VectorCache(tmp_path, "m", 3).embed(texts, again)
    assert found == 4
    assert not set(again.asked) & set(compute.asked)
    assert np.array_equal(vectors, Counting()(texts))


def test_leftovers_of_a_killed_process_are_not_read(tmp_path: Path) -> None:
    store = VectorCache(tmp_path, "m", 3)
    store.embed(["a"], Counting())
    (store.folder / ".abc.npy.partial-1234").write_bytes(b"half")
    assert store.embed(["a"], Counting())[1] == 1
