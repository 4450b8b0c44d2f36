"""The folder of an ONNX or OpenVINO export: a saved model without its weights, and a graph per precision, each measured."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from isogloss.errors import ModelError
from isogloss.exporting.card import graph_card
from isogloss.exporting.export import Artifact, Exported
from isogloss.exporting.output import export_folder, finish, with_backend
from isogloss.exporting.portable_tokenizer import make_portable
from isogloss.exporting.source import ExportSource
from isogloss.models.saving import CARD
from isogloss.models.student import Student
from isogloss.storage import remove

# Writes the graphs to a folder: those that are close enough, and why others were refused.
WritePrecisions = Callable[[ExportSource, Path], tuple[list[Artifact], dict[str, str]]]

TITLES = {"onnx": "ONNX", "openvino": "OpenVINO"}
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
HINT = "allow more with --min-cosine and --max-loss, or name other --precisions; nothing was written"


def write_graph_folder(
    source: ExportSource, folder: Path, target: str, packages: Sequence[str], write_precisions: WritePrecisions
) -> Exported:
    """Write a folder with the graphs that are close enough to the original; raise if none is."""
    with export_folder(folder) as temporary:
        write_model_files(source.student, temporary)
        artifacts, refused = write_precisions(source, temporary)
        if not artifacts:
            reasons = "; ".join(f"{name}: {reason}" for name, reason in refused.items())
            raise ModelError(f"{source.name}: no file is close enough to the original ({reasons})", hint=HINT)
        card = graph_card(source, f"{TITLES[target]} graphs", artifacts, temporary, for_servers=target == "onnx")
        graphs = [artifact.path.relative_to(temporary).as_posix() for artifact in artifacts]
        (temporary / CARD).write_text(with_backend(card, target, graphs), encoding="utf-8")
        finish(temporary, source, target, artifacts, refused, packages)
    found = (replace(one, path=folder / one.path.relative_to(temporary)) for one in artifacts)
    return Exported(folder, tuple(found), refused)


def write_model_files(student: Student, folder: Path, card: str = "") -> None:
    """Tokenizer, modules and their settings as in a saved model, without the weights of the first module."""
    saved = folder / "saved"
    student.save_pretrained(saved, card)
    for file in saved.iterdir():
        if file.name not in (*WEIGHTS, "SHA256SUMS"):
            file.rename(folder / file.name)
    remove(saved)
    if not (folder / "tokenizer.json").is_file():  # BiLSTMs have it in the folder of a module
        student.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    for tokenizer in folder.rglob("tokenizer.json"):
        make_portable(tokenizer)
