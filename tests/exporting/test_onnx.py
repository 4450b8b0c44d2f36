"""`export(model, "onnx")` of a tiny model: the folder, its measurements, what is refused, and who can open it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

import isogloss as ig
from isogloss.checksums import check_sums, write_sums
from isogloss.config.exporting import ExportSettings
from isogloss.errors import IsoglossError, ModelError
from isogloss.exporting.comparison import Comparison
from isogloss.exporting.export import Exported
from isogloss.exporting.source import ExportSource
from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.hub import UNNAMED
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from isogloss.progress import Step
from isogloss.storage import read_json
from tiny import PAIRS, TEXTS, save_tiny_model

pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

CARD = f'# A model\n\nmodel = SentenceTransformer("{UNNAMED}")\n'
WIDTH = 72  # so that products are large enough for int8
ANY: dict[str, Any] = {"min_cosine": 0.0, "max_loss": 100.0, "calibration": 8}


def pairs_file(folder: Path) -> Path:
    path = folder / "pairs.tsv"
    rows = [f"{pair.source}\t{pair.target}\t{pair.language}\t{pair.split}" for pair in PAIRS]
    path.write_text("\n".join(["source\ttarget\tlanguage\tsplit", *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """All precisions of a tiny student, whatever they lose."""
    place = tmp_path_factory.mktemp("exports")
    save_tiny_model(place / "student", width=WIDTH, layers=2, seed=2, normalize=True)
    student = Student.from_pretrained(str(place / "student"), prompt="sagt: ", max_tokens=40, device="cpu")
    student.save_pretrained(place / "model", card=CARD)
    steps: list[Step] = []
    settings = ExportSettings(precisions=("fp32", "fp16", "int8"), **ANY)
    found = ig.export(str(place / "model"), "onnx", pairs=[str(pairs_file(place))], settings=settings, on_progress=steps.append)
    stages = {step.stage for step in steps}
    assert {"exporting the graph", "calibration", "converting to int8", "embedding, int8", "embedding, original"} <= stages
    return found


def test_files_and_names_are_those_that_readers_look_for(exported: Exported) -> None:
    folder = exported.folder
    assert folder.name == "model-onnx" and not exported.refused
    names = {file.name for file in (folder / "onnx").iterdir()}
    assert names == {"model.onnx", "model_fp16.onnx", "model_qint8_avx512_vnni.onnx"}
    assert {"modules.json", "config.json", "tokenizer.json", "README.md", "SHA256SUMS", "export.json"} <= {
        file.name for file in folder.iterdir()
    }
    assert f'SentenceTransformer("{UNNAMED}", backend="onnx")' in (folder / "README.md").read_text()
    assert not list(folder.rglob("model.safetensors")) and not (folder / "saved").exists()
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    assert settings["prompts"] == {"isogloss": "sagt: ", "query": "sagt: ", "document": "sagt: "}
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast"  # transformers 4 knows no other
    check_sums(folder, lambda name: IsoglossError(name))
    damaged = folder / "onnx" / "model.onnx"
    before = damaged.read_bytes()
    damaged.write_bytes(before[:-1] + b"?")
    with pytest.raises(IsoglossError, match=r"onnx/model\.onnx"):
        check_sums(folder, lambda name: IsoglossError(name))
    damaged.write_bytes(before)


def test_the_record_has_the_measurements(exported: Exported) -> None:
    record = read_json(exported.folder / "export.json")
    assert record["target"] == "onnx" and record["max_tokens"] == 40 and record["dimension"] == WIDTH
    assert [one["name"] for one in record["artifacts"]] == ["fp32", "fp16", "int8"]
    assert record["artifacts"][0]["path"] == "onnx/model.onnx"
    assert record["measured_on"]["languages"] == ["de", "ru"] and record["versions"]["onnxruntime"]
    for artifact, written in zip(exported.artifacts, record["artifacts"], strict=True):
        assert artifact.path.is_file() and artifact.megabytes == pytest.approx(artifact.path.stat().st_size / 1e6)
        assert written["cosine"] == pytest.approx(artifact.cosine, abs=1e-6)
    fp32, fp16, int8 = exported.artifacts
    assert fp32.cosine > 0.99999 and fp32.lost == 0 and fp16.cosine > 0.999 and 0.9 < int8.cosine < fp16.cosine
    assert int8.megabytes < fp16.megabytes < fp32.megabytes


def test_measurements_are_those_of_the_embeddings(exported: Exported) -> None:
    folder = exported.folder
    source = ExportSource(str(folder.with_name("model")), ExportSettings(**ANY), [str(pairs_file(folder.parent))], "")
    comparison = Comparison(source)
    vectors = OnnxEncoder(exported.artifacts[2].path).encode(comparison.texts)
    own = source.student.encode(comparison.texts)
    cosines = (vectors * own).sum(1) / np.linalg.norm(vectors, axis=1) / np.linalg.norm(own, axis=1)
    assert exported.artifacts[2].cosine == pytest.approx(cosines.mean(), abs=1e-5)
    shuffled = comparison.compare("shuffled", folder, 1.0, own[::-1])
    assert shuffled.lost == pytest.approx(100 * (np.mean(list(comparison.original.values())) - shuffled.accuracy))
    assert shuffled.details["measured_by"] == "to_source" and shuffled.lost > 0
    narrow = comparison.compare("narrow", folder, 1.0, own[:, :5])
    assert narrow.cosine == 0
    strict = Comparison(replace(source, settings=ExportSettings(min_cosine=0.9, max_loss=2.0)))
    base = comparison.compare("same", folder, 1.0, own)
    assert base.cosine == pytest.approx(1) and base.lost == 0
    assert not strict.refusal(replace(base, cosine=0.9, lost=2.0))
    assert "0.899" in strict.refusal(replace(base, cosine=0.8991)) and "2.1 points" in strict.refusal(replace(base, lost=2.1))
    assert strict.refusal(replace(base, cosine=float("nan")))


@pytest.mark.parametrize("name", ["", "onnx/model_qint8_avx512_vnni.onnx"])
def test_the_folder_is_a_model_like_any_other(exported: Exported, name: str) -> None:
    encoder = open_encoder(f"onnx:{exported.folder / name}")
    assert isinstance(encoder, OnnxEncoder) and encoder.max_tokens == 40 and encoder.default_prompt == "sagt: "
    student = Student.from_pretrained(str(exported.folder.with_name("model")), device="cpu")
    texts = [*TEXTS[:12], "", "die " * 100]
    found, own = encoder.encode(texts), student.encode(texts)
    cosines = (found * own).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(own, axis=1)
    assert cosines.min() > (0.9 if name else 0.99999)
    fingerprint = encoder.fingerprint
    record = exported.folder / "export.json"
    before = record.read_text()
    record.write_text("{}")
    write_sums(exported.folder, but=("README.md",))
    assert open_encoder(f"onnx:{exported.folder / name}").fingerprint == fingerprint  # it is no part of the model
    record.write_text(before)
    write_sums(exported.folder, but=("README.md",))


def test_a_damaged_file_of_an_export_is_refused(exported: Exported) -> None:
    """A bit of a graph may flip without onnxruntime noticing: its embeddings would be other ones, silently."""
    for name in ("onnx/model_fp16.onnx", "onnx/model.onnx", "tokenizer_config.json"):
        path = exported.folder / name
        before = path.read_bytes()
        path.write_bytes(before[:-5] + bytes([before[-5] ^ 1]) + before[-4:])
        with pytest.raises(ModelError, match=f"{path.name} is damaged: it does not match SHA256SUMS"):
            open_encoder(f"onnx:{exported.folder}/onnx/model.onnx")
        path.write_bytes(before)
    open_encoder(f"onnx:{exported.folder}/onnx/model.onnx")


def test_plain_onnxruntime_gives_the_vectors(exported: Exported) -> None:
    """What every other program does: tokenizer.json, a padded batch, the output `sentence_embedding`."""
    tokenizer = Tokenizer.from_file(str(exported.folder / "tokenizer.json"))
    rows = tokenizer.encode_batch([f"sagt: {text}" for text in TEXTS[:5]])
    longest = max(len(row.ids) for row in rows)
    ids = np.array([row.ids + [1] * (longest - len(row.ids)) for row in rows], dtype=np.int64)
    mask = np.array([[1] * len(row.ids) + [0] * (longest - len(row.ids)) for row in rows], dtype=np.int64)
    path = str(exported.artifacts[0].path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    tokens, sentences = session.run(None, {"input_ids": ids, "attention_mask": mask})
    assert tokens.shape == (5, longest, WIDTH)
    student = Student.from_pretrained(str(exported.folder.with_name("model")), device="cpu")
    assert np.allclose(sentences, student.encode(TEXTS[:5]), atol=1e-5)


def test_a_bilstm_is_exported_too(tmp_path: Path) -> None:
    sizes = EncoderSizes(embedding=8, hidden=6, layers=1)
    student = bilstm_student(learn_vocabulary(lambda: [TEXTS], 120, "bpe"), sizes, max_tokens=32)
    student.save_pretrained(tmp_path / "laser")
    settings = ExportSettings(precisions=("fp32",), **ANY)
    found = ig.export(str(tmp_path / "laser"), "onnx", pairs=[str(pairs_file(tmp_path))], teacher="", settings=settings)
    assert found.artifacts[0].cosine > 0.99999 and found.artifacts[0].lost == 0


def test_what_loses_too_much_is_refused_and_an_earlier_export_stays(exported: Exported) -> None:
    model, pairs = str(exported.folder.with_name("model")), [str(pairs_file(exported.folder.parent))]
    out = exported.folder.with_name("strict")
    settings = ExportSettings(precisions=("fp32", "int8"), min_cosine=0.99999, max_loss=100.0, calibration=0)
    found = ig.export(model, "onnx", out, pairs=pairs, teacher="", settings=settings)
    assert [artifact.name for artifact in found.artifacts] == ["fp32"] and "mean cosine" in found.refused["int8"]
    assert [file.name for file in (out / "onnx").iterdir()] == ["model.onnx"]
    record = (out / "export.json").read_text()
    assert read_json(out / "export.json")["refused"] == found.refused
    with pytest.raises(ModelError, match="no file is close enough to the original") as caught:
        ig.export(model, "onnx", out, pairs=pairs, teacher="", settings=settings.model_copy(update={"precisions": ("int8",)}))
    assert "--min-cosine" in caught.value.hint and (out / "export.json").read_text() == record
    assert not list(exported.folder.parent.glob(".strict*"))


def test_other_files_are_never_replaced(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    for place in (tmp_path / "letters", tmp_path / "letters" / "dear.txt"):
        with pytest.raises(IsoglossError, match=r"not an export|not a folder"):
            ig.export(str(exported.folder.with_name("model")), "onnx", place, settings=ExportSettings(**ANY))
    assert (tmp_path / "letters" / "dear.txt").read_text() == "dear"
