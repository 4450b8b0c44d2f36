"""The exact search, block by block: one matrix product gives the candidates of both directions.

A block of the coarse product (`sides`) is cut into groups of `GROUP` entries, along rows and along columns, and only the
maximum of each group is computed. That gives two things almost for free:

    a floor       the k-th largest group maximum of a row is at most its k-th largest entry, so anything lower than that by
                  more than twice the error of the product is not among the row's k nearest
    a shortcut    groups whose maximum is below the floor are skipped; entries of the others go on a list

Floors rise quickly, so lists stay short: a few dozen entries per sentence. They are pruned as they grow (`shortlisted`), and
the cosines of the rest are computed in double precision from the vectors as they were given, and rounded once. So the result
does not depend on the device, the precision of the product, the block size, or the number of threads. If candidates are closer
together than the error, the list is longer, but never wrong.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from isogloss.errors import IsoglossError
from isogloss.search.neighbours import Neighbours
from isogloss.search.sides import GROUP, Side, Sides

BYTES_LISTED = 96  # what a candidate on a list takes, with the room for sorting it
FEWEST_LISTED = 2**14
SETTLED_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 24}  # candidates; merging them takes several times their size
EXACT_AT_ONCE = {"cpu": 512, "cuda": 1 << 18}  # pairs; on a CPU what stays in its cache
LOWEST = torch.finfo(torch.float32).min
NO_ID = -1


class Best:
    """The k nearest of every sentence of one side so far: nearest first, ties in order of rows."""

    def __init__(self, owners: int, k: int, device: str) -> None:
        self.ids = torch.full((owners, k), NO_ID, dtype=torch.int64, device=device)
        self.similarity = torch.full((owners, k), -torch.inf, dtype=torch.float32, device=device)

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


@dataclass(slots=True, eq=False)
class CandidateList:
    """Candidates of one direction without exact cosines yet: flat columns of owner, other and coarse cosine."""

    parts: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)
    length: int = 0

    def add(self, owner: Tensor, other: Tensor, rough: Tensor) -> None:
        """Add candidates."""
        if len(owner):
            self.parts.append((owner, other, rough))
            self.length += len(owner)

    def take(self) -> tuple[Tensor, Tensor, Tensor]:
        """Remove and return all of them."""
        owner, other, rough = (torch.cat(column) for column in zip(*self.parts, strict=True))
        self.parts, self.length = [], 0
        return owner, other, rough


class Direction:
    """The neighbours of one side: the best so far, and the floor below which nothing can be among them."""

    def __init__(self, owners: Side, others: Side, k: int, constant: float, error: float) -> None:
        self.owners, self.others, self.constant, self.error = owners, others, constant, error
        self.k = min(k, len(others))
        self.best = Best(len(owners), self.k, owners.raw.device.type)
        # Padding rows of the last block have no neighbours: nothing reaches their floor.
        self.floor = torch.full((len(owners.coarse),), torch.inf, device=owners.raw.device)
        self.floor[: len(owners)] = LOWEST
        self.lock = threading.Lock()

    def raise_floor(self, start: int, maxima: Tensor, entries: Tensor) -> None:
        """Set the floor from the k-th largest group maximum of the first block (owners × groups)."""
        of = maxima if maxima.shape[1] >= self.k else entries
        if of.shape[1] >= self.k:
            floor = self.floor[start : start + len(of)]
            torch.maximum(floor, of.topk(self.k, dim=1).values[:, -1].float() - 2 * self.error, out=floor)

    def thin(self, waiting: CandidateList) -> None:
        """Drop candidates that cannot be among the best any more, and raise the floors."""
        if not waiting.length:
            return
        owner, other, rough, least = shortlisted(*waiting.take(), self.k, 2 * self.error)
        self.floor[owner] = torch.maximum(self.floor[owner], least)
        waiting.add(owner, other, rough)

    def settle(self, waiting: CandidateList) -> None:
        """Compute the exact cosines of the list, and keep the best."""
        if not waiting.length:
            return
        owner, other, rough, _ = shortlisted(*waiting.take(), self.k, 2 * self.error)
        worth = rough >= self.floor[owner]  # another thread may have raised them
        owner, other, rough = owner[worth], other[worth], rough[worth]
        for some in _by_owner(owner, SETTLED_AT_ONCE[owner.device.type]):
            self._settle(owner[some], other[some], rough[some])

    def _settle(self, owner: Tensor, other: Tensor, rough: Tensor) -> None:
        exact = cosines(self.owners, self.others, owner, other)
        if float((exact.double() - self.constant - rough).abs().max()) > self.error:
            raise IsoglossError(
                f"products in {self.owners.coarse.dtype} are less exact here than they should be",
                hint='set precision="float32"',
            )
        with self.lock:
            self.best.merge(owner, other, exact)
            self.remember(owner)

    def remember(self, owner: "Tensor | slice") -> None:
        """Raise the floors to the exact cosines."""
        self.floor[owner] = torch.maximum(self.floor[owner], self.best.similarity[owner, -1] - self.constant - self.error)


class Search(ABC):
    """A search of both directions, in stripes that may be done in any order by several threads."""

    stripes: int
    sentences: int  # that have neighbours when all stripes are done

    def __init__(self, sides: Sides, k: int, room: int) -> None:
        self.left, self.right = sides.left, sides.right
        self.of_left = Direction(sides.left, sides.right, k, sides.constant, sides.error)
        self.of_right = Direction(sides.right, sides.left, k, sides.constant, sides.error)
        self.most_listed = max(room // BYTES_LISTED, FEWEST_LISTED)
        self.stopped = threading.Event()

    @abstractmethod
    def stripe(self, number: int, advanced: Callable[[float], None]) -> bool:
        """Search one stripe, reporting the share that is done; False if it was stopped."""

    def found(self) -> tuple[Neighbours, Neighbours]:
        """The neighbours so far, of the left and of the right."""
        with self.of_left.lock, self.of_right.lock:
            left, right = (
                Neighbours(best.ids.cpu().numpy().copy(), best.similarity.cpu().numpy().copy())
                for best in (self.of_left.best, self.of_right.best)
            )
        return left, right

    def resume(self, found: tuple[Neighbours, Neighbours]) -> None:
        """Start from what was found before."""
        for direction, side in zip((self.of_left, self.of_right), found, strict=True):
            direction.best.ids.copy_(torch.from_numpy(side.ids))
            direction.best.similarity.copy_(torch.from_numpy(side.similarity))
            direction.remember(slice(0, len(side)))


class ExactSearch(Search):
    """The exact search: a stripe is some rows of the left with all of the right."""

    def __init__(self, sides: Sides, k: int, shape: tuple[int, int], both: bool, room: int) -> None:
        super().__init__(sides, k, room)
        self.both = both
        self.rows, self.columns = shape
        self.stripes, self.sentences = -(-len(self.left) // self.rows), len(self.left)

    def stripe(self, number: int, advanced: Callable[[float], None]) -> bool:
        """Find the neighbours of some rows, and candidates for the columns."""
        first = number * self.rows
        coarse = self.left.coarse[first : first + self.rows]
        space = torch.empty(len(coarse) * self.columns, dtype=coarse.dtype, device=coarse.device)
        rows, columns = CandidateList(), CandidateList()
        look_again = 1
        for turn, start in enumerate(range(0, len(self.right), self.columns), 1):
            if self.stopped.is_set():
                return False
            block = self._product(coarse, first, start, space)
            self._list_rows(rows, block, first, start, new=turn == 1)
            if self.both:
                self._list_columns(columns, block, first, start)
            if turn == look_again or rows.length > self.most_listed:
                self.of_left.thin(rows)
                look_again = 2 * turn
            for direction, waiting in ((self.of_left, rows), (self.of_right, columns)):
                if waiting.length > self.most_listed:
                    direction.settle(waiting)
            advanced(min(start + self.columns, len(self.right)) / len(self.right))
        self.of_left.settle(rows)
        self.of_right.settle(columns)
        return True

    def _product(self, coarse: Tensor, first: int, start: int, space: Tensor) -> Tensor:
        """A block of coarse cosines; padding is −∞."""
        others = self.right.coarse[start : start + self.columns]
        block = space[: len(coarse) * len(others)].view(len(coarse), len(others))
        torch.mm(coarse, others.T, out=block)
        block[max(len(self.left) - first, 0) :] = -torch.inf
        block[:, max(len(self.right) - start, 0) :] = -torch.inf
        return block

    def _list_rows(self, waiting: CandidateList, block: Tensor, first: int, start: int, new: bool) -> None:
        groups = block.view(len(block), GROUP, -1)  # a group is every so many-th column: memory is read in order
        if new:
            self.of_left.raise_floor(first, groups.amax(1), block)
        floor = self.of_left.floor[first : first + len(block)]
        row, group = (group_maxima(groups, 1, floor).float() >= floor[:, None]).nonzero(as_tuple=True)
        entries = groups[row, :, group].float()
        hit, member = (entries >= floor[row][:, None]).nonzero(as_tuple=True)
        waiting.add(first + row[hit], start + member * groups.shape[2] + group[hit], entries[hit, member])

    def _list_columns(self, waiting: CandidateList, block: Tensor, first: int, start: int) -> None:
        groups = block.view(GROUP, -1, block.shape[1])
        floor = self.of_right.floor[start : start + block.shape[1]]
        if float(floor.min()) == LOWEST:
            self.of_right.raise_floor(start, groups.amax(0).T, block.T)
        group, column = (group_maxima(groups, 0, floor).float() >= floor).nonzero(as_tuple=True)
        entries = groups[:, group, column].float()
        member, hit = (entries >= floor[column]).nonzero(as_tuple=True)
        waiting.add(start + column[hit], first + member * groups.shape[1] + group[hit], entries[member, hit])


def _by_owner(owner: Tensor, at_once: int) -> Iterator[slice]:
    """Candidates in parts of about `at_once`, none of which divides those of one owner; owners ascend."""
    start = 0
    while start < len(owner):
        last = owner[min(start + at_once, len(owner)) - 1]
        end = int(torch.searchsorted(owner, last, right=True))
        yield slice(start, end)
        start = end


def group_maxima(groups: Tensor, dim: int, floor: Tensor) -> Tensor:
    """The maximum of each group, as far as it may reach the floor.

    The bits of positive bfloat16 numbers sort like integers, which a CPU compares several times faster. Those of negative ones
    do not, but all come before zero, which is enough if every floor is above it.
    """
    if groups.dtype == torch.bfloat16 and groups.device.type == "cpu" and float(floor.min()) > 0:
        return groups.view(torch.int16).amax(dim).view(torch.bfloat16)
    return groups.amax(dim)


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
