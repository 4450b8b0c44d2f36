"""Near pairs are those of a loop over all sentences, and labels are the cross-encoder's, kept for the next time."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.corpora.reading.labelled import Labelled
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.runs.augmenting import label, near_pairs, union
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.types import FloatArray
from judged import rated


def by_definition(pairs: Labelled, vectors: FloatArray, k: int) -> list[tuple[str, str]]:
    """For each sentence all others by their cosine, the k first of them, minus what is known."""
    sentences: list[str] = []
    for one, other in zip(pairs.first, pairs.second, strict=True):
        sentences += [text for text in (one, other) if text not in sentences]
    found: list[tuple[str, str]] = []
    wide = vectors.astype(np.float64)
    for i, one in enumerate(sentences):
        cosines = [wide[i] @ wide[j] / np.linalg.norm(wide[i]) / np.linalg.norm(wide[j]) for j in range(len(sentences))]
        others = sorted((j for j in range(len(sentences)) if j != i), key=lambda j: (-cosines[j], j))
        for j in others[:k]:
            other = sentences[j]
            rated_already = any({a, b} == {one, other} for a, b in zip(pairs.first, pairs.second, strict=True))
            if not rated_already and (other, one) not in found:
                found.append((one, other))
    return found


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda p: p[0] != p[1]), min_size=1, max_size=12),
    st.integers(1, 5),
    st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_near_pairs_are_those_of_a_loop(numbers: list[tuple[int, int]], k: int, seed: int) -> None:
    pairs = Labelled([f"s{a}" for a, _ in numbers], [f"s{b}" for _, b in numbers], np.zeros(len(numbers), dtype=np.float32))
    vectors = np.random.default_rng(seed).standard_normal((len(pairs.sentences()), 4)).astype(np.float32)
    assert near_pairs(pairs, vectors, k, "cpu") == by_definition(pairs, vectors, k)


def test_a_rated_pair_is_never_among_them_in_either_order() -> None:
    pairs = Labelled(["a", "c"], ["b", "d"], np.zeros(2, dtype=np.float32))
    vectors = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], dtype=np.float32)  # a b, c d: the near ones are rated
    assert near_pairs(pairs, vectors, 1, "cpu") == []
    everything = near_pairs(pairs, vectors, 10, "cpu")
    assert {frozenset(pair) for pair in everything} == {frozenset(x) for x in ("ac", "ad", "bc", "bd")} and len(everything) == 4


@pytest.fixture(scope="module")
def makers(models: Path) -> tuple[Student, CrossEncoder]:
    return Student.from_pretrained(str(models / "student"), device="cpu"), CrossEncoder.open(
        str(models / "teacher"), device="cpu"
    )


def test_labels_are_the_cross_encoders_and_are_kept(makers: tuple[Student, CrossEncoder], tmp_path: Path) -> None:
    encoder, scorer = makers
    pairs = rated(0, 12)
    told: list[Step] = []
    silver = label(pairs, encoder, scorer, 3, tmp_path, "cpu", told.append)
    wanted = near_pairs(pairs, encoder.encode(pairs.sentences()), 3, "cpu")
    assert list(zip(silver.first, silver.second, strict=True)) == wanted and len(silver) > 10
    assert silver.gold.tolist() == pytest.approx(scorer.score(silver.first, silver.second).tolist(), abs=1e-5)
    assert {"labelling", "neighbors"} <= {step.stage for step in told}
    told.clear()
    again = label(pairs, encoder, scorer, 3, tmp_path, "cpu", told.append)
    assert again.hash == silver.hash and [step.note for step in told] == ["reused"]
    assert label(pairs, encoder, scorer, 2, tmp_path, "cpu").hash != silver.hash


def test_the_union_has_both(makers: tuple[Student, CrossEncoder]) -> None:
    pairs = rated(0, 5)
    silver = Labelled(["x"], ["y"], np.array([2.5], dtype=np.float32))
    both = union(pairs, silver)
    assert both.first == [*pairs.first, "x"] and both.second == [*pairs.second, "y"]
    assert both.gold.tolist() == [*pairs.gold.tolist(), 2.5]
