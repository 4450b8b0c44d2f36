"""The cached encoder: only new sentences are computed, whoever asks, and progress counts what is left."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.vector_cache import VectorCache
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray


class Counting:
    """An encoder that remembers what it was asked, and how often."""

    name, dimension, fingerprint = "counting", 2, "c0"

    def __init__(self, chunk_size: int = 0) -> None:
        self.asked: list[str] = []
        self.calls, self.chunk_size = 0, chunk_size

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "") -> FloatArray:
        self.asked += texts
        self.calls += 1
        on_progress(Step(stage, len(texts), len(texts), "sentences"))
        return np.array([[len(text), 0.1] for text in texts], dtype=np.float32)


def test_only_what_is_new_is_computed(tmp_path: Path) -> None:
    encoder, steps = Counting(), list[Step]()
    first = CachedEncoder(encoder, tmp_path).encode(["a", "bbb", "cc", "a"], steps.append)
    assert first[:, 0].tolist() == [1, 3, 2, 1] and first[0, 1] == np.float16(0.1)
    cached = CachedEncoder(encoder, str(tmp_path))
    again = cached.encode(["cc", "dddd", "a"], steps.append)
    assert again[:, 0].tolist() == [2, 4, 1]
    assert sorted(encoder.asked) == ["a", "bbb", "cc", "dddd"]
    assert steps[-1].finished and steps[-1].total == 1 and "2 reused" in steps[-1].note
    assert CachedEncoder(encoder, tmp_path).encode(["a"])[0, 0] == 1 and cached.reused == 2 and len(encoder.asked) == 4
    assert CachedEncoder(encoder, None).encode(["a"])[0, 1] == np.float32(0.1), "without a cache nothing is rounded"


def test_a_cache_in_full_precision_returns_what_the_encoder_said(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path, "c0", 2, "<f4")
    assert CachedEncoder(Counting(), cache).encode(["a"])[0, 1] == np.float32(0.1)
    again = Counting()
    assert CachedEncoder(again, cache).encode(["a"])[0, 1] == np.float32(0.1) and not again.asked


def test_an_encoder_that_is_slow_to_start_is_called_once(tmp_path: Path) -> None:
    texts = [f"sentence {number}" for number in range(1300)]
    for chunk_size, calls in ((0, 3), (10**6, 1)):
        encoder = Counting(chunk_size)
        CachedEncoder(encoder, tmp_path / str(chunk_size)).encode(texts)
        assert encoder.calls == calls and sorted(encoder.asked) == sorted(texts)
