"""Exported models load in other programs: the code blocks of docs/exports.md, run with the real packages.

Each block gives the embeddings of the model that was exported, for fp32 to rounding and for int8 nearly.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import normalizers

from isogloss.config.exporting import ExportSettings
from isogloss.exporting.export import export
from isogloss.models.bridge import Bridge
from isogloss.models.student import Student
from isogloss.types import FloatArray
from programs import needed_program, needed_runtime
from tiny import TEXTS, save_tiny_model

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
QUOTED = ["Where is the station?", "Wo ist der Bahnhof?"]
DIMENSION = 20
LONG = " ".join(TEXTS)  # more tokens than the model takes
SENTENCES = [TEXTS[0], TEXTS[1], LONG, "?", "the\u200bcat\tsings"]
INT8 = {"onnx": "model_qint8_avx512_vnni.onnx", "openvino": "openvino_model_qint8.xml"}
FP32 = {"onnx": "model.onnx", "openvino": "openvino_model.xml"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`mine`: a bridged and normalized model, wide enough for int8 weights, with both exports; Nmt as in multilingual-e5."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    save_tiny_model(folder / "student", width=64, layers=2, seed=7, normalize=False)
    student = Student.from_pretrained(str(folder / "student"), max_tokens=24, device="cpu")
    random = np.random.default_rng(7)
    weight = random.normal(size=(DIMENSION, 64)).astype(np.float32)
    student.add_bridge(Bridge(weight, random.normal(size=DIMENSION).astype(np.float32), 0.1, {}), normalize=True)
    backend = student.model.tokenizer.backend_tokenizer
    backend.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    student.save_pretrained(folder / "model")
    settings = ExportSettings(precisions=("fp32", "int8"), max_queries=4, max_candidates=10, max_loss=100.0)
    for target in ("onnx", "openvino"):
        done = export(str(folder / "model"), target, folder / "export" / target, settings=settings)
        assert [artifact.name for artifact in done.artifacts] == ["fp32", "int8"]
        assert [artifact.path.name for artifact in done.artifacts] == [FP32[target], INT8[target]]
    return folder.parent


@pytest.fixture(scope="module")
def expected(runs: Path) -> FloatArray:
    return Student.from_pretrained(str(runs / "mine" / "model"), device="cpu").encode(SENTENCES)


def blocks(section: str) -> list[str]:
    """The code of a section of the page."""
    (text,) = re.findall(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", PAGE, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^```(?:python|js)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def adapted(block: str, runs: Path) -> str:
    """A block with the sentences, folder and sizes of the test."""
    assert json.dumps(QUOTED) in block and "runs/mine" in block
    block = block.replace(json.dumps(QUOTED), json.dumps(SENTENCES, ensure_ascii=False))
    block = re.sub(r"(?:\./)?runs/mine", str(runs / "mine"), block)
    return block.replace("128", "24").replace("dim=384", f"dim={DIMENSION}")


def run_here(block: str) -> FloatArray:
    names: dict[str, object] = {}
    exec(compile(block, "docs/exports.md", "exec"), names)
    return np.array(names["embeddings"], dtype=np.float32)


def run_in_backend(block: str, backend: str, work: Path) -> FloatArray:
    """Run a block in a process that has the packages of a backend before those of the environment."""
    packages = needed_runtime(backend)
    save = f"import numpy\nnumpy.save({str(work / 'found.npy')!r}, embeddings)\n"
    (work / "block.py").write_text(f"{block}\n{save}", encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(packages), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(work / "block.py")]
    done = subprocess.run(command, env=environment, cwd=work, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    found: FloatArray = np.load(work / "found.npy")
    return found


def cosines(found: FloatArray, expected: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
    similar: FloatArray = (found * expected).sum(1) / lengths
    return similar


def same(found: FloatArray, expected: FloatArray) -> bool:
    return bool(found.shape == expected.shape and np.abs(found - expected).max() < 1e-5)


def near(found: FloatArray, expected: FloatArray) -> bool:
    """Quantized: close, and not the very same numbers."""
    return bool(cosines(found, expected).min() > 0.98 and np.abs(found - expected).max() > 1e-4)


def test_sentence_transformers(runs: Path, expected: FloatArray) -> None:
    torch, _onnx, _openvino = blocks("sentence-transformers")
    assert same(run_here(adapted(torch, runs)), expected)


def test_the_onnx_backend_of_sentence_transformers(runs: Path, expected: FloatArray, tmp_path: Path) -> None:
    block = adapted(blocks("sentence-transformers")[1], runs)
    both = block.replace("embeddings", "quantized") + "\n" + block.replace(INT8["onnx"], FP32["onnx"])
    both += "\nembeddings = [quantized, embeddings, SentenceTransformer(" + repr(str(runs / "mine" / "model")) + ").encode("
    both += repr(SENTENCES) + ")]\n"
    quantized, exact, by_older_torch = run_in_backend(both, "onnx-backend", tmp_path)
    assert near(quantized, expected) and same(exact, expected)
    assert same(by_older_torch, expected), "sentence-transformers 5 and transformers 4 read the saved folder, too"


def test_the_openvino_backend_of_sentence_transformers(runs: Path, expected: FloatArray, tmp_path: Path) -> None:
    block = adapted(blocks("sentence-transformers")[2], runs)
    exact = '"ov_config": {"INFERENCE_PRECISION_HINT": "f32"}'
    assert f"`{exact}`" in PAGE
    whole = block.replace(f'{INT8["openvino"]}"', f'{FP32["openvino"]}", {exact}')
    quantized = block.replace("embeddings", "quantized")
    found = run_in_backend(f"{quantized}\n{whole}\nembeddings = [quantized, embeddings]\n", "openvino-backend", tmp_path)
    assert near(found[0], expected) and same(found[1], expected)


@pytest.mark.parametrize(("section", "target"), [("onnxruntime alone", "onnx"), ("OpenVINO alone", "openvino")])
def test_a_runtime_alone(runs: Path, expected: FloatArray, section: str, target: str) -> None:
    block = adapted(blocks(section)[0], runs)
    exact = block.replace('"CPU")', '"CPU", {"INFERENCE_PRECISION_HINT": "f32"})')
    assert same(run_here(exact), expected)
    assert cosines(run_here(block), expected).min() > 0.999, "OpenVINO takes bf16 if the CPU has it"
    assert near(run_here(exact.replace(f"/{FP32[target]}", f"/{INT8[target]}")), expected)


def test_fastembed(runs: Path, expected: FloatArray) -> None:
    block = adapted(blocks("fastembed")[0], runs)
    assert near(run_here(block), expected)
    exact = block.replace(INT8["onnx"], FP32["onnx"]).replace('"mine"', '"mine-fp32"')
    assert same(run_here(exact), expected)


def test_fastembed_reads_the_second_output_of_a_built_in_model(
    runs: Path, expected: FloatArray, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its class for models with pooling inside takes the outputs by place."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import DenseModelDescription, ModelSource
    from fastembed.text import builtin_sentence_embedding as builtin

    ours = DenseModelDescription(
        model="built-in",
        dim=DIMENSION,
        description="",
        license="",
        size_in_GB=0,
        sources=ModelSource(hf="not/used"),
        model_file="onnx/model.onnx",
    )
    monkeypatch.setattr(builtin, "supported_builtin_sentence_embedding_models", [ours])
    model = TextEmbedding("built-in", specific_model_path=str(runs / "mine" / "export" / "onnx"))
    assert same(np.array(list(model.embed(SENTENCES))), expected)


def test_transformers_js(runs: Path, expected: FloatArray, tmp_path: Path) -> None:
    node, packages = needed_program("node", package="nodejs npm"), needed_runtime("transformers.js")
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    (block,) = blocks("transformers.js")
    exact = block.replace('model_file_name: "model_qint8_avx512_vnni", ', "")
    assert exact != block
    found = []
    for name, code in (("int8", block), ("fp32", exact)):
        local = 'import { env } from "@huggingface/transformers";\nenv.allowRemoteModels = false;\n'
        script = f"{local}{adapted(code, runs)}\nconsole.log(JSON.stringify(embeddings));\n"
        (tmp_path / f"{name}.mjs").write_text(script, encoding="utf-8")
        command = [node, str(tmp_path / f"{name}.mjs")]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        found.append(np.array(json.loads(done.stdout.splitlines()[-1]), dtype=np.float32))
    quantized, given = found
    assert near(quantized, expected)
    whole = [text != LONG for text in SENTENCES]
    assert same(given[whole], expected[whole])
    assert not same(given, expected) and near(given, expected), "it truncates without putting the last special token back"
