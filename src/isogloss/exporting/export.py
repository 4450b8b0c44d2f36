"""Export a model to a form that other programs load: `isogloss export MODEL --to …`.

A new target is one file with a function `write(source, folder)`, and a line in `TARGETS`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from isogloss.checksums import SUMS, check_sums
from isogloss.config.exporting import ExportSettings
from isogloss.errors import ModelError, RecipeError
from isogloss.exporting.source import ExportSource
from isogloss.models.encoder import fingerprint
from isogloss.progress import OnProgress, silent
from isogloss.report.eval_results import add_scores, read_scores

if TYPE_CHECKING:
    from isogloss.evaluation.compare import Comparison

# Target: module. What each writes stands in its docstring.
TARGETS = {
    "folder": "folder",
    "onnx": "onnx",
    "openvino": "openvino",
    "static": "static",
}


GRAPHS, WEIGHTS = ("onnx", "openvino"), ("*.safetensors", "pytorch_model.bin")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder that was written, and how close it is to the original."""

    name: str  # "fp32", "int8", "static", …
    path: Path
    megabytes: float
    cosine: float  # mean over held-out sentences, with the original's embeddings
    accuracy: float  # retrieval accuracy at 1 on held-out pairs: in the teacher's index if the teacher is known
    lost: float  # points of accuracy less than the original
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exported:
    """The result of an export: the folder, what is in it, and what was refused, with the reason."""

    folder: Path
    artifacts: tuple[Artifact, ...]
    refused: dict[str, str] = field(default_factory=dict)
    suite: "Comparison | None" = None  # scores on test sets beside the original's, if a suite was named


class Target(Protocol):
    """A module that writes a form of the model."""

    def write(self, source: ExportSource, folder: Path) -> Exported:
        """Write the model of `source` to `folder`, atomically."""
        ...


def export(
    model: str,
    to: str = "folder",
    out: Path | str | None = None,
    *,
    pairs: Sequence[str] = (),
    teacher: str | None = None,
    settings: ExportSettings | None = None,
    scores: Sequence[Path | str] = (),
    on_progress: OnProgress = silent,
) -> Exported:
    """Export a model: a finished run, a folder or a hub name.

        ig.export("runs/mine", "onnx")

    `out` is by default `export/TARGET` in the run's folder. Every file is measured beside the original, on held-out pairs of
    the run or on `pairs`, and refused if it loses more than the settings allow. `scores` are files that `isogloss evaluate
    --json` printed for this model: the card and `.eval_results/` get them. `models.hub.push_folder` uploads the folder.
    """
    from isogloss.exporting.suite import measure_suite, suite_of

    if to not in TARGETS:
        raise RecipeError(f"{to!r} is not an export format", hint=f"choose one of {', '.join(TARGETS)}")
    if to == "static" and scores:
        hint = "evaluate the static model, then: isogloss export STATIC-FOLDER --scores FILE"
        raise RecipeError("a static model has other scores than the model that it is made from", hint=hint)
    if to == "folder" and out is None and not scores and (folder := folder_of_graphs(model)) is not None:
        return Exported(folder, ())
    source = ExportSource(model, settings or ExportSettings(), pairs, teacher, on_progress)
    suite = suite_of(source) if source.settings.suite else None  # before the work: a test set may be missing
    known = [score for path in scores for score in read_scores(Path(path), fingerprint(source.student.model))]
    target: Target = import_module(f"isogloss.exporting.{TARGETS[to]}")
    exported = target.write(source, Path(out) if out is not None else default_folder(source, to))
    if known:
        add_scores(exported.folder, known, "" if to == "folder" else "original")
    return exported if suite is None else replace(exported, suite=measure_suite(source, exported, suite))


def folder_of_graphs(model: str) -> Path | None:
    """The folder of an export without weights for torch, undamaged: it is uploaded as it is. None for other models."""
    folder = Path(model).expanduser()
    has_graphs = (folder / SUMS).is_file() and any(any((folder / kind).glob("*.*")) for kind in GRAPHS)
    if not has_graphs or any(file for pattern in WEIGHTS for file in folder.rglob(pattern)):
        return None
    check_sums(folder, lambda name: ModelError(f"{folder}: {name} is damaged", hint="export the model again"))
    return folder


def default_folder(source: ExportSource, to: str) -> Path:
    """`export/TARGET` in the run's folder, or beside the model."""
    if source.run is not None:
        return source.run.folder / "export" / to
    folder = Path(source.name).expanduser()
    return (folder.parent if folder.is_dir() else Path()) / f"{folder.name}-{to}"
