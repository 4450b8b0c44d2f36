"""The cards of exports: what they take from the original's card, and whose scores they show."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import ModelCard

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.card import graph_card
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import export
from isogloss.exporting.source import ExportSource
from isogloss.models.student import Student
from isogloss.report.card import CardInfo, model_card
from isogloss.storage import write_json
from isogloss.types import LanguageScores, Report

TRAINING = {
    "hash": "0" * 32,
    "source_language": "en",
    "rows_in": 9,
    "rows_out": 9,
    "dropped": {},
    "languages": {"de": {"rows_in": 9, "train": 7, "test": 2}},
    "corpora": {
        "lafand": {"rows_in": 9, "train": 7, "test": 2, "license": "CC-BY-NC", "version": "", "dictionary": False},
    },
    "leak_scan": {"level": "near", "sets": [{"name": "sts.tsv", "texts": 5, "hash": "0" * 16}], "removed": {"exact": 0}},
}


@pytest.fixture
def original(models: Path, tmp_path: Path) -> Path:
    """A saved model with a whole card."""
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    report = Report("m", (LanguageScores("de", 10, None, 0.95, 1.0, None),), 40)
    info = CardInfo(
        name="mine",
        description="Distilled.",
        base_model="org/base",
        languages=["de", "en", "no"],
        license="cc-by-nc-4.0",
        tags=["distillation"],
        reports=[report],
        corpora=TRAINING["corpora"],  # type: ignore[arg-type]
        recipe='name = "mine"',
    )
    student.save_pretrained(tmp_path / "mine", model_card(info, student.model))
    return tmp_path / "mine"


def test_a_card_of_graphs_says_whose_scores_it_has(original: Path, tsv: Path, tmp_path: Path) -> None:
    source = ExportSource(str(original), ExportSettings(), [str(tsv)], "")
    comparison = Comparison(source)
    vectors = source.student.encode(comparison.texts)
    copies = {"fp32": vectors, "int8": np.roll(vectors, 1, axis=0)}
    graphs = [comparison.compare(name, tmp_path / "onnx" / f"{name}.onnx", 1234.56, found) for name, found in copies.items()]
    text = graph_card(source, "ONNX graphs", graphs, tmp_path, for_servers=True)
    fp32, int8 = (f"{100 * graph.accuracy:.1f}" for graph in graphs)
    assert "ONNX graphs of `mine`, made by `isogloss export`. Accuracy at 1 in percent on held-out sentences" in text
    assert "| language | original | fp32 | int8 |\n| --- | --- | --- | --- |\n| de |" in text and "(40 candidates)" in text
    assert f"| average | {fp32} | {fp32} | {int8} |\n\n| file | MB | mean cosine to the original |" in text
    assert f"| int8: `onnx/int8.onnx` | 1,234.6 | {graphs[1].cosine:.4f} |\n\nThe scores in other sections are those" in text
    sections = [line for line in text.splitlines() if line.startswith("## ")]
    assert sections == ["## Usage", "## This export", "## Scores (original)", "## Training data", "## How to reproduce"]
    assert "| de | 95.0 | 100.0 |" in text and "tensor(" not in text and "lafand is licensed for research" in text
    data: Any = ModelCard(text).data
    assert (data.license, data.base_model, data.language) == ("cc-by-nc-4.0", "org/base", ["de", "en", "no"])
    results = {(one.dataset_config, one.metric_type): one.metric_value for one in data.eval_results or []}
    assert results[("int8", "to_source")] == round(graphs[1].accuracy, 4) and len(results) == 4
    assert results[("int8", "cosine_to_original")] == round(graphs[1].cosine, 4)
    assert "text-embeddings-inference" in data.tags
    other: Any = ModelCard(graph_card(source, "OpenVINO graphs", graphs, tmp_path, for_servers=False)).data
    assert "text-embeddings-inference" not in other.tags and "distillation" in other.tags


@pytest.mark.parametrize(("card", "kept"), [("", False), ("# Mine\n\nMy own words.\n", True)])
def test_an_original_without_metadata(models: Path, tsv: Path, tmp_path: Path, card: str, kept: bool) -> None:
    Student.from_pretrained(str(models / "student"), device="cpu").save_pretrained(tmp_path / "mine", card)
    source = ExportSource(str(tmp_path / "mine"), ExportSettings(), [str(tsv)], "")
    comparison = Comparison(source)
    same = comparison.compare("fp32", tmp_path / "onnx/model.onnx", 1.0, comparison.vectors)
    text = graph_card(source, "ONNX graphs", [same], tmp_path, for_servers=True)
    assert ("My own words." in text, "language:\n- de\n- en\n- ru\n" in text) == (kept, not kept)
    assert "## This export\n\nONNX graphs of `mine`" in text and "in other sections" not in text


def test_a_static_model_has_the_metadata_of_the_original_and_its_own_scores(original: Path, tsv: Path, tmp_path: Path) -> None:
    write_json(original / "isogloss_training.json", TRAINING)
    exported = export(str(original), "static", tmp_path / "static", pairs=[str(tsv)], teacher="")
    text = (tmp_path / "static" / "README.md").read_text(encoding="utf-8")
    (artifact,) = exported.artifacts
    assert text.count("# mine-static") == 1 and "Static model of `mine`, made by" in text
    assert f"| average | {100 * (artifact.accuracy + artifact.lost / 100):.1f} | {100 * artifact.accuracy:.1f} |" in text
    assert "| lafand | 7 | CC-BY-NC |" in text and "No training pair appears in the checked test sets (sts.tsv" in text
    assert "95.0" not in text and "reproduce" not in text, "nothing that was measured with or trains another model"
    data: Any = ModelCard(text).data
    assert (data.license, data.base_model, data.language) == ("cc-by-nc-4.0", "org/base", ["de", "en", "no"])
    assert data.model_name == "mine-static" and {one.metric_value for one in data.eval_results or []} == {
        round(artifact.accuracy, 4),
        round(artifact.cosine, 4),
    }
    assert "distillation" in data.tags and "text-embeddings-inference" not in data.tags
    record = json.loads((tmp_path / "static" / "export.json").read_text(encoding="utf-8"))
    assert record["model"] == "mine" and str(tmp_path) not in json.dumps(record) and str(tmp_path) not in text
