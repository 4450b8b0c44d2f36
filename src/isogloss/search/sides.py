"""The two sides of a search: their vectors as given, and coarse copies for the product.

The product uses whatever precision is fast; only what it cannot rule out is computed again from the vectors (`blockwise`).
To be exact, the error of the product must be bounded; to be fast, the bound must be small. Sentence vectors share a common
direction that would use up most of the bits, so each side's mean is subtracted. With x = m + x′ and y = n + y′

    x·y − m·n  =  x′·y′ + x′·n + m·y′

The last two terms are one number per row: they are extra columns, split in two for precision, opposite columns of ones. With
x̃ the coarse copy of x′, the remaining error is

    |x′·y′ − x̃·ỹ|  ≤  |x′|·‖y′ − ỹ‖ + |ỹ|·‖x′ − x̃‖  +  rounding while adding up  +  rounding of the result

where the distances are measured here, row by row. `blockwise` searches with these copies.
"""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isogloss.errors import DataError
from isogloss.search.neighbors import Vectors

AT_ONCE = 8192  # rows prepared together
GROUP = 32  # coarse copies have a multiple of this number of rows (see `blockwise`)
EXTRA = 4  # columns: two for this side's number, and two of ones opposite the other side's
SINGLE = torch.finfo(torch.float32).eps  # floors and exact cosines are kept in single precision, too
WIDTHS = 8  # tensor cores need rows of a multiple of this


@dataclass(slots=True, eq=False)
class Side:
    """One side of a search; `coarse` is padded with rows of zeros to a whole number of groups."""

    raw: Tensor
    scale: Tensor  # factor of each row: 1 / length in double precision; 0 for a zero vector
    mean: Tensor
    coarse: Tensor
    length: float = 0.0  # of the longest row after subtracting the mean
    off: float = 0.0  # largest distance of a coarse row from its exact row
    number: float = 0.0  # largest of the numbers in the extra columns
    number_off: float = 0.0  # largest error of those

    def __len__(self) -> int:
        return len(self.raw)

    def chunks(self) -> Iterator[tuple[slice, Tensor]]:
        """The vectors in double precision, scaled, in blocks of rows."""
        for start in range(0, len(self.raw), AT_ONCE):
            rows = slice(start, min(start + AT_ONCE, len(self.raw)))
            yield rows, self.raw[rows].double() * self.scale[rows, None]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both sides; a coarse product is within `error` of the exact one minus `constant`."""

    left: Side
    right: Side
    constant: float
    error: float


@contextmanager
def prepare_sides(
    left: Vectors, right: Vectors, device: str, dtype: torch.dtype, normalize: bool, room: int
) -> Iterator[Sides]:
    """Prepare both sides. Coarse copies of more than `room` bytes are in temporary files instead of memory."""
    with ExitStack() as stack:
        one, other = _side(left, normalize, "left", device), _side(right, normalize, "right", device)
        for side in (one, other):
            width = -(-(side.raw.shape[1] + EXTRA) // WIDTHS) * WIDTHS
            side.coarse = stack.enter_context(_zeros(-(-len(side) // GROUP) * GROUP, width, device, dtype, room))
        _fill(one, other, 0)
        _fill(other, one, 2)
        longest = (one.length + one.off) * (other.length + other.off) + one.number + other.number
        copies = one.length * other.off + (other.length + other.off) * one.off + one.number_off + other.number_off
        # Products of float16 are exact in float32; they are summed in float32, in any order.
        adding = (one.coarse.shape[1] + 8) * SINGLE
        whole = (one.length + float(one.mean.norm())) * (other.length + float(other.mean.norm()))
        error = 1.01 * (copies + longest * (adding + torch.finfo(dtype).eps / 2)) + 4 * SINGLE * whole
        yield Sides(one, other, float(one.mean @ other.mean), error)


def without_copies(left: Vectors, right: Vectors, normalize: bool) -> Sides:
    """Both sides without coarse copies, for searches with an index of their own."""
    return Sides(_side(left, normalize, "left"), _side(right, normalize, "right"), 0.0, 0.0)


def _side(vectors: Vectors, normalize: bool, name: str, device: str = "cpu") -> Side:
    """A side with its scale and mean, without a coarse copy."""
    with warnings.catch_warnings():  # a read-only mapping is only read here
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        raw = torch.from_numpy(np.asarray(vectors)).to(device)
    scale, mean = (torch.zeros(size, dtype=torch.float64, device=device) for size in raw.shape)
    side = Side(raw, scale + 1, mean, torch.zeros(1, 1).expand(len(raw), 1))
    for rows, chunk in side.chunks():
        norms = torch.linalg.vector_norm(chunk, dim=1)
        if not torch.isfinite(norms).all():
            bad = rows.start + int((~torch.isfinite(norms)).nonzero()[0])
            raise DataError(f"the {name} vector in row {bad} is not finite", hint="embed that sentence again, or leave it out")
        if normalize:
            side.scale[rows] = torch.where(norms > 0, 1 / norms, 0)
        side.mean += (chunk * side.scale[rows, None]).sum(0)
    side.mean /= len(side)
    return side


def _fill(side: Side, other: Side, place: int) -> None:
    """Write the coarse copy: the rows without their mean, and from `place` on the further columns of this side."""
    width, dtype = side.raw.shape[1], side.coarse.dtype
    for rows, chunk in side.chunks():
        chunk -= side.mean
        number = chunk @ other.mean
        first = number.to(dtype)
        second = (number - first.double()).to(dtype)
        half, copy = chunk.to(dtype), side.coarse[rows]
        copy[:, :width] = half
        copy[:, width : width + EXTRA] = 1
        copy[:, width + place], copy[:, width + place + 1] = first, second
        side.length = max(side.length, float(torch.linalg.vector_norm(chunk, dim=1).max()))
        side.off = max(side.off, float(torch.linalg.vector_norm(chunk - half.double(), dim=1).max()))
        side.number = max(side.number, float(number.abs().max()))
        side.number_off = max(side.number_off, float((number - first.double() - second.double()).abs().max()))


@contextmanager
def _zeros(rows: int, width: int, device: str, dtype: torch.dtype, room: int) -> Iterator[Tensor]:
    """Zeros: in memory, or in a temporary file."""
    if device != "cpu" or rows * width * dtype.itemsize <= room:
        yield torch.zeros(rows, width, dtype=dtype, device=device)
        return
    with tempfile.TemporaryDirectory(prefix="isogloss-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "coarse"
        yield torch.from_file(str(file), shared=True, size=rows * width, dtype=dtype).view(rows, width)
