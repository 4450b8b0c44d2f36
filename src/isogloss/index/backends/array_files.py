"""Indexes that are one array on disk: `.npy`, and a tensor in `.safetensors`. Rows are read as they are searched."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from isogloss.amounts import listed
from isogloss.errors import DataError
from isogloss.index.address import Address
from isogloss.index.backends.file_index import FileIndex, stacked
from isogloss.index.build_record import read_record
from isogloss.index.exact_search import BLOCK
from isogloss.index.row_labels import OPTIONS, labels_of
from isogloss.types import FloatArray

Read = Callable[[slice], FloatArray]
MISSING = "isogloss index build makes one of your documents"
AGAIN = "write it again, or copy it again"


class ArrayVectors:
    """The rows of one array."""

    def __init__(self, shape: tuple[int, int], read: Read) -> None:
        self.shape, self._read = shape, read

    def blocks(self) -> Iterator[tuple[int, FloatArray]]:
        """All rows in blocks."""
        for start in range(0, self.shape[0], BLOCK):
            yield start, self._read(slice(start, start + BLOCK))

    def at(self, rows: Sequence[int]) -> FloatArray:
        """Some rows."""
        return stacked([self._read(slice(row, row + 1)) for row in rows], self.shape[1])


def open_array(address: Address) -> FileIndex:
    """A .npy file with one vector per row."""
    address.refuse_other_options(("metric", *OPTIONS))
    try:
        array = np.load(address.path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise DataError(f"{address.shown}: no such file", hint=MISSING) from error
    except (ValueError, EOFError) as error:
        raise DataError(f"{address.shown}: not a readable .npy file ({str(error)[:80]})", hint=AGAIN) from error
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind != "f":
        found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else "an archive of arrays"
        raise DataError(f"{address.shown}: holds {found}", hint="an index has one vector of floats per row")
    return _with_labels(address, ArrayVectors(array.shape, lambda rows: array[rows]))


def open_tensor(address: Address) -> FileIndex:
    """A .safetensors file with one tensor of two dimensions, or several of which `?tensor=NAME` names one."""
    from safetensors import SafetensorError, safe_open

    address.refuse_other_options(("metric", "tensor", *OPTIONS))
    try:
        stored: Any = safe_open(address.path, framework="pt")  # torch knows bfloat16
        shapes = {name: tuple(stored.get_slice(name).get_shape()) for name in stored.keys()}  # noqa: SIM118 - not a dict
    except FileNotFoundError as error:
        raise DataError(f"{address.shown}: no such file", hint=MISSING) from error
    except SafetensorError as error:
        raise DataError(f"{address.shown}: not a readable .safetensors file ({str(error)[:80]})", hint=AGAIN) from error
    name = _tensor_of(address, shapes)
    tensor = stored.get_slice(name)
    if tensor.get_dtype() not in ("F64", "F32", "F16", "BF16"):
        raise DataError(f"{address.shown}: the tensor {name!r} holds {tensor.get_dtype()}", hint="vectors are floats")
    return _with_labels(address, ArrayVectors(shapes[name], lambda rows: tensor[rows].float().numpy()))


def _tensor_of(address: Address, shapes: dict[str, tuple[int, ...]]) -> str:
    """The name of the tensor that holds the vectors."""
    tables = [name for name, shape in shapes.items() if len(shape) == 2]
    named = address.option("tensor")
    if named in tables or (not named and len(tables) == 1):
        return named or tables[0]
    found = listed([f"{name} {list(shape)}" for name, shape in shapes.items()][:20]) or "none"
    if named:
        raise DataError(f"{address.shown}: there is no tensor {named!r} with one vector per row", hint=f"available: {found}")
    raise DataError(
        f"{address.shown}: expected one tensor with one vector per row, found {found}", hint="name it: ?tensor=NAME"
    )


def _with_labels(address: Address, vectors: ArrayVectors) -> FileIndex:
    return FileIndex(address, vectors, labels_of(address, vectors.shape[0]), read_record(address.path))
