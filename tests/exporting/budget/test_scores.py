"""Scores on the two halves of held-out sentences, against slow counting."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.budget.scores import Prefix, Scorer, is_split, sentences_per_second, spread_texts
from isogloss.exporting.source import ExportSource
from isogloss.models.encoder import load
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray
from tiny import PAIRS, KnownVectors


@pytest.fixture
def source(models: Path, tsv: Path) -> ExportSource:
    return ExportSource(str(models / "teacher"), ExportSettings(), [str(tsv)], str(models / "teacher"))


def test_each_half_is_scored_by_its_own_sentences(source: ExportSource) -> None:
    scorer = Scorer(source, 16)
    evaluator = scorer.evaluator
    vectors = np.random.default_rng(1).normal(size=(len(evaluator.texts), 16)).astype(np.float32)
    found = scorer(vectors, vectors)
    index = load(str(source.name)).encode(evaluator.sources)
    index /= np.linalg.norm(index, axis=1, keepdims=True)
    own = dict(zip(evaluator.texts, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), strict=True))
    for odd, scores in ((0, found.chosen_by), (1, found.shown)):
        languages = []
        for language in ("de", "ru"):
            held = [pair for pair in PAIRS if pair.split == "test" and pair.language == language]
            held = [pair for pair in held if evaluator.sources.index(pair.source) % 2 == odd]
            right = [evaluator.sources[int((index @ own[pair.target]).argmax())] == pair.source for pair in held]
            languages.append(np.mean(right))
        assert scores.teacher_index == pytest.approx(np.mean(languages))
    assert found.cosine == pytest.approx(1.0) and is_split(evaluator)
    assert found.languages.keys() == {"de", "ru"}
    assert found.shown.retrieval == pytest.approx(np.mean([one.retrieval for one in found.languages.values()]))


def test_prefix_is_searched_in_prefixes_of_the_index(source: ExportSource) -> None:
    scorer = Scorer(source, 4)
    student = Prefix(source.student, 4)
    cut = student.encode(scorer.evaluator.texts)
    assert np.linalg.norm(cut, axis=1) == pytest.approx(1.0) and student.dimension == 4
    whole = source.student.encode(scorer.evaluator.texts)
    found = scorer(cut, whole)
    assert found.chosen_by.teacher_index is not None and found.cosine == pytest.approx(1.0)
    assert student.fingerprint != source.student.fingerprint


def test_too_few_sentences_are_not_split(tmp_path: Path, models: Path) -> None:
    path = tmp_path / "few.tsv"
    rows = [pair for pair in PAIRS if pair.language == "de"]
    held = next(pair for pair in rows if pair.split == "test")
    lines = ["split\ten\tde", *(f"{'test' if one is held else 'train'}\t{one.source}\t{one.target}" for one in rows)]
    path.write_text("\n".join(lines), encoding="utf-8")
    source = ExportSource(str(models / "teacher"), ExportSettings(), [str(path)], "")
    scorer = Scorer(source, 16)
    vectors = source.student.encode(scorer.evaluator.texts)
    found = scorer(vectors, vectors)
    assert not is_split(scorer.evaluator) and found.chosen_by == found.shown
    assert found.shown.teacher_index is None


class Counting(KnownVectors):
    """Counts the sentences of each call."""

    def __init__(self) -> None:
        super().__init__({"a": [1.0]})
        self.calls: list[int] = []

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        self.calls.append(len(texts))
        return np.ones((len(texts), 1), dtype=np.float32)


def test_speed_is_that_of_the_fastest_round_after_the_first() -> None:
    times = iter([0.0, 9.0, 10.0, 14.0, 20.0, 22.0, 30.0, 35.0])
    model = Counting()
    assert sentences_per_second(model, ["a"] * 40, lambda: next(times)) == 20.0  # 40 sentences in 2 seconds
    assert model.calls == [32, 8] * 4


def test_spread_takes_first_and_last() -> None:
    texts = [str(number) for number in range(10)]
    assert spread_texts(texts, 4) == ["0", "3", "6", "9"] and spread_texts(texts, 99) == texts
