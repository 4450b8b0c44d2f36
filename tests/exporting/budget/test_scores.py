"""Scores on the two halves of held-out sentences, against slow counting."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.config.exporting import ExportSettings
from isogloss.evaluation.alignment import LanguageResult, PerQuery
from isogloss.evaluation.regressions import in_words
from isogloss.exporting.budget.scores import Prefix, Scorer, clear_losses, is_split, sentences_per_second, spread_texts
from isogloss.exporting.source import ExportSource
from isogloss.models.encoder import load
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray, LanguageScores
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


def results(de: FloatArray, ru: FloatArray) -> list[LanguageResult]:
    """Results where query `n` of each language belongs to source sentence `n`, and cosines are the same numbers."""
    rows = np.arange(len(de))
    return [
        LanguageResult(
            LanguageScores(language, len(rows), None, float(values.mean()), 1.0, None),
            {name: PerQuery(values.astype(float), rows) for name in ("to_source", "from_source", "cosine")},
        )
        for language, values in (("de", de), ("ru", ru))
    ]


@pytest.mark.parametrize(("odd", "lost"), [(1, {"average", "de"}), (0, set()), (None, {"average", "de"})])
def test_clear_losses_are_those_on_the_half_that_is_shown(odd: int | None, lost: set[str]) -> None:
    """A quarter of all queries is lost in German, all of them odd ones; one in Russian is noise; cosines do not count."""
    whole, de, ru = (np.ones(80, dtype=np.float32) for _ in range(3))
    de[1:41:2], ru[3] = 0, 0
    found = clear_losses(results(whole, whole), results(de, ru), odd)
    assert {one.language for one in found} == lost and {one.score for one in found} <= {"to_source", "from_source"}
    share = {1: 0.5, None: 0.75}.get(odd)
    assert all((one.before, one.after) == (1.0, share) for one in found if one.language == "de")
    if lost:
        assert in_words(found).startswith("on the held-out pairs the model is worse than the original: ")
    assert not clear_losses(results(de, ru), results(whole, whole), odd), "better is no loss"


def test_losses_are_measured_against_the_original(models: Path, tmp_path: Path) -> None:
    lines = [f"{pair.source}\t{pair.target}\t{pair.language}" for pair in PAIRS]
    (tmp_path / "pairs.tsv").write_text("\n".join(["source\ttarget\tlanguage", *lines]), encoding="utf-8")
    teacher = str(models / "teacher")
    scorer = Scorer(source := ExportSource(teacher, ExportSettings(), [str(tmp_path / "pairs.tsv")], teacher), 16)
    texts, source_of = scorer.evaluator.texts, {pair.target: pair.source for pair in PAIRS}
    perfect = source.student.encode([source_of.get(text, text) for text in texts])
    assert scorer(perfect, perfect).losses == ()
    german = np.array([row for row, text in enumerate(texts) if text in scorer.evaluator.targets["de"]])
    worse = perfect.copy()
    worse[german] = perfect[np.roll(german, 1)]
    losses = scorer(worse, perfect).losses
    assert {one.language for one in losses} >= {"de"} and "ru" not in {one.language for one in losses}
    assert all(one.before == 1.0 and one.stage == "the original" for one in losses if one.language == "de")


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
