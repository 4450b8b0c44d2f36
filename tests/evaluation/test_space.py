"""Embeddings by text, the means of languages, and their export."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from isogloss.errors import DataError, IsoglossError
from isogloss.evaluation.data.test_sets import EvaluationSet
from isogloss.evaluation.space import LanguageMeans, Space, language_means, read_means
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray

TEXTS = ["eins", "zwei", "one", "two", "both"]


@pytest.fixture
def space() -> Space:
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    return Space({text: row for row, text in enumerate(TEXTS)}, vectors)


def texts(language: str, *own: str, role: str = "") -> EvaluationSet:
    return EvaluationSet("set", language, (language,), (list(own),), role=role)


class Numbers(ExternalEncoder):
    """The vector of a text: its length with the prompt, and the number of texts encoded so far."""

    name, batch_size, prompts = "numbers", 8, {"query": "qq", "document": ""}
    encoded: ClassVar[list[str]] = []

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        self.encoded.extend(texts)
        return np.array([[len(text), 1] for text in texts], dtype=np.float32)

    def _identity(self) -> str:
        return "numbers"


def test_queries_and_documents_are_embedded_with_their_prompts() -> None:
    sets = [
        texts("de", "eins", "drei", role="query"),
        texts("de", "eins", "fünf", role="document"),
        texts("en", "eins", "six"),
        texts("en", "six", role="query"),
    ]
    encoder = Numbers()
    encoder.dimension = 2
    encoder.encoded.clear()
    space = Space.of_sets(encoder, sets)
    assert [space.columns(one)[0][:, 0].tolist() for one in sets] == [[6, 6], [4, 4], [4, 3], [5]]
    assert sorted(encoder.encoded) == sorted(["eins", "fünf", "six", "qqeins", "qqdrei", "qqsix"]), "each once"
    means = language_means(space, sets)
    assert means.means["de"][0] == (6 + 6 + 4 + 4) / 4 and means.means["en"][0] == pytest.approx((4 + 3 + 5) / 3)
    assert replace(space, means=means).columns(sets[0])[0][:, 0].tolist() == [1, 1]
    encoder.role_prompts = {"document": "ddd"}
    both = Space.of_sets(encoder, sets)
    assert [both.columns(one)[0][:, 0].tolist() for one in sets] == [[6, 6], [7, 7], [4, 3], [5]]
    asked = Space.of_sets(encoder, sets[:1])
    assert asked.columns(sets[0])[0][:, 0].tolist() == [6, 6] and not asked.row_of


def test_means_are_over_distinct_sentences_and_any_spelling_of_a_language(space: Space) -> None:
    means = language_means(
        space, [texts("deu", "eins", "zwei", "eins"), texts("de", "both"), texts("eng", "one", "two", "both")]
    )
    assert set(means.means) == {"de", "en"} and "deu" in means and "fr" not in means
    assert np.allclose(means.means["de"], (space.vectors[0] + space.vectors[1] + space.vectors[4]) / 3)
    cured = replace(space, means=means)
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
    means = language_means(space, [texts("de", "eins"), texts("zh-CN", "two")], "f1")
    file = means.write(tmp_path)
    again = read_means(str(tmp_path))
    assert set(again.means) == set(read_means(file).means) == {"de", "zh"} and again.fingerprint == "f1"
    assert all(np.array_equal(again.means[one], means.means[one]) for one in means.means)
    (tmp_path / "broken.npz").write_bytes(b"PK not an archive")
    with pytest.raises(IsoglossError, match=r"broken.npz: damaged, or not a file of language means"):
        read_means(tmp_path / "broken.npz")
    locked = bytearray(file.read_bytes())
    for place in (6, locked.find(b"PK\x01\x02") + 8):
        locked[place] |= 1
    (tmp_path / "locked.npz").write_bytes(locked)
    with pytest.raises(IsoglossError, match=r"locked.npz: damaged, or not"):
        read_means(tmp_path / "locked.npz")
    np.savez(tmp_path / "objects.npz", de=np.array([{}], dtype=object))
    with pytest.raises(IsoglossError, match=r"objects.npz: damaged, or not"):
        read_means(tmp_path / "objects.npz")
    np.save(tmp_path / "vectors.npy", np.zeros((2, 3)))
    with pytest.raises(IsoglossError, match=r"vectors.npy: damaged, or not a file of language means"):
        read_means(tmp_path / "vectors.npy")
    with pytest.raises(IsoglossError, match="no language means there"):
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
    with pytest.raises(IsoglossError, match="do not belong to counting"):
        LanguageMeans({"de": mean}, "c1").refuse_other(Counting())
    with pytest.raises(IsoglossError, match="the mean of de has 3 dimensions, a vector of counting has 2"):
        LanguageMeans({"de": np.zeros(3, dtype=np.float32)}).refuse_other(Counting())
