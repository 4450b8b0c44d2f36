"""The teacher's vectors by row: what the teacher gives, each sentence read once, whatever was kept, killed or cached."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isogloss.errors import IsoglossError, ModelError
from isogloss.models import vector_cache
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import load
from isogloss.models.token_store import TextTokenizer
from isogloss.models.vector_cache import VectorCache, text_keys
from isogloss.progress import OnProgress, Step, silent
from isogloss.training.data import teacher_vectors as teaching
from isogloss.training.data.pair_dataset import PairDataset
from isogloss.training.data.teacher_vectors import teacher_rows
from isogloss.types import TRAIN, Bitext, FloatArray, Pair
from tiny import PAIRS, unigram

BITEXT = Bitext.of(PAIRS)
SOURCES = list(dict.fromkeys(pair.source for pair in PAIRS if pair.split == TRAIN))


class Counting:
    """An encoder that is a real function of the text, remembers what it read, and stops after `most` sentences."""

    name, dimension = "counting", 3

    def __init__(self, most: int = 10**9, fingerprint: str = "counting") -> None:
        self.read: list[str] = []
        self.most, self.fingerprint = most, fingerprint

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        if len(self.read) >= self.most:
            raise KeyboardInterrupt
        self.read += texts
        return np.array([[len(text), sum(map(ord, text)) % 97, 1.0] for text in texts], dtype=np.float32)


@pytest.fixture(scope="module")
def data() -> PairDataset:
    return PairDataset.build(BITEXT, TextTokenizer(unigram(), 32))


@pytest.fixture(autouse=True)
def _four_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(teaching, "TEACHER_AT_ONCE", 4)


def expected(sources: Sequence[str] = SOURCES) -> FloatArray:
    return Counting().encode(sources)


def test_rows_are_the_teachers_vectors(models: Path, data: PairDataset, tmp_path: Path) -> None:
    teacher = load(str(models / "teacher"), device="cpu")
    vectors = teacher_rows(teacher, data, folder=tmp_path)
    assert isinstance(vectors, np.memmap) and vectors.dtype == np.float16
    assert np.allclose(vectors, teacher.encode(SOURCES), atol=1e-3)
    assert np.array_equal(vectors, teacher_rows(teacher, data))


@given(
    st.lists(st.sampled_from(PAIRS), min_size=1, max_size=60),
    st.lists(st.sampled_from(SOURCES), max_size=20),
    st.sampled_from([2, 5, 100]),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
def test_every_row_is_read_once_or_found(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[Pair], known: list[str], window: int
) -> None:
    folder = tmp_path_factory.mktemp("teacher")
    bitext = Bitext.of([pair._replace(split=TRAIN) for pair in pairs])
    cache = VectorCache(folder, "counting", 3)
    CachedEncoder(Counting(), cache).encode(known)
    encoder = Counting()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(teaching, "WINDOW", window)
        data = PairDataset.build(bitext, TextTokenizer(unigram(), 32))
        vectors = teacher_rows(encoder, data, cache, folder)
    assert np.array_equal(vectors, expected(bitext.sources()))
    assert sorted(encoder.read) == sorted(set(bitext.sources()) - set(known))
    found, kept = VectorCache(folder, "counting", 3).find(text_keys(bitext.sources()))
    assert found.all() and np.array_equal(kept, vectors)


def test_finished_rows_are_found_again_by_teacher_and_sources(data: PairDataset, tmp_path: Path) -> None:
    teacher_rows(Counting(), data, folder=tmp_path)
    encoder, steps = Counting(), list[Step]()
    assert np.array_equal(teacher_rows(encoder, data, None, tmp_path, steps.append), expected())
    assert encoder.read == []
    assert steps == [Step("teacher", len(SOURCES), len(SOURCES), "sentences", "reused")]
    same = PairDataset.build(BITEXT, TextTokenizer(unigram(), 9))  # another student's tokens, the same sources
    teacher_rows(encoder, same, folder=tmp_path)
    assert encoder.read == []
    fewer = Bitext.of([pair for pair in PAIRS if pair.source != SOURCES[3]])
    teacher_rows(encoder, PairDataset.build(fewer, TextTokenizer(unigram(), 32)), folder=tmp_path)
    assert len(encoder.read) == len(SOURCES) - 1
    other = Counting(fingerprint="other")
    teacher_rows(other, data, folder=tmp_path)
    assert len(other.read) == len(SOURCES)
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".npy"] * 3


@pytest.mark.parametrize("with_cache", [True, False])
def test_an_interrupted_teacher_goes_on_where_it_was(data: PairDataset, tmp_path: Path, with_cache: bool) -> None:
    cache = VectorCache(tmp_path, "counting", 3) if with_cache else None
    stopped, again, steps = Counting(most=12), Counting(), list[Step]()
    with pytest.raises(KeyboardInterrupt):
        teacher_rows(stopped, data, cache, tmp_path)
    assert np.array_equal(teacher_rows(again, data, cache, tmp_path, steps.append), expected())
    assert len(stopped.read) == 12
    assert sorted(stopped.read + again.read) == sorted(SOURCES)
    assert steps[0] == Step("teacher", 12, len(SOURCES), "sentences", "12 reused from the cache") and steps[-1].finished
    assert not list(tmp_path.glob("*.unfinished"))


def test_a_killed_teacher_loses_what_was_not_saved(data: PairDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(vector_cache, "_write_shard", lambda folder, rows: None)  # a kill leaves no time for it
        with pytest.raises(KeyboardInterrupt):
            teacher_rows(Counting(12), data, folder=tmp_path)
    monkeypatch.setattr(vector_cache, "SHARD_SECONDS", -1.0)
    again = Counting(12)
    with pytest.raises(KeyboardInterrupt):
        teacher_rows(again, data, folder=tmp_path)
    assert len(again.read) == 12
    last = Counting()
    assert np.array_equal(teacher_rows(last, data, folder=tmp_path), expected())
    assert sorted(again.read + last.read) == sorted(SOURCES)


def test_long_sentences_of_a_window_are_read_first(data: PairDataset) -> None:
    encoder = Counting()
    teacher_rows(encoder, data)
    lengths = [len(text) for text in encoder.read]
    assert lengths == sorted(lengths, reverse=True)


def test_a_cache_that_knows_everything_is_enough(data: PairDataset, tmp_path: Path) -> None:
    cache, steps = VectorCache(tmp_path, "counting", 3), list[Step]()
    CachedEncoder(Counting(), cache).encode(SOURCES)
    encoder = Counting(most=0)
    assert np.array_equal(teacher_rows(encoder, data, cache, on_progress=steps.append), expected())
    note = f"{len(SOURCES):,} reused from the cache"
    assert steps == [Step("teacher", len(SOURCES), len(SOURCES), "sentences", note)]


def test_vectors_that_are_not_finite_are_refused_with_their_sentence(data: PairDataset, tmp_path: Path) -> None:
    class Broken(Counting):
        def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
            vectors = super().encode(texts)
            vectors[[text == SOURCES[5] for text in texts]] = np.nan
            return vectors

    cache = VectorCache(tmp_path, "counting", 3)
    with pytest.raises(ModelError, match=SOURCES[5]):
        teacher_rows(Broken(), data, cache, tmp_path)
    assert not cache.find(text_keys([SOURCES[5]]))[0].any()


def test_too_little_disk_is_known_before_the_work(data: PairDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=100))
    encoder = Counting()
    with pytest.raises(IsoglossError, match="GiB"):
        teacher_rows(encoder, data, folder=tmp_path)
    assert encoder.read == []


def test_a_damaged_matrix_is_made_again(data: PairDataset, tmp_path: Path) -> None:
    teacher_rows(Counting(), data, folder=tmp_path)
    (path,) = tmp_path.glob("teacher-*.npy")
    path.write_bytes(path.read_bytes()[:-2])
    assert np.array_equal(teacher_rows(Counting(), data, folder=tmp_path), expected())
