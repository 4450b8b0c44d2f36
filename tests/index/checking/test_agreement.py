"""Agreement between a student's searches and the teacher's, against loops written from the definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.index.checking.agreement import AVERAGE, Asked, Found, Measured, agreements, as_numbers
from isogloss.types import FloatArray, IntArray

K, DOCUMENTS = 4, 12
RANKING = st.permutations(range(DOCUMENTS)).map(lambda order: order[:K])
QUERY = st.tuples(RANKING, RANKING, st.dictionaries(st.integers(0, DOCUMENTS - 1), st.just(1.0), max_size=3))


def vectors(rows: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, 5)).astype(np.float32)


def found(rankings: list[list[int]], seed: int = 0) -> Found:
    return Found(np.array(rankings, dtype=np.int64).reshape(-1, K), vectors(len(rankings), seed))


def measured(
    student: dict[str, Asked], teacher: Found, gold: list[dict[int, float]] | None = None, apart: tuple[str, ...] = ("en",)
) -> tuple[dict[str, dict[str, Measured]], dict[str, Measured]]:
    ids = [f"q{row}" for row in range(len(teacher.documents))]
    given_gold = gold or [{} for _ in ids]
    languages, own = agreements(student, teacher, ids, given_gold, K, apart, 200)
    return {language: one.scores for language, one in languages.items()}, own


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@settings(max_examples=40)
@given(st.lists(QUERY, min_size=1, max_size=8))
def test_scores_are_their_definitions(queries: list[tuple[list[int], list[int], dict[int, float]]]) -> None:
    teacher, student = found([its for its, _, _ in queries], 1), found([own for _, own, _ in queries], 2)
    gold = [graded for _, _, graded in queries]
    scores, own_gold = measured({"de": Asked(range(len(queries)), student)}, teacher, gold)
    german = {name: one.value for name, one in scores["de"].items()}
    pairs = [(set(its), set(own), its[0], own[0]) for its, own, _ in queries]
    wanted = {
        "overlap": mean([len(its & own) / K for its, own, _, _ in pairs]),
        "first_found": mean([first in own for _, own, first, _ in pairs]),
        "same_first": mean([first == other for _, _, first, other in pairs]),
        "cosine": mean(
            [
                float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
                for a, b in zip(student.vectors, teacher.vectors, strict=True)
            ]
        ),
    }
    judged = [(its, own, graded) for its, own, graded in queries if graded]
    if judged:
        wanted["recall"] = mean([len(set(own) & set(graded)) / len(graded) for _, own, graded in judged])
        teachers = mean([len(set(its) & set(graded)) / len(graded) for its, _, graded in judged])
        wanted["kept_recall"] = wanted["recall"] / teachers if teachers else 0
        wanted["mrr"] = mean(
            [next((1 / rank for rank, one in enumerate(own, 1) if one in graded), 0) for _, own, graded in judged]
        )
        assert own_gold["recall"].value == pytest.approx(teachers, abs=1e-4)
    else:
        assert own_gold == {} and "kept_recall" not in german
    for name, value in wanted.items():
        assert german[name] == pytest.approx(value, abs=1e-4), name


def test_a_perfect_student_and_one_that_finds_nothing() -> None:
    teacher = found([[1, 2, 3, 4], [5, 6, 7, 8], [0, 9, 10, 11]])
    other = Found(teacher.documents + DOCUMENTS, -teacher.vectors)
    gold = [{1: 1.0}, {}, {11: 1.0}]
    scores, _ = measured({"de": Asked(range(3), teacher), "fr": Asked(range(3), other)}, teacher, gold)
    for name in ("overlap", "first_found", "same_first", "rbo", "cosine", "kept_recall", "recall"):
        assert scores["de"][name] == Measured(1, 1, 1), name
        assert scores["fr"][name] == (Measured(-1, -1, -1) if name == "cosine" else Measured(0, 0, 0)), name
        assert scores[AVERAGE][name].value == (scores["de"][name].value + scores["fr"][name].value) / 2


@given(st.permutations(range(6)), st.permutations(range(DOCUMENTS)))
@settings(max_examples=20)
def test_neither_the_order_of_queries_nor_the_numbers_of_documents_matter(order: list[int], names: list[int]) -> None:
    rng = np.random.default_rng(3)
    teacher, student = (found([rng.permutation(DOCUMENTS)[:K].tolist() for _ in range(6)], seed) for seed in (1, 2))
    renamed = np.array(names)
    moved = [Found(renamed[one.documents[order]], one.vectors[order]) for one in (teacher, student)]
    plain, other = (measured({"de": Asked(range(6), own)}, its)[0]["de"] for its, own in ((teacher, student), moved))
    assert {name: one.value for name, one in plain.items()} == pytest.approx(
        {name: one.value for name, one in other.items()}, abs=1.01e-4
    )


def test_languages_with_the_same_queries_are_resampled_together() -> None:
    """If German and French miss the same queries, their average is as uncertain as either; different queries even out."""
    rng = np.random.default_rng(5)
    teacher = found([rng.permutation(DOCUMENTS)[:K].tolist() for _ in range(40)])
    missing: IntArray = np.where((np.arange(40) % 2 == 0)[:, None], teacher.documents, teacher.documents + DOCUMENTS)
    half = Found(missing, teacher.vectors)
    first, second = range(20), range(20, 40)
    together, _ = measured({"de": Asked(first, half.rows(first)), "fr": Asked(first, half.rows(first))}, teacher)
    apart, _ = measured({"de": Asked(first, half.rows(first)), "fr": Asked(second, half.rows(second))}, teacher)

    def width(scores: dict[str, dict[str, Measured]], language: str) -> float:
        return scores[language]["overlap"].high - scores[language]["overlap"].low

    assert width(together, AVERAGE) == pytest.approx(width(together, "de"), abs=1e-3)
    assert width(apart, AVERAGE) < 0.9 * width(apart, "de")


def test_the_average_leaves_out_the_teachers_language() -> None:
    teacher = found([[1, 2, 3, 4], [5, 6, 7, 8]])
    nothing = Found(teacher.documents + DOCUMENTS, teacher.vectors)
    languages = {"de": Asked(range(2), teacher), "fr": Asked(range(2), nothing), "en": Asked(range(2), teacher)}
    assert measured(languages, teacher)[0][AVERAGE]["overlap"].value == 0.5
    del languages["fr"]
    assert AVERAGE not in measured(languages, teacher)[0], "of one language"


def test_only_queries_with_gold_count_for_recall() -> None:
    teacher = found([[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4]])
    student = found([[1, 2, 3, 4], [0, 9, 10, 11], [0, 9, 10, 11]])
    gold: list[dict[int, float]] = [{1: 1.0, 0: 1.0}, {}, {2: 1.0}]
    ids = ["a", "b", "c"]
    languages, own = agreements({"de": Asked([0, 1, 2], student)}, teacher, ids, gold, K, ("en",), 200)
    assert (languages["de"].queries, languages["de"].judged) == (3, 2)
    assert languages["de"].scores["recall"].value == 0.25 and own["recall"].value == 0.75
    assert languages["de"].scores["kept_recall"].value == pytest.approx(1 / 3, abs=1e-4)
    only, _ = agreements({"de": Asked([1], student.rows([1]))}, teacher, ids, gold, K, ("en",), 200)
    assert only["de"].judged == 0 and "recall" not in only["de"].scores


def test_ids_become_numbers() -> None:
    known = {"a": 0}
    assert as_numbers([["b", "a", "c"], [], ["c"]], known, 2).tolist() == [[1, 0], [-1, -1], [2, -1]]
    assert known == {"a": 0, "b": 1, "c": 2}, "what is cut off has no number"
