"""STS, Tatoeba and bias on vectors, against plain loops over them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from isogloss.evaluation.data.known_sets import TATOEBA
from isogloss.evaluation.data.test_sets import EvaluationSet, RatedPairs, open_data
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.bias import among_both, joined_sets, mixed_retrieval
from isogloss.evaluation.tasks.sts import sts
from isogloss.evaluation.tasks.task import Task
from isogloss.evaluation.tasks.tatoeba import GROUPS, tatoeba
from isogloss.types import FloatArray
from made_up_sets import write_sets


def space_of(task: Task, seed: int = 0, width: int = 6) -> Space:
    texts = list(dict.fromkeys(text for part in task.sets for texts in part.texts for text in texts))
    vectors = np.random.default_rng(seed).normal(size=(len(texts), width)).astype(np.float32)
    return Space({text: row for row, text in enumerate(texts)}, vectors)


def cosine(a: FloatArray, b: FloatArray) -> float:
    product, left, right = (sum(float(x) * float(y) for x, y in zip(*two, strict=True)) for two in ((a, b), (a, a), (b, b)))
    return product / math.sqrt(left * right)


@pytest.fixture
def sets(tmp_path: Path) -> tuple[RatedPairs, ...]:
    data = open_data(str(write_sets(tmp_path)))
    return tuple(data.rated_pairs("sts2017", name) for name in ("en-en", "en-ar", "en-es"))


def test_sts_is_spearman_of_cosine(sets: tuple[RatedPairs, ...]) -> None:
    task = sts("STS", sets)
    space = space_of(task)
    for pairs, found in zip(sets, task.measure(space), strict=True):
        left, right = ([space.vectors[space.row_of[text]] for text in side] for side in pairs.texts)
        values = [cosine(a, b) for a, b in zip(left, right, strict=True)]
        assert found.sample.value() == pytest.approx(stats.spearmanr(values, pairs.gold).statistic, abs=1e-9)
        assert found.others["Spearman of cosine"] == found.sample.value()
        lengths = [-float(np.linalg.norm(a - b)) for a, b in zip(left, right, strict=True)]
        products = [float(a @ b) for a, b in zip(left, right, strict=True)]
        assert found.others["Pearson of euclidean"] == pytest.approx(stats.pearsonr(lengths, pairs.gold).statistic, abs=1e-5)
        assert found.others["Pearson of dot"] == pytest.approx(stats.pearsonr(products, pairs.gold).statistic, abs=1e-5)
        assert found.column == pairs.subset and found.origin == pairs.origin


def translations(code: str, rows: int, seed: int) -> EvaluationSet:
    texts = [f"{code} {n} {seed}" for n in range(rows)], [f"en {n} {code}" for n in range(rows)]
    return EvaluationSet("tatoeba", code, (code, "eng"), texts)


def test_tatoeba_both_ways_against_loops() -> None:
    pairs = translations("deu", 30, 1)
    task = tatoeba("Tatoeba", (pairs,))
    space = space_of(task, width=3)
    noise = np.random.default_rng(5).normal(size=(30, 3)).astype(np.float32)
    for row in range(30):  # translations lie near, so that some are found and some are not
        space.vectors[space.row_of[pairs.texts[1][row]]] = space.vectors[space.row_of[pairs.texts[0][row]]] + 0.4 * noise[row]
    (found,) = task.measure(space)
    foreign, english = space.of(pairs.texts[0], "deu"), space.of(pairs.texts[1], "eng")
    back = np.mean([max(range(30), key=lambda j, i=i: cosine(foreign[i], english[j])) == i for i in range(30)])  # type: ignore[misc]
    out = np.mean([max(range(30), key=lambda j, i=i: cosine(english[i], foreign[j])) == i for i in range(30)])  # type: ignore[misc]
    assert 0 < out < 1 and out != back
    assert found.others["xx → en"] == pytest.approx(back) and found.others["en → xx"] == pytest.approx(out)
    assert found.sample.value() == pytest.approx((out + back) / 2)
    assert found.others["by margin"] == pytest.approx(1 - (found.others["xsim en → xx"] + found.others["xsim xx → en"]) / 2)


def test_the_same_text_on_another_line_is_right_too() -> None:
    pairs = EvaluationSet("tatoeba", "deu", ("deu", "eng"), (["a", "b", "c"], ["same", "same", "other"]))
    space = Space({text: row for row, text in enumerate(["a", "b", "c", "same", "other"])}, np.eye(5, dtype=np.float32))
    space.vectors[:3] = [[0, 0, 0, 1, 0.1], [0, 0, 0, 1, 0.2], [0, 0, 0, 0.1, 1]]
    (found,) = tatoeba("Tatoeba", (pairs,)).measure(space)
    assert found.others["xx → en"] == 1.0 and found.others["en → xx"] == pytest.approx(2 / 3)


def test_groups_are_those_of_the_papers() -> None:
    assert {name: len(codes) for name, codes in GROUPS.items()} == {"14": 14, "36": 36, "82": 83, "112": 112}
    assert all(set(codes) <= set(TATOEBA) and len(set(codes)) == len(codes) for codes in GROUPS.values())
    task = tatoeba("Tatoeba", tuple(translations(code, 3, 1) for code in TATOEBA))
    found = {one.column: one for one in task.measure(space_of(task))}
    for name, codes in GROUPS.items():
        mean = np.mean([found[code].sample.value() for code in codes])
        assert found[f"{name} langs"].sample.value() == pytest.approx(mean)
        assert found[f"{name} langs"].others["xx → en"] == pytest.approx(
            np.mean([found[code].others["xx → en"] for code in codes])
        )
    assert "83" in found["82 langs"].note and not found["36 langs"].note
    fewer = tatoeba("Tatoeba", tuple(translations(code, 3, 1) for code in GROUPS["14"][:-1]))
    assert all("langs" not in one.column for one in fewer.measure(space_of(fewer))), "a group is whole or not there"


def test_joined_sets(sets: tuple[RatedPairs, ...]) -> None:
    task = joined_sets("joined", sets)
    space = space_of(task)
    expected, actual, difference = task.measure(space)
    values, gold, apart = [], [], []
    for pairs in sets:
        own = [cosine(*(space.vectors[space.row_of[text]] for text in both)) for both in zip(*pairs.texts, strict=True)]
        values += own
        gold += pairs.gold.tolist()
        apart.append(stats.spearmanr(own, pairs.gold).statistic)
    assert expected.sample.value() == pytest.approx(np.mean(apart), abs=1e-4)
    assert actual.sample.value() == pytest.approx(stats.spearmanr(values, gold).statistic, abs=1e-4)
    assert difference.sample.value() == pytest.approx(actual.sample.value() - expected.sample.value())
    assert difference.column == "Difference"


def test_among_both_against_loops() -> None:
    generator = np.random.default_rng(2)
    own = generator.normal(size=(15, 3)).astype(np.float32)
    other = own + 0.5 * generator.normal(size=(15, 3)).astype(np.float32)
    hits, shares = among_both(own, other)
    for i in range(15):
        candidates = [(cosine(own[i], other[j]), "theirs", j) for j in range(15)]
        candidates += [(cosine(own[i], own[j]), "mine", j) for j in range(15) if j != i]
        ranked = sorted(candidates, reverse=True)
        assert hits[i] == (ranked[0][1:] == ("theirs", i))
        assert shares[i] == pytest.approx(np.mean([side == "mine" for _, side, _ in ranked[:10]]))


def test_a_biased_model_loses_to_its_own_language_and_mean_removal_cures_it() -> None:
    pairs = translations("deu", 20, 1)
    task = mixed_retrieval("mixed", (pairs,))
    space = space_of(task)
    meaning = np.random.default_rng(3).normal(size=(20, 6)).astype(np.float32)
    for row in range(20):
        space.vectors[space.row_of[pairs.texts[0][row]]] = meaning[row] + 9
        space.vectors[space.row_of[pairs.texts[1][row]]] = meaning[row] - 9
    from isogloss.evaluation.space import language_means

    (biased,) = task.measure(space)
    (cured,) = task.measure(replace(space, means=language_means(space, [pairs])))
    assert biased.sample.value() == 0.0 and biased.others["own language in nearest 10"] == 1.0
    assert cured.sample.value() == 1.0 and 0.2 < cured.others["own language in nearest 10"] < 0.8
