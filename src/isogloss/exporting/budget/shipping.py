"""The folder that is shipped: one ONNX graph, `onnx/model.onnx`, with its tokenizer and its settings."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isogloss.checksums import write_sums
from isogloss.config.exporting import Precision
from isogloss.exporting.graph_folder import write_model_files
from isogloss.exporting.onnx_calibration import channel_maxima
from isogloss.exporting.onnx_graph import load_graph, save_graph, write_graph
from isogloss.exporting.onnx_precision import has_products, to_fp16, to_int8
from isogloss.models.saving import CARD
from isogloss.models.student import Student
from isogloss.storage import TEMPORARY_MARK, explaining_disk, make_folder

Graphs = Iterator[tuple[Precision, Any]]
GRAPH = Path("onnx") / "model.onnx"


@contextmanager
def temporary_model(work: Path) -> Iterator[Path]:
    """A folder in `work` (/tmp may be small) that is removed at the end, or after a kill by `remove_stale_files`."""
    make_folder(work)
    with explaining_disk(work), tempfile.TemporaryDirectory(prefix=f".model{TEMPORARY_MARK}", dir=work) as place:
        yield Path(place) / "model"


def graphs(
    student: Student, precisions: Sequence[Precision], work: Path, texts: Sequence[str] = (), reduced: bool = False
) -> Graphs:
    """The model as an ONNX graph in each precision; `work` is a folder for temporary files.

    int8 is calibrated on `texts`, if there are any; `reduced` makes it for older CPUs (see `onnx_precision`).
    """
    with temporary_model(work) as folder:
        path = folder / GRAPH
        write_graph(student, path)
        for precision in precisions:
            proto = load_graph(path)
            if precision == "fp16":
                to_fp16(proto)
            elif precision == "int8":
                maxima = {}
                if texts and has_products(proto):
                    write_model_files(student, folder)
                    maxima = channel_maxima(path, texts)
                to_int8(proto, reduced, maxima)
            yield precision, proto


def ship(student: Student, proto: Any, folder: Path, card: str) -> None:  # noqa: ANN401 - an onnx.ModelProto
    """Write the folder of a model with its graph, its card and checksums."""
    write_model_files(student, folder, card)
    save_graph(proto, folder / GRAPH)
    write_sums(folder, but=(CARD,))


def folder_bytes(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
