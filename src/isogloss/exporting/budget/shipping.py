"""The folder that is shipped: one ONNX graph, `onnx/model.onnx`, with its tokenizer and its settings."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from isogloss.checksums import write_sums
from isogloss.config.exporting import Precision
from isogloss.exporting.onnx import CONVERSIONS, write_model_files
from isogloss.exporting.onnx_graph import load_graph, save_graph, write_graph
from isogloss.models.saving import CARD
from isogloss.models.student import Student

GRAPH = Path("onnx") / "model.onnx"


def graphs(student: Student, precisions: Sequence[Precision]) -> Iterator[tuple[Precision, Any]]:
    """The model as an ONNX graph in each precision."""
    with tempfile.TemporaryDirectory(prefix="isogloss-") as place:
        path = Path(place) / GRAPH.name
        write_graph(student, path)
        for precision in precisions:
            proto = load_graph(path)
            if precision in CONVERSIONS:
                CONVERSIONS[precision](proto)
            yield precision, proto


def ship(student: Student, proto: Any, folder: Path, card: str) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Write the folder of a model with its graph, its card and checksums."""
    write_model_files(student, folder, card)
    save_graph(proto, folder / GRAPH)
    write_sums(folder, but=(CARD,))


def folder_bytes(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
