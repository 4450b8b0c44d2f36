"""OpenVINO exports: the graph's embeddings are the model's, int8 weights are what the formula says, what is missing is said."""

import sys
from pathlib import Path

import numpy as np
import pytest

from isogloss.config.exporting import ExportSettings
from isogloss.errors import ModelError
from isogloss.exporting.export import export
from isogloss.exporting.onnx_graph import write_graph
from isogloss.exporting.suite import model_name
from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.encoders.open import open_encoder
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from tiny import TEXTS, save_tiny_model, unigram

SETTINGS = ExportSettings(precisions=("fp32", "fp16", "int8"), max_queries=4, max_candidates=10, max_loss=100.0)
TEXTS_HERE = [*TEXTS[:9], " ".join(TEXTS)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    save_tiny_model(folder / "model", width=64, layers=1, seed=3, normalize=True)
    done = export(str(folder / "model"), "openvino", folder / "out", settings=SETTINGS)
    assert [(one.name, one.path.name) for one in done.artifacts] == [
        ("fp32", "openvino_model.xml"),
        ("fp16", "openvino_model_fp16.xml"),
        ("int8", "openvino_model_qint8.xml"),
    ]
    for one in done.artifacts:
        assert one.megabytes == sum(one.path.with_suffix(end).stat().st_size for end in (".xml", ".bin")) / 1e6
        assert one.cosine > 0.99
    assert done.artifacts[0].cosine > 1 - 1e-6 and not done.refused
    return folder


def test_the_graphs_give_the_embeddings_of_the_model(exported: Path) -> None:
    expected = Student.from_pretrained(str(exported / "model"), device="cpu").encode(TEXTS_HERE)
    whole = open_encoder(f"openvino:{exported / 'out'}")
    assert np.abs(whole.encode(TEXTS_HERE) - expected).max() < 1e-5
    assert model_name(exported / "x.xml") == f"openvino:{exported / 'x.xml'}"
    for name, far in (("fp16", 1e-2), ("qint8", 5e-2)):
        found = open_encoder(f"openvino:{exported / 'out' / 'openvino' / f'openvino_model_{name}.xml'}")
        assert 1e-6 < np.abs(found.encode(TEXTS_HERE) - expected).max() < far
        assert found.fingerprint != whole.fingerprint
        sizes = [path.with_suffix(".bin").stat().st_size for path in (found.graph, whole.graph)]  # type: ignore[attr-defined]
        assert sizes[0] < 0.6 * sizes[1]


def test_int8_weights_are_the_nearest_whole_numbers(exported: Path) -> None:
    """The largest number of each row of the token table becomes 127, and of each output of a product."""
    from openvino import Core

    body = Student.from_pretrained(str(exported / "model"), device="cpu").body
    wide = {name: one.detach().numpy() for name, one in body.named_parameters() if one.ndim == 2 and one.numel() >= 4096}
    del wide["pooler.dense.weight"]
    model = Core().read_model(exported / "out" / "openvino" / "openvino_model_qint8.xml")
    constants = [node.get_data() for node in model.get_ops() if node.get_type_name() == "Constant"]
    stored = [one for one in constants if one.dtype == np.int8]
    assert len(stored) == len(wide)
    for values in wide.values():
        scale = np.abs(values).max(axis=1, keepdims=True) / 127
        nearest = np.rint(values / np.where(scale == 0, 1, scale)).astype(np.int8)
        assert any(np.array_equal(one, side) for one in stored for side in (nearest, nearest.T)), "torch has a row per output"


def test_a_static_student(tmp_path: Path) -> None:
    student = static_student(unigram(), 48, name="static", max_tokens=16)
    student.save_pretrained(tmp_path / "model")
    export(str(tmp_path / "model"), "openvino", tmp_path / "out", settings=SETTINGS.replace(precisions=("fp32",)))
    found = open_encoder(f"openvino:{tmp_path / 'out'}").encode(TEXTS_HERE)
    assert np.abs(found - student.encode(TEXTS_HERE)).max() < 1e-5


def test_an_lstm_is_refused_because_openvino_ignores_lengths(tmp_path: Path) -> None:
    student = bilstm_student(learn_vocabulary(lambda: [TEXTS], 120, "bpe"), EncoderSizes(embedding=8, hidden=4, layers=1))
    student.save_pretrained(tmp_path / "model")
    with pytest.raises(ModelError, match="over the padding of a batch"):
        export(str(tmp_path / "model"), "openvino", tmp_path / "out", settings=SETTINGS)
    assert not (tmp_path / "out").exists()
    import openvino

    write_graph(student, tmp_path / "model.onnx")
    model = openvino.Core().compile_model(str(tmp_path / "model.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    ids = np.array([[5, 6, 7, 8, 9], [5, 6, 1, 1, 1]])
    padded = model({"input_ids": ids, "attention_mask": (ids != 1).astype(np.int64)})["sentence_embedding"][1]
    alone = model({"input_ids": ids[1:, :2], "attention_mask": np.ones((1, 2), dtype=np.int64)})["sentence_embedding"][0]
    assert np.abs(padded - alone).max() > 1e-3, "it reads the lengths now: export to it, and remove the refusal"


def test_what_is_too_far_from_the_original_is_left_out(exported: Path, tmp_path: Path) -> None:
    model, strict = str(exported / "model"), SETTINGS.replace(min_cosine=1 - 1e-7)
    done = export(model, "openvino", tmp_path / "out", settings=strict)
    assert [one.name for one in done.artifacts] == ["fp32"] and set(done.refused) == {"fp16", "int8"}
    files = sorted(path.name for path in (tmp_path / "out" / "openvino").iterdir())
    assert files == ["openvino_model.bin", "openvino_model.xml"]
    with pytest.raises(ModelError, match=r"no file is close enough .*int8: mean cosine"):
        export(model, "openvino", tmp_path / "none", settings=strict.replace(precisions=("int8",)))
    assert not (tmp_path / "none").exists()


def test_without_openvino_the_error_says_what_to_install(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ModelError) as error:
        export(str(exported / "model"), "openvino", tmp_path / "out")
    assert error.value.hint == 'pip install "isogloss[openvino]"' and not (tmp_path / "out").exists()
    with pytest.raises(ModelError, match="openvino is not installed"):
        open_encoder(f"openvino:{exported / 'out'}")


def test_graphs_that_are_not_there_or_damaged(exported: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no OpenVINO export in this folder"):
        open_encoder(f"openvino:{exported / 'model'}")
    (tmp_path / "openvino").mkdir()
    (tmp_path / "openvino" / "openvino_model.xml").write_text("<net>")
    (tmp_path / "tokenizer.json").write_bytes((exported / "out" / "tokenizer.json").read_bytes())
    with pytest.raises(ModelError, match="cannot be run"):
        open_encoder(f"openvino:{tmp_path}")
