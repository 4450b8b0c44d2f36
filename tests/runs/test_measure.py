"""Runs that are measured on documents and queries: what is reported, and that it is true of the saved model."""

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from additions import asked as asked_of
from additions import record_of
from isogloss.cli.screens.outcome import show_run
from isogloss.corpora.store import open_store
from isogloss.errors import DataError
from isogloss.evaluation.data.retrieval_sets import open_retrieval_set
from isogloss.evaluation.leak_report import SCANNED
from isogloss.evaluation.metrics import unit
from isogloss.evaluation.suites import SuiteSettings, evaluate_suite
from isogloss.runs.adding import add
from isogloss.runs.pipeline import run
from isogloss.types import TRAIN, FloatArray
from made_up_sets import ASKED, retrieval_tables
from tiny import UNTAUGHT, tiny_recipe


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """Documents and queries: the sentences of `tiny`."""
    return retrieval_tables(tmp_path / "asked")


def test_a_run_reports_how_much_of_the_teachers_retrieval_is_kept(
    models: Path, tsv: Path, tmp_path: Path, asked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    off = ("leaks.level=off", f"evaluation.retrieval={asked}")  # its sentences are those that are trained on
    result = run(tiny_recipe(models, tsv, tmp_path / "run", *off))
    written = json.loads((result.folder / "results.json").read_text())["retrieval"]
    assert [model["name"] for model in written["models"]] == ["bridge", "distill"], "untouched, it has another dimension"
    (table,) = written["tables"]
    assert table["title"] == "asked, teacher's index (40 documents in en)"
    assert [column["name"] for column in table["columns"]] == ["de", "ru", "en", "teacher", "Avg."]
    average = table["columns"][-1]["scores"][-1]["further"]
    record = json.loads((result.folder / "run.json").read_text())
    assert record["kept"] == {f"recall@{k}": round(average[f"kept recall@{k}"]["value"], 4) for k in (1, 10)}
    assert record["recipe"]["evaluation"]["retrieval"] == str(asked)

    comparison = evaluate_suite([str(result.folder)], f"retrieval:{asked}", SuiteSettings(resamples=0))
    saved = {column.name: column.cells[0] for column in comparison.tables[0].columns}
    for column in table["columns"]:
        score, cell = column["scores"][-1], saved[column["name"]]
        assert score["value"] == pytest.approx(cell.value)
        for name, own in cell.further.items():
            assert score["further"][name]["value"] == pytest.approx(own.value, abs=0.01), name  # float16 in the cache
    assert 0 < saved["de"].value < saved["teacher"].value == 1

    card = (result.model / "README.md").read_text()
    percent = f"{100 * average['kept recall@1']['value']:.1f}"
    assert "## Retrieval" in card and f"the model keeps {percent} % (" in card
    lines = [line for line in card.splitlines() if line.startswith(("| queries |", "| de |", "| teacher |"))]
    assert lines[-3].count("|") == lines[-2].count("|") == lines[-1].count("|") == 8
    show_run(result, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert f"keeps {percent} % (" in shown and "bridge distill kept de" in shown


@pytest.mark.parametrize("taught", [True, False])
def test_queries_and_documents_are_measured_with_their_prompts(
    models: Path, tsv: Path, tmp_path: Path, asked: Path, taught: bool
) -> None:
    """In the run, in `evaluate`, and with encode_query and encode_document of plain sentence-transformers."""
    prompts = ['student.query_prompt="the dog "', 'student.document_prompt="the cat "']
    prompts += ['teacher.query_prompt="my friend "', 'teacher.document_prompt="a child "'] if taught else UNTAUGHT
    off = ("leaks.level=off", f"evaluation.retrieval={asked}", *prompts)
    result = run(tiny_recipe(models, tsv, tmp_path / "run", *off))
    assert result.retrieval is not None
    comparison = evaluate_suite([str(result.folder)], f"retrieval:{asked}", SuiteSettings(resamples=0, cache=tmp_path / "kept"))
    student = SentenceTransformer(str(result.model), device="cpu")
    teacher = SentenceTransformer(
        str(models / "teacher"), prompts={"query": "my friend ", "document": "a child "}, device="cpu"
    )
    sets = open_retrieval_set(str(asked))
    documents, queries = sets.documents["en"].texts[0], {code: own.texts[0] for code, own in sets.queries.items()}
    indexed = (teacher if taught else student).encode_document(documents)
    expected = {code: hits(student.encode_query(own), indexed) for code, own in queries.items()}
    if taught:
        expected["teacher"] = hits(teacher.encode_query(queries["en"]), indexed)
    plain = {code: hits(student.encode(own), indexed) for code, own in queries.items()}
    assert plain != {code: expected[code] for code in plain}, "the prompts matter"
    for measured in (result.retrieval, comparison):
        columns = {column.name: column.cells[-1].value for column in measured.tables[0].columns if column.name != "Avg."}
        assert columns == pytest.approx(expected)


def hits(queries: FloatArray, documents: FloatArray) -> float:
    """The share of queries that find the document in the same row first."""
    similarities = unit(queries) @ unit(documents).T
    return float(np.mean(similarities.argmax(1) == np.arange(len(queries))))


def test_without_a_teacher_the_students_own_index_is_measured(models: Path, tsv: Path, tmp_path: Path, asked: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", "leaks.level=off", f"evaluation.retrieval={asked}", *UNTAUGHT)
    result = run(recipe)
    assert result.retrieval is not None
    titles = [table.title for table in result.retrieval.tables]
    assert titles == ["asked, own index (40 documents in en)", "asked, own index, same language (40 documents in de)"]
    assert json.loads((result.folder / "run.json").read_text())["kept"] == {}
    assert "keeps" not in (result.model / "README.md").read_text().split("## Retrieval")[1].split("##")[0]


def test_what_is_measured_is_not_trained_on(models: Path, tsv: Path, tmp_path: Path) -> None:
    half = len(ASKED["en"]) // 2
    asked = tmp_path / "asked"
    asked.mkdir()
    (asked / "paragraphs.en.tsv").write_text("".join(f"d{n}\tstory number {n}\n" for n in range(half)))
    for code, rows in ASKED.items():
        (asked / f"questions.{code}.tsv").write_text("".join(f"{key}\td{key[1:]}\t{text}\n" for key, text in rows[:half]))
    result = run(tiny_recipe(models, tsv, tmp_path / "run", f"evaluation.retrieval={asked}"))
    trained = open_store(result.folder / "pairs").bitext().where(split=TRAIN, language="de").column("target")
    assert not set(trained) & {text for _, text in ASKED["de"][:half]}
    assert set(trained) & {text for _, text in ASKED["de"][half:]}
    assert result.retrieval is not None
    leaks = {cell.leaks for column in result.retrieval.tables[0].columns for cell in column.cells}
    assert leaks == {SCANNED}


def test_a_set_that_cannot_be_read_stops_the_run_before_a_model_is_loaded(models: Path, tsv: Path, tmp_path: Path) -> None:
    recipe = tiny_recipe(models, tsv, tmp_path / "run", f"evaluation.retrieval={tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="nowhere: no such folder of documents and queries"):
        run(recipe)
    assert "models" not in json.loads((tmp_path / "run" / "run.json").read_text())["seconds"]


def test_the_text_of_the_bundled_set_is_not_trained_on_by_default(models: Path, tsv: Path, tmp_path: Path) -> None:
    question = open_retrieval_set("questions").queries["en"].texts[0][0]
    lines = tsv.read_text().splitlines()
    tsv.write_text("\n".join([*lines, f"train\t{question}\tEine Frage?\tВопрос?"]) + "\n")
    result = run(tiny_recipe(models, tsv, tmp_path / "run", "training.epochs=0"))
    assert question not in open_store(result.folder / "pairs").bitext().column("source")


def test_adding_a_language_measures_old_and_new_ones(place: Path, tmp_path: Path, asked: Path) -> None:
    changes = ["training.epochs=1", "leaks.level=off", f"evaluation.retrieval={asked}"]
    result = add(asked_of(place, "added").replace(gate=100.0, out=str(tmp_path / "added")), changes)
    assert result.retrieval is not None and result.retrieval.models[0] == "before" and result.retrieval.models[-1] == "after"
    assert [column.name for column in result.retrieval.tables[0].columns] == ["de", "ru", "en", "teacher", "Avg."]
    assert record_of(result.folder)["kept"].keys() == {"recall@1", "recall@10"}
