"""The retrieval tables against searches written out in loops, with vectors that are known."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.compare import AVERAGE, Comparison, Outcome, TaskScore, compare
from isogloss.evaluation.data.retrieval_sets import RetrievalSet, open_retrieval_set
from isogloss.evaluation.space import Space, language_means
from isogloss.evaluation.suites import Suite, measure
from isogloss.evaluation.tasks.retrieval import kept_in_words, kept_shares, retrieval, teacher_space
from isogloss.types import FloatArray
from made_up_sets import ASKED, STORIES, retrieval_tables
from tiny import KnownVectors

Vectors = Mapping[str, FloatArray]
ROWS = len(STORIES["en"])


def vectors(seed: int, noise: Mapping[str, float], shift: Mapping[str, float] | None = None) -> Vectors:
    """Vectors of all texts: one direction per answer, with noise by language, and each language shifted."""
    generator = np.random.default_rng(seed)
    base, away = generator.normal(size=(ROWS, 16)), generator.normal(size=16)
    found: dict[str, FloatArray] = {}
    for code in ("en", "de", "ru"):
        for texts in (STORIES.get(code, []), [text for _, text in ASKED[code]]):
            noisy = base[: len(texts)] + noise[code] * generator.normal(size=(len(texts), 16))
            noisy += (shift or {}).get(code, 0.0) * away
            found |= dict(zip(texts, noisy.astype(np.float32), strict=True))
    return found


def found_by(queries: Vectors, documents: Vectors, asked: Sequence[str], stories: Sequence[str]) -> list[int]:
    """The rank, from 1, of each query's answer: the number of documents that are at least as near."""
    ranks = []
    for row, query in enumerate(asked):
        near = [
            float(queries[query] @ documents[text]) / np.linalg.norm(documents[text]) / np.linalg.norm(queries[query])
            for text in stories
        ]
        ranks.append(1 + sum(other > near[row] for other in near))
    return ranks


@pytest.fixture
def data(tmp_path: Path) -> RetrievalSet:
    return open_retrieval_set(str(retrieval_tables(tmp_path / "asked")))


TEACHER = vectors(1, {"en": 0.5, "de": 3.0, "ru": 3.0})
STUDENT = vectors(1, {"en": 0.6, "de": 0.8, "ru": 1.2})  # the same directions, so it is in the teacher's space


def space_of(known: Vectors) -> Space:
    return Space.encode(KnownVectors(known), known)


def measured(data: RetrievalSet, student: Vectors = STUDENT, own_index: bool = True) -> list[TaskScore]:
    task = retrieval(data, teacher_space(data, KnownVectors(TEACHER)), own_index)
    return task.measure(space_of({text: student[text] for one in task.sets for text in one.texts[0]}))


def test_every_number_is_that_of_a_loop(data: RetrievalSet) -> None:
    scores = {(one.table, one.column): one for one in measured(data)}
    asked = {code: [text for _, text in rows] for code, rows in ASKED.items()}
    teacher = found_by(TEACHER, TEACHER, asked["en"], STORIES["en"])
    ranks = {
        ("asked, teacher's index (40 documents in en)", "teacher"): teacher,
        ("asked, own index, same language (40 documents in de)", "de"): found_by(STUDENT, STUDENT, asked["de"], STORIES["de"]),
    }
    for code in ("de", "ru", "en"):
        ranks["asked, teacher's index (40 documents in en)", code] = found_by(STUDENT, TEACHER, asked[code], STORIES["en"])
        ranks["asked, own index (40 documents in en)", code] = found_by(STUDENT, STUDENT, asked[code], STORIES["en"])
    assert scores.keys() == ranks.keys()
    for key, found in ranks.items():
        hits = {k: [rank <= k for rank in found] for k in (1, 10)}
        ten = [rank if rank <= 10 else np.inf for rank in found]
        score = scores[key]
        assert score.measure == "recall@1" and score.sample.value() == pytest.approx(np.mean(hits[1]))
        wanted = {
            "recall@10": np.mean(hits[10]),
            "nDCG@10": np.mean([1 / np.log2(rank + 1) for rank in ten]),
            "MRR@10": np.mean([1 / rank for rank in ten]),
        }
        if "teacher's" in key[0]:
            wanted |= {f"kept recall@{k}": np.sum(hits[k]) / sum(rank <= k for rank in teacher) for k in (1, 10)}
        assert {name: one.value() for name, one in score.further.items()} == pytest.approx(wanted)
    shares = scores["asked, teacher's index (40 documents in en)", "ru"].further
    assert 0 < shares["kept recall@1"].value() < 1, "the test has something to see"


def compared(data: RetrievalSet, *students: Vectors) -> Comparison:
    outcomes = [Outcome(f"m{place}", tuple(measured(data, one, own_index=False))) for place, one in enumerate(students)]
    return compare(outcomes, resamples=500)


def test_the_teacher_keeps_all_of_itself_and_english_is_not_in_the_average(data: RetrievalSet) -> None:
    comparison = compared(data, STUDENT, TEACHER)
    columns = {column.name: column.cells for column in comparison.tables[0].columns}
    assert list(columns) == ["de", "ru", "en", "teacher", AVERAGE]
    for cell in (columns["en"][1], *columns["teacher"]):
        assert cell.further["kept recall@1"].value == 1 and cell.further["kept recall@1"].interval == (1, 1)
    mean = np.mean([columns[code][0].further["kept recall@1"].value for code in ("de", "ru")])
    average = columns[AVERAGE][0].further["kept recall@1"]
    assert average.value == pytest.approx(mean)
    assert average.interval is not None and average.interval.low < mean < average.interval.high
    lost = columns["ru"][1].further["kept recall@1"].difference
    assert lost is not None and lost.significant and lost.value < 0, "the teacher does not know Russian"
    shares = kept_shares(compared(data, STUDENT))
    assert list(shares) == ["recall@1", "recall@10"] and shares["recall@1"].value == pytest.approx(mean)
    assert f"keeps {100 * mean:.1f} % (" in kept_in_words(shares)


def test_queries_are_paired_with_the_teachers_by_their_ids(data: RetrievalSet) -> None:
    german = data.queries["de"]
    some = replace(german, ids=german.ids[:4:-1], texts=(german.texts[0][:4:-1],))
    score = measured(replace(data, queries={"en": data.queries["en"], "de": some}))[0]
    teacher = found_by(TEACHER, TEACHER, data.queries["en"].texts[0], STORIES["en"])[5:]
    assert score.column == "de" and len(score.sample) == ROWS - 5
    hits = [rank == 1 for rank in found_by(STUDENT, TEACHER, german.texts[0], STORIES["en"])[5:]]
    assert score.further["kept recall@1"].value() == pytest.approx(sum(hits) / sum(rank == 1 for rank in teacher))
    other = replace(some, ids=[f"x{name}" for name in some.ids])
    strange = replace(
        data,
        queries={"en": data.queries["en"], "de": other},
        qrels={"en": data.qrels["en"], "de": {name: data.qrels["de"][name[1:]] for name in other.ids}},
    )
    with pytest.raises(DataError, match="no query in de has the id of an English one"):
        measured(strange)


def test_without_a_teacher_there_is_no_kept_share(data: RetrievalSet) -> None:
    scores = retrieval(data).measure(space_of(STUDENT))
    assert {one.table for one in scores} == {
        "asked, own index (40 documents in en)",
        "asked, own index, same language (40 documents in de)",
    }
    comparison = compare([Outcome("m", tuple(scores))], resamples=0)
    assert not kept_shares(comparison)


def test_a_student_of_another_dimension_cannot_search_the_index(data: RetrievalSet) -> None:
    task = retrieval(data, teacher_space(data, KnownVectors(TEACHER)))
    assert task.fits(16) and not task.fits(4) and retrieval(data).fits(4)
    with pytest.raises(DataError, match=r"embeddings of known have 4 dimensions, those of the teacher 16") as caught:
        measure(KnownVectors({"nothing": np.zeros(4, dtype=np.float32)}), Suite((task,)))
    assert "--teacher" in caught.value.hint, "before anything is embedded"


def test_a_teacher_needs_documents_and_queries_in_its_language(data: RetrievalSet) -> None:
    german = RetrievalSet("x", {"de": data.documents["de"]}, {"ru": data.queries["ru"]}, data.qrels)
    with pytest.raises(DataError, match=r"x has queries in ru, but a teacher's index needs them in English"):
        teacher_space(german, KnownVectors(TEACHER))


def test_means_are_removed_from_the_queries_and_from_the_index(data: RetrievalSet) -> None:
    student = vectors(1, {"en": 0.6, "de": 0.6, "ru": 0.6}, {"en": 0.0, "de": 6.0, "ru": -6.0})
    teacher = vectors(1, {"en": 1.5, "de": 3.0, "ru": 3.0}, {"en": 3.0})
    task = retrieval(data, teacher_space(data, KnownVectors(teacher)))
    plain = space_of(student)
    means = language_means(plain, task.sets)
    before, after = (task.measure(space) for space in (plain, Space(plain.row_of, plain.vectors, means)))
    assert [(one.table, one.column) for one in before] == [(one.table, one.column) for one in after]
    english = [text for own in (data.documents, data.queries) for text in own["en"].texts[0]]
    centered = {text: teacher[text] - np.mean([teacher[one] for one in english], axis=0) for text in english}
    asked = data.queries["de"].texts[0]
    queries = {text: student[text] - means.means["de"] for text in asked}
    ranks = found_by(queries, centered, asked, STORIES["en"])
    assert ranks != found_by(queries, teacher, asked, STORIES["en"]), "the teacher's mean matters"
    assert after[0].column == "de" and after[0].sample.value() == np.mean([rank == 1 for rank in ranks])
    assert after[0].further["MRR@10"].value() == pytest.approx(np.mean([1 / rank if rank <= 10 else 0 for rank in ranks]))
    assert after[0].sample.value() > before[0].sample.value()
