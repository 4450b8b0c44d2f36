"""Vectors by text, the means of languages, and their export; vectors from the cache."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError, IsoglossError
from isogloss.evaluation.embedding import embedded
from isogloss.evaluation.space import LanguageMeans, Space, language_means, read_means
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray

TEXTS = ["eins", "zwei", "one", "two", "both"]


@pytest.fixture
def space() -> Space:
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    return Space({text: row for row, text in enumerate(TEXTS)}, vectors)


def test_means_are_over_distinct_sentences_and_any_spelling_of_a_language(space: Space) -> None:
    means = language_means(space, [("deu", ["eins", "zwei", "eins"]), ("de", ["both"]), ("eng", ["one", "two", "both"])])
    assert set(means.means) == {"de", "en"} and "deu" in means and "fr" not in means
    assert np.allclose(means.means["de"], (space.vectors[0] + space.vectors[1] + space.vectors[4]) / 3)
    cured = space.without_means(means)
    assert np.allclose(cured.of(["both"], "de")[0], space.vectors[4] - means.means["de"])
    assert np.allclose(cured.of(["both"], "en")[0], space.vectors[4] - means.means["en"]), "one text, two languages"
    assert np.array_equal(space.of(["two", "one"], "en"), space.vectors[[3, 2]])
    with pytest.raises(DataError, match="the mean of fr is not known"):
        cured.of(["one"], "fr")


def test_vectors_of_length_one_have_length_one_again() -> None:
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    means = LanguageMeans({"de": np.array([0.5, 0.2], dtype=np.float32)})
    assert np.allclose(np.linalg.norm(means.removed(vectors, "de"), axis=1), 1)
    assert np.allclose(means.removed(2 * vectors, "de"), 2 * vectors - means.means["de"])


def test_means_are_exported_and_read_again(space: Space, tmp_path: Path) -> None:
    means = language_means(space, [("de", ["eins"]), ("zh-CN", ["two"])], "f1")
    file = means.write(tmp_path)
    again = read_means(str(tmp_path))
    assert set(again.means) == set(read_means(file).means) == {"de", "zh"} and again.fingerprint == "f1"
    assert all(np.array_equal(again.means[one], means.means[one]) for one in means.means)
    (tmp_path / "broken.npz").write_bytes(b"PK not an archive")
    with pytest.raises(IsoglossError, match=r"broken.npz: no means of languages there"):
        read_means(tmp_path / "broken.npz")
    np.save(tmp_path / "vectors.npy", np.zeros((2, 3)))
    with pytest.raises(IsoglossError, match=r"vectors.npy: no means of languages there"):
        read_means(tmp_path / "vectors.npy")
    with pytest.raises(IsoglossError, match="no means of languages there"):
        read_means(tmp_path / "elsewhere")


class Counting:
    """An encoder that remembers what it was asked."""

    name, dimension, fingerprint = "counting", 2, "c0"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "") -> FloatArray:
        self.asked += texts
        on_progress(Step(stage, len(texts), len(texts), "sentences"))
        return np.array([[len(text), 0.1] for text in texts], dtype=np.float32)


def test_means_of_another_model_are_refused() -> None:
    mean = np.array([0.5, 0.2], dtype=np.float32)
    LanguageMeans({"de": mean}, "c0").refuse_other(Counting())
    LanguageMeans({"de": mean}).refuse_other(Counting())
    with pytest.raises(IsoglossError, match="are not those of counting"):
        LanguageMeans({"de": mean}, "c1").refuse_other(Counting())
    with pytest.raises(IsoglossError, match="the mean of de has 3 dimensions, a vector of counting has 2"):
        LanguageMeans({"de": np.zeros(3, dtype=np.float32)}).refuse_other(Counting())


def test_only_what_is_new_is_computed(tmp_path: Path) -> None:
    encoder, steps = Counting(), list[Step]()
    first = embedded(encoder, ["a", "bbb", "cc"], tmp_path, steps.append)
    assert first[:, 0].tolist() == [1, 3, 2] and first[0, 1] == np.float16(0.1)
    again = embedded(encoder, ["cc", "dddd", "a"], tmp_path, steps.append)
    assert again[:, 0].tolist() == [2, 4, 1]
    assert sorted(encoder.asked) == ["a", "bbb", "cc", "dddd"]
    assert steps[-1].finished and steps[-1].total == 1 and "2 reused" in steps[-1].note
    assert embedded(encoder, ["a"], tmp_path)[0, 0] == 1 and len(encoder.asked) == 4
    assert embedded(encoder, ["a"], None)[0, 1] == np.float32(0.1), "without a cache nothing is rounded"
