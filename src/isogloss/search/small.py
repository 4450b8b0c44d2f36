"""Exact search between small sets, where preparing the blockwise search takes longer than the matrix product itself.

One product in float32 finds candidates: everything that rounding may have put below the k-th. Their cosines are computed in
double precision from the vectors as given, as in the blockwise search, so both return the same neighbours.
"""

import numpy as np
import torch

from isogloss.search.neighbours import Neighbours, Vectors, no_neighbours, pair_cosines
from isogloss.types import FloatArray

MAX_PRODUCT = 2**24  # entries: 64 MiB
MAX_CANDIDATES = 32  # per neighbour; with more, vectors are so close together that centering them first is faster


def small_search(left: Vectors, right: Vectors, k: int, both: bool) -> tuple[Neighbours, Neighbours] | None:
    """Neighbours of the left and, with `both`, of the right; None if the blockwise search is better at it."""
    if not 0 < len(left) * len(right) <= MAX_PRODUCT:
        return None
    product = torch.mm(*(torch.from_numpy(one) for one in (_unit(left), _unit(right).T)))
    if not torch.isfinite(product).all():
        return None  # the blockwise search reports the row
    slack = 2 * (left.shape[1] + 8) * float(np.finfo(np.float32).eps)
    of_left = _best(product, left, right, k, slack)
    of_right = _best(product.T, right, left, k, slack) if both else no_neighbours(len(right))
    return (of_left, of_right) if of_left is not None and of_right is not None else None


def _unit(vectors: Vectors) -> FloatArray:
    rows = np.asarray(vectors, dtype=np.float64)
    lengths = np.sqrt(np.einsum("rd,rd->r", rows, rows))
    scaled: FloatArray = (rows / np.where(lengths > 0, lengths, 1)[:, None]).astype(np.float32)
    return scaled


def _best(product: torch.Tensor, owners: Vectors, others: Vectors, k: int, slack: float) -> Neighbours | None:
    k = min(k, product.shape[1])
    least = product.topk(k, dim=1).values[:, -1:] - slack
    rows, columns = (places.numpy() for places in (product >= least).nonzero(as_tuple=True))
    if len(rows) > MAX_CANDIDATES * k * len(product):
        return None
    similarity = pair_cosines(owners, others, rows, columns)
    order = np.lexsort((columns, -similarity, rows))
    first = np.searchsorted(rows, np.arange(len(product)))
    chosen = order[np.arange(len(rows)) - first[rows] < k].reshape(len(product), k)
    return Neighbours(columns[chosen], similarity[chosen])
