"""Which engine a model gets: its precision, its prompts, its limits, and the export that is made once."""

import json
import shutil
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isogloss.checksums import write_sums
from isogloss.config.serving import ServeSettings
from isogloss.errors import IsoglossError, ModelError
from isogloss.exporting.export import export
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.serve.engine import OnnxEngine, Served, TorchEngine
from isogloss.serve.exports import Export, NoInt8, existing_export, int8_export, this_cpu
from isogloss.serve.opening import matryoshka_sizes, open_engine, served_name
from isogloss.types import FloatArray
from serve.services import WIDTH
from tiny import TEXTS, save_tiny_model

Model = tuple[Path, FloatArray]
FP32 = ServeSettings(precision="fp32", device="cpu")


def embedded(engine: OnnxEngine | TorchEngine, texts: list[str]) -> FloatArray:
    return engine.encode_ids(engine.token_ids(texts))


def test_torch_computes_what_sentence_transformers_does(models: Path) -> None:
    engine = open_engine(str(models / "student"), "student", FP32).engine
    assert isinstance(engine, TorchEngine) and not engine.shared
    wanted = SentenceTransformer(str(models / "student"), device="cpu").encode([*TEXTS, "the cat " * 100])
    assert np.allclose(embedded(engine, [*TEXTS, "the cat " * 100]), wanted, atol=1e-5)
    assert (engine.dimension, engine.max_tokens) == (24, 64)
    assert (engine.facts.name, engine.facts.device, engine.facts.precision) == ("student", "cpu", "fp32")


def test_an_export_is_opened_as_it_is(onnx_model: Model) -> None:
    engine = open_engine(f"onnx:{onnx_model[0]}", "tiny", ServeSettings()).engine
    assert isinstance(engine, OnnxEngine) and engine.shared and engine.facts.precision == "fp32"
    assert engine.facts.prompts == {"query": "the cat ", "passage": "the dog "}
    prompted = embedded(engine, ["the cat x"])
    assert np.array_equal(engine.encode_ids(engine.token_ids(["x"], "query")), prompted)
    with pytest.raises(ModelError, match="no int8 graph"):
        open_engine(f"onnx:{onnx_model[0]}", "tiny", ServeSettings(precision="int8"))


def test_the_graph_of_the_asked_precision_is_found(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    for name in ("model.onnx", "model_qint8_avx512.onnx", "model_fp16.onnx"):
        (tmp_path / "onnx" / name).touch()
    assert existing_export(str(tmp_path), "auto").graph.name == "model_qint8_avx512.onnx"
    assert existing_export(str(tmp_path), "auto").precision == "int8"
    assert existing_export(str(tmp_path), "fp32").graph.name == "model.onnx"
    named = existing_export(str(tmp_path / "onnx/model_fp16.onnx"), "auto")
    assert (named.graph.name, named.precision) == ("model_fp16.onnx", "fp32")


def test_int8_is_exported_once_and_again_for_other_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tmp_path / "model"
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)
    steps: list[Step] = []
    engine = open_engine(str(model), "tiny", ServeSettings(device="cpu"), steps.append).engine
    assert engine.facts.precision == "int8" and "ONNX export, once" in {step.stage for step in steps}
    wanted = SentenceTransformer(str(model), device="cpu").encode(TEXTS)
    found = np.concatenate([engine.encode_ids([row]) for row in engine.token_ids(TEXTS)])
    assert np.mean(np.sum(found * wanted, axis=1)) > 0.95
    first = int8_export(str(model))

    def exported(*_arguments: object, **_options: object) -> None:
        raise AssertionError("exported again")

    with monkeypatch.context() as patch:
        patch.setattr("isogloss.exporting.export.export", exported)
        patch.setattr("isogloss.models.student.Student.from_pretrained", exported)
        assert int8_export(str(model)) == first  # without loading the model
    note = next((tmp_path / "cache").rglob("*.known.json"))
    note.unlink()
    with monkeypatch.context() as patch:
        patch.setattr("isogloss.exporting.export.export", exported)
        assert int8_export(str(model)) == first  # by its fingerprint
        assert note.is_file()
        save_tiny_model(model, width=16, layers=1, seed=2, normalize=True)
        with pytest.raises(AssertionError, match="exported again"):
            int8_export(str(model))


@pytest.mark.parametrize("refused", [False, True])
def test_services_that_start_together_export_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    """The second one waits, and takes what the first one made, or its refusal."""
    model, made, results = tmp_path / "model", list[str](), list[object]()
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)
    begun, second_waits = Event(), Event()

    def slow(name: str, *arguments: Any, **options: Any) -> object:  # noqa: ANN401 - those of export
        made.append(name)
        begun.set()
        assert second_waits.wait(60)
        if refused:
            raise ModelError("too far from it")
        return export(name, *arguments, **options)

    def start(on_progress: OnProgress) -> None:
        try:
            results.append(int8_export(str(model), on_progress))
        except ModelError as error:
            results.append(error.message)

    monkeypatch.setattr("isogloss.exporting.export.export", slow)
    first = Thread(target=start, args=(silent,))
    first.start()
    assert begun.wait(60)
    second = Thread(target=start, args=(lambda step: second_waits.set() if step.stage == "waiting for export" else None,))
    second.start()
    for thread in (first, second):
        thread.join(60)
    assert made == [str(model)] and len(results) == 2 and results[0] == results[1]
    assert results[0] == "too far from it" if refused else isinstance(results[0], Export)


def test_a_damaged_int8_export_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = tmp_path / "model"
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)
    graph = int8_export(str(model)).graph
    before = graph.read_bytes()
    graph.write_bytes(before[:-9] + bytes([before[-9] ^ 1]) + before[-8:])
    again = open_engine(str(model), "tiny", ServeSettings(device="cpu"))
    assert (again.engine.facts.precision, again.note) == ("int8", "") and graph.read_bytes() == before
    assert f"{graph.name} is damaged; it is not used" in caplog.text


def test_int8_that_was_refused_is_served_in_fp32_and_said(tmp_path: Path) -> None:
    model, exported = tmp_path / "model", tmp_path / "export/onnx"
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)
    fingerprint = Student.from_pretrained(str(model), max_tokens=0, device="cpu").fingerprint
    exported.mkdir(parents=True)
    record = {"fingerprint": fingerprint, "artifacts": [], "refused": {"int8": "too far from it"}}
    (exported / "export.json").write_text(json.dumps(record))
    opened = open_engine(str(model), "tiny", ServeSettings(device="cpu"))
    assert opened.engine.facts.precision == "fp32" and isinstance(opened.engine, TorchEngine)
    assert opened.note == "tiny is served in fp32: int8 was refused: too far from it"
    with pytest.raises(NoInt8, match="too far from it"):
        open_engine(str(model), "tiny", ServeSettings(device="cpu", precision="int8"))


def test_a_refusal_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tried = tmp_path / "model", []
    save_tiny_model(model, width=16, layers=1, seed=1, normalize=True)

    def refusing(name: str, *_arguments: object, **_options: object) -> None:
        tried.append(name)
        raise ModelError("too far from it")

    monkeypatch.setattr("isogloss.exporting.export.export", refusing)
    for _ in range(2):
        with pytest.raises(NoInt8, match="too far from it"):
            int8_export(str(model))
    save_tiny_model(model, width=16, layers=1, seed=2, normalize=True)
    with pytest.raises(NoInt8):
        int8_export(str(model))
    assert tried == [str(model)] * 2


@pytest.mark.parametrize(
    ("machine", "flags", "kind"),
    [
        ("x86_64", "flags: avx2 avx512_vnni", "avx512_vnni"),
        ("x86_64", "flags: avx2 avx_vnni", "avx512_vnni"),
        ("x86_64", "flags: avx2", "avx2"),
        ("AMD64", None, "avx2"),
        ("arm64", None, "arm64"),
        ("aarch64", "Features: asimd", "arm64"),
    ],
)
def test_the_graph_suits_the_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, flags: str | None, kind: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("isogloss.serve.exports.CPU_FLAGS", tmp_path / "cpuinfo")
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(flags)
    assert this_cpu() == kind
    (tmp_path / "onnx").mkdir()
    for name in ("model.onnx", "model_qint8_avx512_vnni.onnx"):
        (tmp_path / "onnx" / name).touch()
    assert existing_export(str(tmp_path), "auto").precision == ("fp32" if kind == "avx2" else "int8")


def test_a_damaged_export_is_refused(onnx_model: Model, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(onnx_model[0], folder)
    write_sums(folder)
    graph = existing_export(str(folder), "fp32").graph
    with graph.open("r+b") as file:
        file.seek(100)
        file.write(b"\0\0\0\0")
    with pytest.raises(ModelError, match="damaged"):
        existing_export(str(folder), "fp32")


def test_sizes_come_from_the_model_or_its_run(tmp_path: Path) -> None:
    model = tmp_path / "run/model"
    model.mkdir(parents=True)
    assert matryoshka_sizes(model) == ()
    (model / "config.json").write_text('{"matryoshka_dimensions": [64, 32]}')
    assert matryoshka_sizes(model) == (32, 64)
    recipe = {"losses": {"dimensions": [128]}, "stage": [{"task": "distill", "losses": {"dimensions": [16]}}, {"task": "nli"}]}
    (tmp_path / "run/run.json").write_text(json.dumps({"recipe": recipe}))
    assert matryoshka_sizes(model) == (16, 32, 64, 128)
    (model / "config.json").write_text('{"matryoshka_dimensions": "all"}')
    assert matryoshka_sizes(model) == (16, 128)


def test_names_come_from_runs_and_folders(tmp_path: Path) -> None:
    (tmp_path / "mine/model").mkdir(parents=True)
    (tmp_path / "mine/export/onnx/onnx").mkdir(parents=True)
    graph = tmp_path / "mine/export/onnx/onnx/model.onnx"
    graph.touch()
    for name in (tmp_path / "mine", tmp_path / "mine/model", f"onnx:{tmp_path}/mine/export/onnx", f"onnx:{graph}"):
        assert served_name(str(name)) == "mine"
    assert served_name("intfloat/multilingual-e5-small") == "intfloat/multilingual-e5-small"


def test_warming_finds_unit_length_and_the_size_of_batches(onnx_model: Model, models: Path) -> None:
    plain = Served.warmed(open_engine(f"onnx:{onnx_model[0]}", "tiny", ServeSettings()).engine)
    assert not plain.unit_length and plain.batch_tokens == 1024 and plain.engine.dimension == WIDTH
    assert Served.warmed(open_engine(str(models / "teacher"), "teacher", FP32).engine, 99).unit_length
    assert Served.warmed(plain.engine, 99).batch_tokens == 99


def test_int8_on_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    monkeypatch.setattr("isogloss.models.loading.choose_device", lambda _asked: "cuda")
    with pytest.raises(IsoglossError, match="int8 is computed on a CPU"):
        open_engine(str(models / "teacher"), "teacher", ServeSettings(device="cuda", precision="int8"))
