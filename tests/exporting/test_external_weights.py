"""Graphs whose weights do not fit into one file: `model.onnx` with `model.onnx_data`, as optimum writes and reads them.

The limit is 2 GiB; here it is lowered, so that a tiny model is beyond it. Everything else is real: the files, who loads them,
and the embeddings.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isogloss.checksums import check_sums
from isogloss.config.exporting import ExportSettings
from isogloss.errors import IsoglossError
from isogloss.exporting import onnx_graph
from isogloss.exporting.export import Exported, export
from isogloss.exporting.onnx_graph import INLINE, load_graph, save_graph, weights_file, write_graph
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.models.student import Student
from isogloss.types import FloatArray
from programs import needed_program, needed_runtime
from tiny import TEXTS, save_tiny_model

pytest.importorskip("onnxscript")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

WIDTH, LARGEST = 72, 20_000  # bytes; the weights of one product have about as many
FILES = {"fp32": "model.onnx", "fp16": "model_fp16.onnx", "int8": "model_qint8_avx512_vnni.onnx"}


@pytest.fixture(scope="module", autouse=True)
def _low_limit() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnx_graph, "LARGEST_FILE", LARGEST)
        yield


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """All precisions of a tiny model, beside it in `model`."""
    place = tmp_path_factory.mktemp("large")
    save_tiny_model(place / "model", width=WIDTH, layers=2, seed=2, normalize=True)
    settings = ExportSettings(
        precisions=("fp32", "fp16", "int8"), min_cosine=0.9, max_loss=100.0, calibration=8, max_queries=4, max_candidates=10
    )
    return export(str(place / "model"), "onnx", teacher="", settings=settings)


@pytest.fixture(scope="module")
def expected(exported: Exported) -> FloatArray:
    return Student.from_pretrained(str(exported.folder.with_name("model")), device="cpu").encode(TEXTS[:8])


def test_each_graph_has_its_weights_beside_it(exported: Exported) -> None:
    folder = exported.folder / "onnx"
    assert {file.name for file in folder.iterdir()} == {name + end for name in FILES.values() for end in ("", "_data")}
    for artifact in exported.artifacts:
        beside = weights_file(artifact.path)
        weights = {one.name: one for one in onnx.load(str(artifact.path), load_external_data=False).graph.initializer}
        outside = [one for one in weights.values() if one.data_location == onnx.TensorProto.EXTERNAL]
        assert {pair.value for one in outside for pair in one.external_data if pair.key == "location"} == {beside.name}
        assert beside.stat().st_size >= LARGEST > 0 and len(outside) > 5
        inside = [len(one.raw_data) for name, one in weights.items() if one not in outside]
        assert max(inside) < INLINE and artifact.path.stat().st_size < 150_000
        assert artifact.megabytes == pytest.approx((artifact.path.stat().st_size + beside.stat().st_size) / 1e6)
    sizes = [weights_file(artifact.path).stat().st_size for artifact in exported.artifacts]
    assert sizes[0] > 1.8 * sizes[1] > 2.5 * sizes[2]


def test_checksums_cover_the_weights(exported: Exported) -> None:
    weights = exported.folder / "onnx" / "model.onnx_data"
    before = weights.read_bytes()
    check_sums(exported.folder, lambda name: IsoglossError(name))
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(IsoglossError, match=r"onnx/model\.onnx_data"):
        check_sums(exported.folder, lambda name: IsoglossError(name))
    weights.write_bytes(before)


@pytest.mark.parametrize("precision", FILES)
def test_onnxruntime_gives_the_models_embeddings(exported: Exported, expected: FloatArray, precision: str) -> None:
    path = exported.folder / "onnx" / FILES[precision]
    found = OnnxEncoder(path).encode(TEXTS[:8])
    if precision == "fp32":
        assert np.allclose(found, expected, atol=1e-5)
    assert (found * expected).sum(1).min() > 0.9
    weights_file(path).rename(path.with_name("aside"))
    try:
        with pytest.raises(IsoglossError, match=r"\.onnx_data \(missing\) is damaged"):
            OnnxEncoder(path)
    finally:
        path.with_name("aside").rename(weights_file(path))


def test_sentence_transformers_loads_the_folder(exported: Exported, expected: FloatArray, tmp_path: Path) -> None:
    """As anybody does: the folder, without a word about files."""
    packages = needed_runtime("onnx-backend")
    code = f"""
import numpy
from sentence_transformers import SentenceTransformer
for name, file in (("fp32", {{}}), ("fp16", {{"file_name": "onnx/model_fp16.onnx"}})):
    kwargs = {{"provider": "CPUExecutionProvider", **file}}
    model = SentenceTransformer({str(exported.folder)!r}, backend="onnx", device="cpu", model_kwargs=kwargs)
    numpy.save({str(tmp_path)!r} + f"/{{name}}.npy", model.encode({TEXTS[:8]!r}))
"""
    environment = os.environ | {"PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert np.allclose(np.load(tmp_path / "fp32.npy"), expected, atol=1e-5)
    assert np.allclose(np.load(tmp_path / "fp16.npy"), expected, atol=1e-2)


def test_fastembed_loads_the_folder(exported: Exported, expected: FloatArray) -> None:
    fastembed = pytest.importorskip("fastembed")
    from fastembed.common.model_description import ModelSource, PoolingType

    fastembed.TextEmbedding.add_custom_model(
        model="with weights beside it",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(hf="not/used"),
        dim=WIDTH,
        model_file="onnx/model.onnx",
        output_name="sentence_embedding",
    )
    model = fastembed.TextEmbedding("with weights beside it", specific_model_path=str(exported.folder))
    assert np.allclose(np.array(list(model.embed(TEXTS[:8]))), expected, atol=1e-5)


def test_transformers_js_loads_the_folder_if_it_is_told(exported: Exported, expected: FloatArray, tmp_path: Path) -> None:
    node, packages = needed_program("node", package="nodejs npm"), needed_runtime("transformers.js")
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    told = "use_external_data_format: true"
    assert told in (Path(__file__).parent.parent.parent / "docs" / "exports.md").read_text(encoding="utf-8")
    (tmp_path / "embed.mjs").write_text(
        f"""
import {{ AutoModel, AutoTokenizer, env }} from "@huggingface/transformers";
env.allowRemoteModels = false;
const folder = {json.dumps(str(exported.folder))};
const tokenizer = await AutoTokenizer.from_pretrained(folder);
const model = await AutoModel.from_pretrained(folder, {{ dtype: "fp32", {told} }});
const inputs = await tokenizer({json.dumps(TEXTS[:8], ensure_ascii=False)}, {{ padding: true, truncation: true }});
const {{ sentence_embedding }} = await model(inputs);
console.log(JSON.stringify(sentence_embedding.tolist()));
""",
        encoding="utf-8",
    )
    command = [node, str(tmp_path / "embed.mjs")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    assert np.allclose(json.loads(done.stdout.splitlines()[-1]), expected, atol=1e-5)


def test_openvino_is_exported_from_such_a_graph(exported: Exported, expected: FloatArray, tmp_path: Path) -> None:
    pytest.importorskip("openvino")
    from isogloss.models.encoders.openvino import OpenVinoEncoder

    settings = ExportSettings(precisions=("fp32",), max_queries=4, max_candidates=10)
    model = str(exported.folder.with_name("model"))
    (artifact,) = export(model, "openvino", tmp_path / "openvino", teacher="", settings=settings).artifacts
    found = OpenVinoEncoder(artifact.path).encode(TEXTS[:8])
    assert (found * expected).sum(1).min() > 0.999


def test_an_older_file_of_weights_is_replaced(exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = Student.from_pretrained(str(exported.folder.with_name("model")), device="cpu")
    path = tmp_path / "model.onnx"
    write_graph(student, path)
    size = weights_file(path).stat().st_size
    save_graph(load_graph(path), path)
    assert weights_file(path).stat().st_size == size, "onnx itself appends"
    monkeypatch.setattr(onnx_graph, "LARGEST_FILE", 2**31)
    save_graph(load_graph(path), path)
    assert not weights_file(path).exists() and path.stat().st_size > size
    ids = np.array([[0, 5, 6, 2]], dtype=np.int64)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert np.isfinite(session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[1]).all()
