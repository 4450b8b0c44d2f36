"""A static model made from a finished run: loaded by sentence-transformers, measured, and better for having been fitted."""

import json
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isogloss.config.exporting import ExportSettings
from isogloss.errors import ModelError, RecipeError
from isogloss.evaluation.metrics import cosines
from isogloss.exporting.export import export
from isogloss.exporting.source import ExportSource
from isogloss.exporting.static import training_pairs
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.progress import Step
from tiny import PAIRS, TEXTS


@pytest.fixture
def source(models: Path, tsv: Path) -> ExportSource:
    return ExportSource(str(models / "teacher"), ExportSettings(), [str(tsv)], "")


def test_static_model_is_close_to_the_model_and_loads_anywhere(models: Path, tsv: Path, tmp_path: Path) -> None:
    name = str(models / "teacher")
    steps: list[Step] = []
    exported = export(name, "static", tmp_path / "static", pairs=[str(tsv)], teacher="", on_progress=steps.append)
    (artifact,) = exported.artifacts
    plain = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    found, wanted = plain.encode(TEXTS), Student.from_pretrained(name, device="cpu").encode(TEXTS)
    assert type(plain[0]).__name__ == "StaticEmbedding" and np.linalg.norm(found, axis=1) == pytest.approx(1.0, abs=1e-5)
    # A source sentence wants its own embedding, a translation that of its source.
    of_source = {text: vector for text, vector in zip(TEXTS, wanted, strict=True)}
    trained = [pair for pair in PAIRS if pair.split == "train"]
    targets = np.array([of_source[pair.source] for pair in trained])
    fitted = cosines(plain.encode([pair.target for pair in trained]), targets).mean()
    unfitted = static_student(Student.from_pretrained(name, device="cpu").tokenizer, 16, Student.from_pretrained(name).model)
    assert fitted > 0.9 and fitted > cosines(unfitted.encode([pair.target for pair in trained]), targets).mean() + 0.3
    assert any(step.stage == "token table, fitted" and step.finished for step in steps)
    assert artifact.path == tmp_path / "static" == exported.folder and artifact.details["rows"] == len(
        plain[0].embedding.weight
    )
    assert artifact.megabytes == pytest.approx(sum(file.stat().st_size for file in artifact.path.rglob("*.*")) / 1e6, rel=0.3)
    # model2vec reads the length of vectors from here, and the table from this folder
    config = json.loads((tmp_path / "static" / "config_sentence_transformers.json").read_text())
    assert config["normalize"] is True and (tmp_path / "static" / "model.safetensors").is_file()
    assert json.loads((tmp_path / "static" / "export.json").read_text())["target"] == "static"
    assert Student.from_pretrained(str(tmp_path / "static")).encode(TEXTS[:3]) == pytest.approx(found[:3], abs=1e-6)
    assert plain.encode([""])[0].tolist() == [0.0] * 16


def test_trimmed_table_has_fewer_rows(models: Path, tsv: Path, tmp_path: Path) -> None:
    settings = ExportSettings(static_trim="corpus")
    exported = export(str(models / "teacher"), "static", tmp_path / "static", pairs=[str(tsv)], teacher="", settings=settings)
    whole = Student.from_pretrained(str(models / "teacher"), device="cpu")
    assert exported.artifacts[0].details["rows"] < len(whole.table)


def test_what_a_kill_would_leave_is_in_the_unfinished_folder(
    models: Path, tsv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody removes tokens and embeddings of a killed export from the system's folder for temporary files."""
    system, seen = tmp_path / "system", set[str]()
    system.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(system))

    def listen(step: Step) -> None:
        seen.update(path.name for path in system.glob("isogloss-*"))

    exported = export(str(models / "student"), "static", tmp_path / "out", pairs=[str(tsv)], on_progress=listen)
    assert not seen and not (exported.folder / "work").exists()


def test_static_model_is_not_made_from_a_static_model(models: Path, tsv: Path, tmp_path: Path) -> None:
    static_student(Student.from_pretrained(str(models / "student")).tokenizer, 4).save_pretrained(tmp_path / "table")
    with pytest.raises(ModelError, match="static model already"):
        export(str(tmp_path / "table"), "static", tmp_path / "out", pairs=[str(tsv)], teacher="")
    assert not (tmp_path / "out").exists()


def test_scores_of_the_original_are_not_those_of_a_static_model(models: Path, tsv: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="a static model has other scores"):
        export(str(models / "teacher"), "static", tmp_path / "out", pairs=[str(tsv)], scores=[tmp_path / "scores.json"])
    assert not (tmp_path / "out").exists()


def test_pairs_are_sampled_equally_if_there_are_too_many(models: Path, tsv: Path) -> None:
    source = ExportSource(str(models / "teacher"), ExportSettings(static_pairs=100), [str(tsv)], "")
    assert training_pairs(source) is source.pairs
    object.__setattr__(source.settings, "static_pairs", 20)
    assert len(training_pairs(source)) == 20
