"""Open models for the service, in the precision that suits the machine.

    onnx:FOLDER                an ONNX export as it is: its int8 graph if it has one (or the one that was named)
    a run, a folder, a name    on a CPU the int8 graph of its ONNX export, which is made once; on a GPU, or with fp32, torch

Opening an ONNX export does not import torch, which saves time at the start and memory.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.config.serving import ServeSettings
from isogloss.errors import IsoglossError, ModelError, optional_package
from isogloss.progress import OnProgress, Step, silent
from isogloss.serve.engine import Engine, Facts, OnnxEngine, TorchEngine
from isogloss.serve.exports import Export, existing_export, int8_export
from isogloss.shapes import COUNT, NOTHING, OBJECT, TEXT, Each, check
from isogloss.storage import read_json

ONNX = "onnx:"
INNER = ("model", "export", "onnx")  # folders of a run, whose name says more
NVIDIA = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")  # the last on Windows' Linux
CONFIG = {"prompts?": (Each(TEXT, (TEXT, NOTHING)), NOTHING), "default_prompt_name?": (TEXT, NOTHING)}
GPU_IS_FP32 = "use --precision fp32 or auto on the GPU, or --device cpu"


@dataclass(frozen=True)
class Opened:
    """An engine, and what is worth saying about how it was chosen."""

    engine: Engine
    note: str = ""


def open_engine(model: str, name: str, settings: ServeSettings, on_progress: OnProgress = silent) -> Opened:
    """Load a model for the service."""
    on_progress(Step("models", 0, 1, "models"))
    device = _device(settings, model)
    if model.startswith(ONNX):
        return Opened(_onnx(existing_export(model.removeprefix(ONNX), settings.precision), name))
    if device != "cpu":
        if settings.precision == "int8":
            raise IsoglossError(f"{model}: int8 is computed on a CPU, not on {device}", hint=GPU_IS_FP32)
        return Opened(_torch(model, name, device))
    if settings.precision == "fp32":
        return Opened(_torch(model, name, device, settings.threads))
    try:
        return Opened(_onnx(int8_export(model, on_progress), name))
    except ModelError as error:
        if settings.precision == "int8":
            raise
        return Opened(_torch(model, name, device, settings.threads), f"{name} is served in fp32: {error.message}")


def served_name(model: str) -> str:
    """What clients call a model: the name of its run or folder, or its hub name."""
    place = Path(model.removeprefix(ONNX)).expanduser()
    if not place.is_dir() and place.suffix != ".onnx":
        return model
    parts = [part for part in place.resolve().parts if part not in INNER and not part.endswith(".onnx")]
    return parts[-1]


def names_of(models: Sequence[str], names: Sequence[str]) -> list[str]:
    """A name for each model: those that were given, in order, then what the models are called."""
    if len(names) > len(models):
        raise IsoglossError(
            f"{amount(len(names), 'name')} for {amount(len(models), 'model')}", hint="give --name once per model, or not at all"
        )
    found = [*names, *map(served_name, models[len(names) :])]
    for name in found:
        if not name.strip() or found.count(name) > 1:
            what = f"two models are called {name!r}" if name.strip() else "a model's name is empty"
            raise IsoglossError(what, hint="name them with --name, in the order of the models")
    return found


def _device(settings: ServeSettings, model: str) -> str:
    """Where a model is computed. torch is imported only if there may be a GPU, or if one was asked for."""
    asked = settings.device
    if asked == "cpu" or model.startswith(ONNX) or (asked == "auto" and not any(map(os.path.exists, NVIDIA))):
        return "cpu"
    from isogloss.models.loading import choose_device

    found = choose_device(asked)
    return "cpu" if asked == "auto" and found != "cuda" else found


def _onnx(export: Export, name: str) -> Engine:
    optional_package("onnxruntime", IsoglossError("onnxruntime is not installed here", hint="pip install 'isogloss[serve]'"))
    from isogloss.models.encoders.onnx import OnnxEncoder

    encoder = OnnxEncoder(export.graph, threads=1)
    prompts, default = _prompts(encoder.folder)
    facts = Facts(name, "cpu", export.precision, prompts, default, matryoshka_sizes(encoder.folder))
    return OnnxEngine(facts, encoder)


def _torch(model: str, name: str, device: str, threads: int = 0) -> Engine:
    import torch

    from isogloss.models.loading import local_model_folder
    from isogloss.models.student import AS_STORED, Student

    if threads:
        torch.set_num_threads(threads)
    student = Student.from_pretrained(model, None, AS_STORED, device)
    folder = local_model_folder(model)
    sizes = () if folder is None else matryoshka_sizes(folder)
    prompts = {key: value or "" for key, value in student.model.prompts.items()}
    return TorchEngine(Facts(name, device, "fp32", prompts, student.prompt, sizes), student)


def _prompts(folder: Path) -> tuple[dict[str, str], str]:
    config = _settings(folder / "config_sentence_transformers.json", CONFIG)
    prompts: dict[str, str] = {name: text or "" for name, text in (config.get("prompts") or {}).items()}
    return prompts, prompts.get(config.get("default_prompt_name") or "", "")


def matryoshka_sizes(folder: Path) -> tuple[int, ...]:
    """Sizes to which a model's vectors can be cut: `matryoshka_dimensions` of its config.json, or those of its run's recipe."""
    config = _settings(folder / "config.json", {"matryoshka_dimensions?": ([COUNT], NOTHING)})
    sizes = set(config.get("matryoshka_dimensions") or ())
    for place in (folder, folder.parent, folder.parent.parent):
        recipe = _settings(place / "run.json", OBJECT).get("recipe") or {}
        tables = [recipe, *recipe.get("stage", ())]
        sizes |= {size for table in tables for size in (table.get("losses") or {}).get("dimensions") or ()}
    return tuple(sorted(sizes))


def _settings(path: Path, shape: Any) -> dict[str, Any]:  # noqa: ANN401 - as `shapes` has it
    """A settings file; {} if there is none or it cannot be used: what needs the model's files has said so by then."""
    try:
        return dict(check(read_json(path), shape))
    except (OSError, ValueError):
        return {}


def refuse_missing_model(model: str) -> None:
    """Raise for a folder that does not exist or has no model in it, without loading anything."""
    if model.startswith(ONNX):
        existing_export(model.removeprefix(ONNX), "auto")
        return
    from isogloss.models import loading

    loading.local_model_folder(model)
