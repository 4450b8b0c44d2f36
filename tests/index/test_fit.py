"""What is said about an index and a model that do not fit."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from index.agreement import ROWS, Vectors, refuses
from isogloss.index.build_record import BuildRecord
from isogloss.index.fit import ModelFacts, check_before_search, check_fit, model_facts, refuse_errors
from isogloss.index.open import open_index
from isogloss.index.vector_index import METRICS, IndexFacts, Metric

RECORD = BuildRecord("the-teacher", "abc", 4, "cosine", "float32")


def facts(
    metric: Metric = "cosine", unit: bool | None = True, built: BuildRecord | None = None, **others: object
) -> IndexFacts:
    values = {"kind": "npy", "size": 3, "dimension": 4, "has_texts": False, "exact": True, **others}
    return IndexFacts(metric=metric, unit_norm=unit, built=built, **values)  # type: ignore[arg-type]


def said(index: IndexFacts, model: ModelFacts) -> list[str]:
    return [f"{one.level}: {one.message}" for one in check_fit("docs", index, model)]


def test_what_fits_needs_no_words() -> None:
    assert said(facts(), ModelFacts("student", 4, True)) == []
    assert said(facts("dot"), ModelFacts("student", 4, True)) == []
    assert said(facts("cosine", False), ModelFacts("student", 4, True)) == []
    assert said(facts("l2", False), ModelFacts("student", 4, False)) == []
    assert said(facts("l2", None), ModelFacts("student", 4, True)) == []
    assert said(facts("dot", True), ModelFacts("student", 4)) == []


def test_dimensions() -> None:
    (finding,) = check_fit("docs", facts(), ModelFacts("student", 6))
    assert (finding.level, finding.message) == (
        "error", "docs holds vectors of 4 dimensions, but student makes vectors of 6"
    )  # fmt: skip
    assert "the model that made it" in finding.hint and "Matryoshka" in finding.hint
    (finding,) = check_fit("docs", facts(built=RECORD), ModelFacts("student", 3))
    assert "the-teacher or a student of it" in finding.hint and "Matryoshka" not in finding.hint
    refuses(lambda: refuse_errors([finding]), "holds vectors of 4 dimensions")
    assert said(facts(size=0), ModelFacts("student", 6)) == ["error: docs: the index is empty"]


@pytest.mark.parametrize(("metric", "unit", "model_unit"), list(itertools.product(METRICS, (True, False), (True, False))))
def test_a_warning_is_about_something_that_changes_scores(metric: Metric, unit: bool, model_unit: bool) -> None:
    """If the index has unit vectors, a query of any length ranks them by the cosine, as the warning says."""
    found = said(facts(metric, unit), ModelFacts("student", 4, model_unit))
    assert bool(found) == (metric != "cosine" and unit != model_unit)
    if unit and found:  # "the ranking is that of the cosine"
        rows = ROWS[:, :4] / np.linalg.norm(ROWS[:, :4], axis=1, keepdims=True)
        query = 2 * ROWS[9, :4]
        scores = rows @ query if metric == "dot" else -np.linalg.norm(rows - query, axis=1)
        assert np.array_equal(np.argsort(-scores), np.argsort(-(rows @ query)))
    if not unit and found:
        assert ("long vectors rank first" if metric == "dot" else "mostly on the lengths") in found[0]


def test_the_note_of_the_build() -> None:
    assert said(facts(built=RECORD), ModelFacts("t", 4, True, "abc")) == []
    assert said(facts(built=RECORD), ModelFacts("s", 4, True, "def", teacher="abc")) == []
    (other,) = said(facts(built=RECORD), ModelFacts("s", 4, True, "def"))
    assert other == "warning: docs was built with the-teacher, and s is another model"
    unfinished = BuildRecord("the-teacher", "abc", 4, "cosine", "float32", "job", 7)
    (other,) = said(facts(built=unfinished), ModelFacts("t", 4, True, "abc"))
    assert other == "warning: docs: the build has not finished, so documents are missing"
    assert said(facts(note="something"), ModelFacts("t", 4)) == ["note: docs: something"]


def test_stored_vectors_that_are_not_numbers(tmp_path: Path) -> None:
    np.save(tmp_path / "docs.npy", np.array([[1, 0], [np.nan, 1], [0, np.inf]], dtype=np.float32))
    with open_index(str(tmp_path / "docs.npy")) as index:
        findings = check_before_search(index, index.facts(), ModelFacts("student", 2))
    assert findings[-1].level == "error" and "the vector of '1' has NaN or infinity (2 of 3 looked at)" in findings[-1].message


def test_the_facts_of_a_model() -> None:
    found = model_facts(Vectors())
    assert (found.name, found.dimension, found.unit_norm, found.fingerprint, found.teacher) == (
        "teacher",
        5,
        False,
        "teacher",
        "",
    )
    assert model_facts(Vectors(rows=np.eye(5, dtype=np.float32))).unit_norm is True
    assert model_facts(Vectors(), unit_norm=True).unit_norm is True
