"""Mining with gold: thresholds, halves and F1, against loops written from LASER's script."""

import math
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.data.test_sets import Haystack, open_data
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.bitext import HALVES_NOTE, Splits, halves, mine_haystack, mining, open_splits
from isogloss.types import FloatArray
from made_up_sets import write_sets

ROWS = 24


def haystack(seed: int, split: str = "test", repeated: bool = False) -> tuple[Haystack, dict[str, FloatArray]]:
    """Left sentences, two thirds of which have a translation on the right that lies near."""
    generator = np.random.default_rng(seed)
    left = [f"l{n} {seed}" for n in range(ROWS)]
    right = [f"r{n} {seed}" for n in range(ROWS)]
    vectors = {text: generator.normal(size=4).astype(np.float32) for text in left + right}
    gold = [(f"zh-{n}", f"en-{n}") for n in range(ROWS) if n % 3]
    for n in range(ROWS):
        if n % 3:
            vectors[right[n]] = vectors[left[n]] + 0.5 * generator.normal(size=4).astype(np.float32)
    if repeated:
        left[1] = left[2] = "twice"
        vectors["twice"] = vectors[right[1]]
    ids = [f"zh-{n}" for n in range(ROWS)], [f"en-{n}" for n in range(ROWS)]
    return Haystack("bucc", "zh-en", ("zh", "en"), (left, right), split=split, ids=ids, gold=gold), vectors


def space(*vectors: dict[str, FloatArray]) -> Space:
    merged = {text: row for some in vectors for text, row in some.items()}
    return Space({text: row for row, text in enumerate(merged)}, np.stack(list(merged.values())))


def mined_by_loops(hay: Haystack, vectors: dict[str, FloatArray], k: int) -> dict[tuple[str, str], float]:
    """Max strategy: both directions' best by ratio margin, the highest first, each sentence once (LASER, mine_bitexts.py)."""
    sides = [list(dict.fromkeys(texts)) for texts in hay.texts]

    def cos(a: str, b: str) -> float:
        x, y = vectors[a].astype(np.float64), vectors[b].astype(np.float64)
        return float(x @ y / math.sqrt((x @ x) * (y @ y)))

    near = [{a: sorted(sides[1 - s], key=lambda b, a=a: -cos(a, b))[:k] for a in sides[s]} for s in (0, 1)]  # type: ignore[misc]
    mean = [{a: sum(cos(a, b) for b in near[s][a]) / k for a in sides[s]} for s in (0, 1)]

    def margin(a: str, b: str) -> float:
        return cos(a, b) / max((mean[0][a] + mean[1][b]) / 2, 1e-3)

    forward = [(a, max(near[0][a], key=lambda b, a=a: margin(a, b))) for a in sides[0]]  # type: ignore[misc]
    backward = [(max(near[1][b], key=lambda a, b=b: margin(a, b)), b) for b in sides[1]]  # type: ignore[misc]
    found: dict[tuple[str, str], float] = {}
    taken: set[str] = set()
    for a, b in sorted(set(forward + backward), key=lambda pair: -margin(*pair)):
        if a not in taken and b not in taken:
            taken |= {a, b}
            found[a, b] = margin(a, b)
    once = [{text: hay.ids[s][hay.texts[s].index(text)] for text in sides[s] if hay.texts[s].count(text) == 1} for s in (0, 1)]
    return {(once[0][a], once[1][b]): value for (a, b), value in found.items() if a in once[0] and b in once[1]}


@pytest.mark.parametrize("seed", range(4))
def test_mined_pairs_are_lasers(seed: int) -> None:
    hay, vectors = haystack(seed, repeated=seed % 2 == 1)
    wanted = mined_by_loops(hay, vectors, 3)
    mined = mine_haystack(hay, space(vectors), 3)
    scores = {hay.ids[0][row]: score for row, score in zip(mined.left.tolist(), mined.scores.tolist(), strict=True)}
    assert scores == pytest.approx({left: value for (left, _), value in wanted.items()}, rel=1e-4)
    assert int(mined.right_answer.sum()) == len(set(wanted) & set(hay.gold))
    assert int(mined.wanted.sum()) == len(hay.gold), "gold pairs of repeated sentences count as missed"


def test_sentences_that_occur_twice_on_either_side_are_not_extracted() -> None:
    """Every sentence has one translation beside it; the first row counts like the others."""
    left, right = ["a", "twice", "b", "c", "twice", "d"], ["A", "X", "B", "again", "again", "D"]
    where = {"a": 0, "A": 0, "twice": 1, "X": 1, "b": 2, "B": 2, "c": 3, "again": 3, "d": 4, "D": 4}
    vectors = {text: np.eye(5, dtype=np.float32)[place] for text, place in where.items()}
    ids = [f"zh-{n}" for n in range(6)], [f"en-{n}" for n in range(6)]
    gold = [("zh-0", "en-0"), ("zh-1", "en-1"), ("zh-2", "en-5"), ("zh-3", "en-3"), ("zh-5", "en-5")]
    mined = mine_haystack(
        Haystack("bucc", "zh-en", ("zh", "en"), (left, right), split="test", ids=ids, gold=gold), space(vectors), 2
    )
    found = dict(zip(mined.left.tolist(), mined.right_answer.tolist(), strict=True))
    assert found == {0: True, 2: False, 5: True} and len(mined.scores) == 3
    assert mined.wanted.tolist() == [1, 1, 1, 1, 0, 1]


def f1_by_loops(found: dict[tuple[str, str], float], gold: set[tuple[str, str]], threshold: float) -> float:
    taken = {pair for pair, value in found.items() if value >= threshold}
    return 2 * len(taken & gold) / (len(taken) + len(gold))


def best_by_loops(found: dict[tuple[str, str], float], gold: set[tuple[str, str]]) -> float:
    return max(found.values(), key=lambda value: (f1_by_loops(found, gold, value), value))


def test_the_threshold_comes_from_the_training_split() -> None:
    (test, test_vectors), (training, training_vectors) = haystack(1), haystack(2, "training")
    (found,) = mining("BUCC", (Splits(test, training),), 3).measure(space(test_vectors, training_vectors))
    learnt = mined_by_loops(training, training_vectors, 3)
    best = best_by_loops(learnt, set(training.gold))
    threshold = (best + max((value for value in learnt.values() if value < best), default=best)) / 2
    pairs = mined_by_loops(test, test_vectors, 3)
    assert found.sample.value() == pytest.approx(f1_by_loops(pairs, set(test.gold), threshold))
    assert found.others["threshold"] == pytest.approx(threshold, rel=1e-4) and not found.note
    hindsight = f1_by_loops(pairs, set(test.gold), best_by_loops(pairs, set(test.gold)))
    assert found.others["F1, threshold in hindsight"] == pytest.approx(hindsight)
    precision, recall = found.others["precision"], found.others["recall"]
    assert found.sample.value() == pytest.approx(2 * precision * recall / (precision + recall))
    assert len(found.sample) == ROWS


def test_one_split_is_halved_and_each_half_judged_by_the_other() -> None:
    hay, vectors = haystack(5)
    (found,) = mining("BUCC", (Splits(hay),), 3).measure(space(vectors))
    half = dict(zip(hay.ids[0], halves(hay.ids[0]).tolist(), strict=True))
    pairs, right, taken = mined_by_loops(hay, vectors, 3), 0, 0
    for own in (False, True):
        other = {pair: value for pair, value in pairs.items() if half[pair[0]] != own}
        threshold = best_by_loops(other, {pair for pair in hay.gold if half[pair[0]] != own})
        below = max((value for value in other.values() if value < threshold), default=threshold)
        chosen = {pair for pair, value in pairs.items() if half[pair[0]] == own and value >= (threshold + below) / 2}
        right, taken = right + len(chosen & set(hay.gold)), taken + len(chosen)
    assert found.sample.value() == pytest.approx(2 * right / (taken + len(hay.gold)))
    assert found.note == HALVES_NOTE
    assert 0.3 < np.mean(halves([f"zh-{n:09}" for n in range(2000)])) < 0.7


def test_splits_that_the_data_has(tmp_path: Path) -> None:
    data = open_data(str(write_sets(tmp_path)))
    official = open_splits(data, "bucc", "de-en")
    assert official.training is not None and official.test.split == "test" and official.training.split == "training"
    alone = open_splits(data, "bucc", "zh-en")
    assert alone.training is None and alone.test.split == "dev"
    with pytest.raises(DataError, match="bucc fr-en: not in"):
        open_splits(data, "bucc", "fr-en")
    languages = [language for part in mining("BUCC", (official, alone)).sets for language in part.languages]
    assert languages == ["de", "en", "de", "en", "zh", "en"]
