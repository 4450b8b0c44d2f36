"""Exact cosines of the few candidates that the coarse product could not rule out.

    cos(x, y) = Σ x_i y_i / (|x| |y|)          in double precision, from the vectors as they were given, rounded once

So the result does not depend on the device, the precision of the product, the block size, or the number of threads. `Best`
keeps the k best of every sentence; `shortlisted` drops candidates that cannot be among them. Both work on flat lists of
(owner, other, value), on any device.
"""

import torch
from torch import Tensor

from isogloss.search.sides import Side

EXACT_AT_ONCE = {"cpu": 512, "cuda": 1 << 18}  # pairs; on a CPU what stays in its cache
NO_ID = -1


class Best:
    """The k nearest of every sentence of one side so far: nearest first, ties in order of rows."""

    def __init__(self, owners: int, k: int, device: str) -> None:
        self.ids = torch.full((owners, k), NO_ID, dtype=torch.int64, device=device)
        self.similarity = torch.full((owners, k), -torch.inf, dtype=torch.float32, device=device)

    @property
    def last(self) -> Tensor:
        """The cosine of the k-th; −∞ if there are fewer yet."""
        return self.similarity[:, -1]

    def merge(self, owner: Tensor, other: Tensor, similarity: Tensor) -> None:
        """Merge candidates with exact cosines; `owner` ascends. Known ones change nothing."""
        owners, place = torch.unique_consecutive(owner, return_inverse=True)
        k = self.ids.shape[1]
        own = torch.arange(len(owners), device=owner.device)
        place = torch.cat([own.repeat_interleave(k), place])
        other = torch.cat([self.ids[owners].flatten(), other])
        similarity = torch.cat([self.similarity[owners].flatten(), similarity])
        order = torch.sort(other, stable=True).indices
        order = order[torch.sort(_keys(place[order], similarity[order]), stable=True).indices]
        place, other, similarity = place[order], other[order], similarity[order]
        fresh = torch.ones_like(place, dtype=torch.bool)
        fresh[1:] = (place[1:] != place[:-1]) | (other[1:] != other[:-1])
        place, other, similarity = place[fresh], other[fresh], similarity[fresh]
        rank = torch.arange(len(place), device=place.device) - _starts(torch.bincount(place, minlength=len(owners)))[place]
        kept = rank < k
        place, rank = place[kept], rank[kept]
        ids = torch.full((len(owners), k), NO_ID, dtype=torch.int64, device=owner.device)
        values = torch.full((len(owners), k), -torch.inf, dtype=torch.float32, device=owner.device)
        ids[place, rank], values[place, rank] = other[kept], similarity[kept]
        self.ids[owners], self.similarity[owners] = ids, values


def shortlisted(owner: Tensor, other: Tensor, rough: Tensor, k: int, slack: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Candidates within `slack` of their owner's k-th, in order of owners, and the bound of each."""
    order = torch.sort(_keys(owner, rough)).indices
    owner, other, rough = owner[order], other[order], rough[order]
    _, place, counts = torch.unique_consecutive(owner, return_inverse=True, return_counts=True)
    last = _starts(counts) + (k - 1)
    least = torch.where(counts >= k, rough[last.clamp(max=max(len(rough) - 1, 0))] - slack, -torch.inf)[place]
    kept = rough >= least
    return owner[kept], other[kept], rough[kept], least[kept]


def cosines(left: Side, right: Side, rows: Tensor, columns: Tensor) -> Tensor:
    """The exact cosine of each pair of rows."""
    at_once = EXACT_AT_ONCE[rows.device.type]
    found = torch.empty(len(rows), dtype=torch.float32, device=rows.device)
    for start in range(0, len(rows), at_once):
        one, other = rows[start : start + at_once], columns[start : start + at_once]
        products = torch.linalg.vecdot(_doubles(left.raw, one), _doubles(right.raw, other))
        found[start : start + at_once] = products * (left.scale.index_select(0, one) * right.scale.index_select(0, other))
    return found


def _doubles(raw: Tensor, rows: Tensor) -> Tensor:
    """Rows in double precision. float16 goes through float32, which is exact and much faster."""
    some = raw.index_select(0, rows)
    return (some.float() if some.dtype == torch.float16 else some).double()


def _keys(owner: Tensor, value: Tensor) -> Tensor:
    """Keys that sort by owner, then by value, the largest first: one sort instead of two."""
    bits = (value + 0.0).view(torch.int32)  # + 0: −0 is 0
    ascending = torch.where(bits >= 0, bits, bits ^ 0x7FFF_FFFF).long()
    return owner * 2**32 - ascending


def _starts(counts: Tensor) -> Tensor:
    return torch.cumsum(counts, 0) - counts
