"""One file of vectors, in parts: interrupted, it goes on and ends as one that was not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import IsoglossError
from isogloss.models import cached_encoder
from isogloss.models.cached_encoder import embed_file
from isogloss.models.vector_cache import longest_first
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import folder_lock
from isogloss.types import FloatArray

TEXTS = [f"{'long ' * (number % 7)}sentence {number % 50}" for number in range(90)]


class Counting:
    """A real function of the text, stopped after some calls."""

    name, dimension = "counting", 3

    def __init__(self, calls: int = 10**9, fingerprint: str = "counting") -> None:
        self.left, self.fingerprint = calls, fingerprint
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        self.asked += texts
        return vectors_of(texts)


def vectors_of(texts: Sequence[str]) -> FloatArray:
    return np.array([[len(text), sum(map(ord, text)) / 97, 1 / 3] for text in texts], dtype=np.float32)


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_encoder, "CHUNK", 16)


def test_interrupted_it_goes_on_from_the_last_part(tmp_path: Path) -> None:
    out, distinct = tmp_path / "v.npy", len(set(TEXTS))
    with pytest.raises(KeyboardInterrupt):
        embed_file(Counting(calls=3), TEXTS, out)
    assert not out.exists()
    rest, steps = Counting(), list[Step]()
    assert embed_file(rest, TEXTS, out, on_progress=steps.append) == (90, 3)
    assert 0 < len(rest.asked) < distinct - 30 and steps[-1].finished and "reused" in steps[-1].note
    assert np.array_equal(np.load(out), vectors_of(TEXTS)) and np.load(out).dtype == np.float32
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_parts_of_others_and_damaged_ones_are_not_used(tmp_path: Path) -> None:
    out = tmp_path / "v.npy"
    for calls, fingerprint in ((2, "another"), (2, "counting")):
        with pytest.raises(KeyboardInterrupt):
            embed_file(Counting(calls, fingerprint), TEXTS, out)
    (shard,) = (tmp_path / "v.npy.unfinished").glob("vectors/counting/*.rows")
    rows = shard.read_bytes()
    shard.write_bytes(bytes(byte ^ 1 for byte in rows))
    rest = Counting()
    embed_file(rest, TEXTS, out)
    assert len(rest.asked) == len(set(TEXTS)) and np.array_equal(np.load(out), vectors_of(TEXTS))


def test_each_distinct_sentence_is_computed_once_and_parts_are_alike(tmp_path: Path) -> None:
    encoder = Counting()
    embed_file(encoder, TEXTS, tmp_path / "v.npy", lambda vectors: vectors * 2)
    assert sorted(encoder.asked) == sorted(set(TEXTS))
    assert np.array_equal(np.load(tmp_path / "v.npy"), 2 * vectors_of(TEXTS))
    texts = [f"{number:03}" for number in range(100)]
    chunks = [list(rows) for rows, _ in longest_first(texts, vectors_of, 16)]
    assert np.concatenate(chunks).tolist() == list(range(100)) and max(map(len, chunks)) <= 16 and min(map(len, chunks)) >= 14
    for done in range(1, len(chunks)):
        rest = texts[sum(map(len, chunks[:done])) :]
        again = [[texts.index(rest[row]) for row in rows] for rows, _ in longest_first(rest, vectors_of, 16)]
        assert again == chunks[done:], "what is left is computed in the same chunks"


def test_two_at_once_are_refused_and_few_sentences_need_no_parts(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "v.npy.unfinished", "x", "y"):
        with pytest.raises(IsoglossError, match="another isogloss is writing these embeddings"):
            embed_file(Counting(), TEXTS, tmp_path / "v.npy")
        embed_file(Counting(), TEXTS[:5], tmp_path / "v.npy")
    assert len(np.load(tmp_path / "v.npy")) == 5
