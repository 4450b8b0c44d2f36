"""The best token table for given sentence embeddings, in closed form: embeddings of a static model are linear in its table.

    E = E₀ + argmin_D Σ_i ‖ 1/n_i · Σ_t (E₀ + D)[t] − y_i ‖² + λ ‖D‖²        y_i: the wanted embedding of sentence i

E₀ is where the table starts; λ keeps rows there of which the text says little, and rows that it lacks do not move. With X, the
shares of the tokens of each sentence, D solves (XᵀX + λI) D = Xᵀ(Y − X E₀), a conjugate gradient for all columns at once. λ is
chosen by the error on sentences that were left out. The same input always gives the same table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isogloss.progress import OnProgress, Step, silent
from isogloss.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

STRENGTHS = (0.01, 0.03, 0.1, 0.3, 1.0)
LEFT_OUT = 10  # one group of sentences in so many chooses λ
MOST_STEPS, SMALL_ENOUGH = 60, 1e-3  # of the conjugate gradient, and its residual, relative to the first


@dataclass(frozen=True, slots=True, eq=False)
class TableFit:
    """A solved table, λ, and the mean squared error of each λ on the sentences that were left out."""

    table: FloatArray
    strength: float
    errors: dict[float, float]


def fit_table(
    start: FloatArray,
    ids: IntArray,
    lengths: IntArray,
    wanted: FloatArray,
    groups: IntArray,
    strengths: Sequence[float] = STRENGTHS,
    on_progress: OnProgress = silent,
) -> TableFit:
    """Solve a table: sentence i has `lengths[i]` of the `ids`, which stand end to end, and wants the embedding `wanted[i]`.

    Sentences of one group (translations of each other) are left out together.
    """
    used, columns = np.unique(ids, return_inverse=True)
    shares = _shares(columns, lengths, len(used))
    rest = wanted - shares @ start[used]
    out: BoolArray = groups % LEFT_OUT == 0
    errors: dict[float, float] = {}
    if len(strengths) > 1 and 0 < out.sum() < len(out):
        seen = ~out
        for done, strength in enumerate(strengths):
            moved = _solve(shares[seen], rest[seen], strength)
            errors[strength] = float(np.square(rest[out] - shares[out] @ moved).sum(1).mean())
            on_progress(Step("token table, fitted", done + 1, len(strengths) + 1, "solutions"))
    best = min(errors, key=lambda strength: errors[strength]) if errors else strengths[len(strengths) // 2]
    table = start.copy()
    table[used] += _solve(shares, rest, best)
    on_progress(Step("token table, fitted", len(strengths) + 1, len(strengths) + 1, "solutions"))
    return TableFit(table, best, errors)


def _shares(columns: IntArray, lengths: IntArray, width: int) -> "csr_array":
    """Row i has the share of each token in sentence i; tokens that occur twice are added up."""
    from scipy.sparse import csr_array

    values = np.repeat(1 / np.maximum(lengths, 1), lengths).astype(np.float32)
    shares = csr_array((values, columns, np.concatenate([[0], np.cumsum(lengths)])), shape=(len(lengths), width))
    shares.sum_duplicates()
    return shares


def _solve(shares: "csr_array", rest: FloatArray, strength: float) -> FloatArray:
    """Conjugate gradients on (XᵀX + λI) D = Xᵀ R, each column by itself."""
    transposed = shares.T.tocsr()
    residual: FloatArray = transposed @ rest
    solved, direction = np.zeros_like(residual), residual.copy()
    squares = _squares(residual)
    enough = SMALL_ENOUGH**2 * squares
    for _step in range(MOST_STEPS):
        if (squares <= enough).all():
            break
        image = transposed @ (shares @ direction) + np.float32(strength) * direction
        along = np.einsum("rd,rd->d", direction, image, dtype=np.float64)
        length = np.where(along > 0, squares / np.where(along > 0, along, 1), 0).astype(np.float32)
        solved += length * direction
        residual -= length * image
        before, squares = squares, _squares(residual)
        direction = residual + np.where(before > 0, squares / np.where(before > 0, before, 1), 0).astype(np.float32) * direction
    return solved


def _squares(values: FloatArray) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.einsum("rd,rd->d", values, values, dtype=np.float64)
    return found
