"""Suites: what their names mean, and a real tiny model measured by all kinds of tasks at once."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from isogloss.errors import DataError
from isogloss.evaluation.compare import MEAN_REMOVED, compare
from isogloss.evaluation.data.known_sets import STS_ACROSS, STS_SAME
from isogloss.evaluation.data.test_sets import Data, EvaluationSet, Haystack, Labelled, RatedPairs, open_data
from isogloss.evaluation.suites import SUITES, Suite, measure, open_suite
from isogloss.models.encoder import SentenceEncoder, load
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray
from made_up_sets import retrieval_beir, retrieval_tables, write_sets

ALL = "sts2017,stsb,korsts,tatoeba:deu+rus,bucc:de-en+zh-en,bias:en-en+en-es+deu"


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return open_data(str(write_sets(tmp_path / "eval")))


def test_names_and_parts(data: Data) -> None:
    tasks = open_suite(f"{ALL},xnli:de", data).tasks
    rated, aligned, mined, labelled = RatedPairs, EvaluationSet, Haystack, Labelled
    assert [type(task.sets[0]) for task in tasks] == [*[rated] * 4, aligned, mined, rated, aligned, labelled]
    same, across = tasks[0], tasks[1]
    assert tuple(one.subset for one in same.sets) == STS_SAME
    assert [one.subset for one in across.sets] == ["en-ar", "en-tr", "en-es"]
    with pytest.raises(DataError, match="sts2017 en-de: not in"):
        open_suite("sts2017-extended", data)
    assert STS_ACROSS[1] == "en-de"
    with pytest.raises(DataError, match="nonsense: no such suite") as caught:
        open_suite("sts2017,nonsense", data)
    assert all(name in caught.value.hint for name in SUITES)
    with pytest.raises(DataError, match="bucc has no part xx-en"):
        open_suite("bucc:xx-en", data)
    with pytest.raises(DataError, match="no suite is named"):
        open_suite(" , ", data)


def test_a_suite_that_lacks_one_language_is_an_error_and_never_a_shorter_average(data: Data) -> None:
    for name in ("tatoeba-14", "bucc", "papers", "stsb-multi"):
        with pytest.raises(DataError, match="not in"):
            open_suite(name, data)


def test_languages_keep_what_is_in_them(data: Data) -> None:
    (task,) = open_suite("tatoeba", data, ["de"]).tasks
    assert [one.subset for one in task.sets] == ["deu"]
    tasks = open_suite("sts2017", data, ["es"]).tasks
    assert [one.subset for task in tasks for one in task.sets] == ["en-en", "es-es", "en-es"]
    with pytest.raises(DataError, match="nothing in these suites is in sw"):
        open_suite("korsts", data, ["sw"])


def test_retrieval_folders_need_no_other_data(tmp_path: Path, models: Path) -> None:
    def refuse() -> Data:
        raise AssertionError

    places = [retrieval_tables(tmp_path / "a" / "asked"), retrieval_beir(tmp_path / "b" / "asked")]
    names = ",".join(f"retrieval:{place}" for place in places)
    teacher = load(str(models / "teacher"))
    suite = open_suite(names, refuse, ["de"], teacher)
    (outcome,) = measure(teacher, suite)
    titles = [f"{name}, {index}" for name in ("a/asked", "b/asked") for index in ("teacher's index", "own index")]
    assert [title for title in dict.fromkeys(one.table for one in outcome.measured) if "same" not in title] == [
        f"{title} (40 documents in en)" for title in titles
    ]
    assert {one.column for one in outcome.measured} == {"de", "en", "teacher"}
    scores = {(one.table, one.column): one.sample.value() for one in outcome.measured}
    assert scores[f"{titles[0]} (40 documents in en)", "de"] == scores[f"{titles[2]} (40 documents in en)", "de"]
    with pytest.raises(DataError, match="no such folder"):
        open_suite("retrieval:nowhere", refuse)


def test_mteb_needs_no_data_of_ours() -> None:
    def refuse() -> Data:
        raise AssertionError

    suite = open_suite("mteb:STS17, Tatoeba", refuse)
    assert suite.mteb_tasks == ("STS17", "Tatoeba") and not suite.tasks


class Watched:
    """A real encoder, and what it was asked."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder, self.asked = encoder, list[str]()
        self.name, self.dimension, self.fingerprint = encoder.name, encoder.dimension, encoder.fingerprint

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        self.asked += texts
        return self.encoder.encode(texts, on_progress, stage)


def test_every_sentence_is_embedded_once_and_adding_a_model_costs_only_that_model(
    models: Path, data: Data, tmp_path: Path
) -> None:
    suite = open_suite(ALL, data)
    teacher, student = Watched(load(str(models / "teacher"))), Watched(load(str(models / "student")))
    first = measure(teacher, suite, tmp_path / "vectors")
    needed = {text for _, texts in suite.texts() for text in texts}
    assert sorted(teacher.asked) == sorted(needed)
    again = measure(teacher, suite, tmp_path / "vectors", mean_removal=True)
    assert len(teacher.asked) == len(needed), "found in the cache"
    assert [one.sample.value() for one in again[0].measured] == [one.sample.value() for one in first[0].measured]
    assert again[1].model.endswith(MEAN_REMOVED) and again[1].facts["means_removed"]
    assert any(a.sample.value() != b.sample.value() for a, b in zip(again[0].measured, again[1].measured, strict=True))
    table = compare([*again, *measure(student, suite, tmp_path / "vectors")], resamples=50)
    assert len(student.asked) == len(needed) and len(table.models) == 3
    values = [cell.value for one in table.tables for column in one.columns for cell in column.cells]
    assert np.isfinite(values).all()


def test_mean_removal_needs_to_know_languages() -> None:
    with pytest.raises(DataError, match="does not state the language"):
        measure("unused", Suite((), ("STS17",)), mean_removal=True)
