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
from typing import NamedTuple

import torch
from torch import Tensor

from isogloss.errors import IsoglossError
from isogloss.search.neighbors import Neighbors
from isogloss.search.sides import GROUP, Side, Sides

BYTES_LISTED = 96  # what a candidate on a list takes, with the room for sorting it
FEWEST_LISTED = 2**14
SETTLED_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 24}  # candidates; merging them takes several times their size
EXACT_AT_ONCE = {"cpu": 512, "cuda": 1 << 18}  # pairs; on a CPU what stays in its cache
LOWEST = torch.finfo(torch.float32).min
NO_ID = -1

Candidates = tuple[Tensor, Tensor, Tensor]  # owner, other and coarse cosine of each


class Block(NamedTuple):
    """Coarse products of some rows and columns, padded with −∞ to whole groups, and the share of the stripe done with them."""

    products: Tensor
    rows: Tensor
    columns: Tensor
    done: float


class Best:
    """The k nearest of every sentence of one side so far: nearest first, ties in order of rows."""

    def __init__(self, owners: int, k: int, device: str) -> None:
        self.ids = torch.full((owners, k), NO_ID, dtype=torch.int64, device=device)
        self.similarity = torch.full((owners, k), -torch.inf, dtype=torch.float32, device=device)

    def merge(self, owner: Tensor, other: Tensor, similarity: Tensor) -> None:
        """Merge candidates with exact cosines; `owner` ascends. Known ones change nothing."""
        owners, k = torch.unique_consecutive(owner), self.ids.shape[1]
        owner = torch.cat([owners.repeat_interleave(k), owner])
        other = torch.cat([self.ids[owners].flatten(), other])
        similarity = torch.cat([self.similarity[owners].flatten(), similarity])
        order = torch.sort(other, stable=True).indices
        order = order[torch.sort(_keys(owner[order], similarity[order]), stable=True).indices]
        owner, other, similarity = owner[order], other[order], similarity[order]
        fresh = torch.ones_like(owner, dtype=torch.bool)
        fresh[1:] = (owner[1:] != owner[:-1]) | (other[1:] != other[:-1])
        owner, other, similarity = owner[fresh], other[fresh], similarity[fresh]
        _, place, counts = torch.unique_consecutive(owner, return_inverse=True, return_counts=True)
        rank = torch.arange(len(owner), device=owner.device) - _starts(counts)[place]
        kept = rank < k  # places beyond the last candidate have no neighbor yet, as before
        self.ids[owner[kept], rank[kept]] = other[kept]
        self.similarity[owner[kept], rank[kept]] = similarity[kept]


class Direction:
    """The neighbors of one side: the best so far, and the floor below which nothing can be among them."""

    def __init__(self, owners: Side, others: Side, k: int, constant: float, error: float) -> None:
        self.owners, self.others, self.constant, self.error = owners, others, constant, error
        self.k = min(k, len(others))
        self.best = Best(len(owners), self.k, owners.raw.device.type)
        self.floor = torch.full((len(owners),), LOWEST, device=owners.raw.device)
        self.lock = threading.Lock()

    def candidates(self, block: Tensor, owners: Tensor, others: Tensor, axis: int) -> Candidates:
        """Entries of a block of products that reach their owner's floor.

        Owners are along `axis` of the block; its padding is −∞. Owners without a floor get one from this block.
        """
        floor = torch.full((block.shape[axis],), torch.inf, device=block.device)
        floor[: len(owners)] = self.floor[owners]
        groups = _groups(block, axis)
        if len(others) >= self.k and float(floor.min()) == LOWEST:
            maxima = groups.amax(1 - axis)
            greatest = (maxima if maxima.shape[1 - axis] >= self.k else block).topk(self.k, dim=1 - axis).values
            least = (greatest.select(1 - axis, -1).float() - 2 * self.error).clamp(min=LOWEST)
            floor = torch.where(floor == LOWEST, least, floor)
            self.floor[owners] = torch.maximum(self.floor[owners], floor[: len(owners)])
        near = (comparable(groups).amax(1 - axis) >= _comparable_floor(floor, block).unsqueeze(1 - axis)).nonzero(as_tuple=True)
        owner, group = near[axis], near[1 - axis]
        members = (groups[owner, :, group] if axis == 0 else groups[:, group, owner].T).float()
        hit, place = (members >= floor[owner, None]).nonzero(as_tuple=True)
        return owners[owner[hit]], others[place * groups.shape[2 - axis] + group[hit]], members[hit, place]

    def merge(self, owner: Tensor, other: Tensor, rough: Tensor) -> None:
        """Compute the exact cosines of candidates, and keep the best. Owners ascend."""
        exact = cosines(self.owners, self.others, owner, other)
        if float((exact.double() - self.constant - rough).abs().max()) > self.error:
            raise IsoglossError(
                f"products in {self.owners.coarse.dtype} are less exact here than they should be",
                hint='set precision="float32"',
            )
        with self.lock:
            self.best.merge(owner, other, exact)
            self.raise_floor(owner)

    def raise_floor(self, owner: "Tensor | slice") -> None:
        """Raise the floors to the exact cosines."""
        self.floor[owner] = torch.maximum(self.floor[owner], self.best.similarity[owner, -1] - self.constant - self.error)


class CandidateList:
    """Candidates of one direction whose exact cosines are not computed yet.

    When the list is twice as long as after it was last pruned, and longer than `prune_above`, it is pruned again; if it is
    still longer than `limit`, the exact cosines are computed.
    """

    def __init__(self, direction: Direction, prune_above: int, limit: int) -> None:
        self.direction, self.prune_above, self.limit = direction, prune_above, limit
        self.parts: list[Candidates] = []
        self.length, self._prune_next = 0, prune_above

    def add(self, candidates: Candidates) -> None:
        """Add candidates, and shorten the list if it is too long."""
        if len(candidates[0]):
            self.parts.append(candidates)
            self.length += len(candidates[0])
        if self.length > self._prune_next:
            self.prune()
            self._prune_next = max(2 * self.length, self.prune_above)
        if self.length > self.limit:
            self.settle()

    def prune(self) -> None:
        """Drop candidates that cannot be among the best any more, and raise the floors."""
        owner, other, rough, least = shortlisted(*self._take(), self.direction.k, 2 * self.direction.error)
        floor = self.direction.floor
        floor[owner] = torch.maximum(floor[owner], least)
        self.parts, self.length = [(owner, other, rough)], len(owner)

    def settle(self) -> None:
        """Empty the list: compute the exact cosines of its candidates, and keep the best."""
        if not self.length:
            return
        owner, other, rough, _ = shortlisted(*self._take(), self.direction.k, 2 * self.direction.error)
        worth = rough >= self.direction.floor[owner]  # another thread may have raised them
        owner, other, rough = owner[worth], other[worth], rough[worth]
        for some in _by_owner(owner, SETTLED_AT_ONCE[owner.device.type]):
            self.direction.merge(owner[some], other[some], rough[some])

    def _take(self) -> Candidates:
        owner, other, rough = (torch.cat(column) for column in zip(*self.parts, strict=True))
        self.parts, self.length = [], 0
        return owner, other, rough


class Search(ABC):
    """A search of both directions, in stripes that may be done in any order by several threads."""

    stripes: int
    sentences: int  # that have neighbors when all stripes are done

    def __init__(self, sides: Sides, k: int) -> None:
        self.of_left = Direction(sides.left, sides.right, k, sides.constant, sides.error)
        self.of_right = Direction(sides.right, sides.left, k, sides.constant, sides.error)
        self.stopped = threading.Event()

    @abstractmethod
    def stripe(self, number: int, advanced: Callable[[float], None]) -> bool:
        """Search one stripe, reporting the share that is done; False if it was stopped."""

    def found(self) -> tuple[Neighbors, Neighbors]:
        """The neighbors so far, of the left and of the right."""
        with self.of_left.lock, self.of_right.lock:
            left, right = (
                Neighbors(best.ids.cpu().numpy().copy(), best.similarity.cpu().numpy().copy())
                for best in (self.of_left.best, self.of_right.best)
            )
        return left, right

    def resume(self, found: tuple[Neighbors, Neighbors]) -> None:
        """Start from what was found before."""
        for direction, side in zip((self.of_left, self.of_right), found, strict=True):
            direction.best.ids.copy_(torch.from_numpy(side.ids))
            direction.best.similarity.copy_(torch.from_numpy(side.similarity))
            direction.raise_floor(slice(0, len(side)))


class BlockSearch(Search):
    """A search by blocks of coarse products, whose entries are candidates of both directions."""

    @abstractmethod
    def lists(self, number: int) -> list[CandidateList]:
        """Empty lists for a stripe: of the rows of its blocks, and of their columns if those are searched, too."""

    @abstractmethod
    def blocks(self, number: int) -> Iterator[Block]:
        """The blocks of a stripe."""

    def stripe(self, number: int, advanced: Callable[[float], None]) -> bool:
        """Find candidates block by block, and the exact cosines of those that remain."""
        lists = self.lists(number)
        for block in self.blocks(number):
            if self.stopped.is_set():
                return False
            ids = block.rows, block.columns
            for axis, candidates in enumerate(lists):
                candidates.add(candidates.direction.candidates(block.products, ids[axis], ids[1 - axis], axis))
            advanced(block.done)
        for candidates in lists:
            candidates.settle()
        advanced(1.0)
        return True


class ExactSearch(BlockSearch):
    """The exact search: a stripe is some rows of the left with all of the right."""

    def __init__(self, sides: Sides, k: int, shape: tuple[int, int], both: bool, room: int) -> None:
        super().__init__(sides, k)
        self.left, self.right = sides.left, sides.right
        self.both, self.limit = both, most_listed(room)
        self.rows, self.columns = shape
        self.stripes, self.sentences = -(-len(self.left) // self.rows), len(self.left)

    def lists(self, number: int) -> list[CandidateList]:
        """A row is in all blocks, so its candidates are pruned early; a column is in one."""
        lists = [CandidateList(self.of_left, 0, self.limit), CandidateList(self.of_right, self.limit, self.limit)]
        return lists if self.both else lists[:1]

    def blocks(self, number: int) -> Iterator[Block]:
        """Some rows with some columns at a time; padding is −∞."""
        first, device = number * self.rows, self.left.raw.device
        coarse = self.left.coarse[first : first + self.rows]
        space = torch.empty(len(coarse) * self.columns, dtype=coarse.dtype, device=device)
        rows = torch.arange(first, min(first + self.rows, len(self.left)), device=device)
        for start in range(0, len(self.right), self.columns):
            others = self.right.coarse[start : start + self.columns]
            columns = torch.arange(start, min(start + self.columns, len(self.right)), device=device)
            products = torch.mm(coarse, others.T, out=space[: len(coarse) * len(others)].view(len(coarse), len(others)))
            yield padded(products, rows, columns, (start + len(columns)) / len(self.right))


def most_listed(room: int) -> int:
    """How many candidates fit on a list that may take this many bytes."""
    return max(room // BYTES_LISTED, FEWEST_LISTED)


def padded(products: Tensor, rows: Tensor, columns: Tensor, done: float) -> Block:
    """A block of products that has more rows and columns than there are sentences: the others are set to −∞."""
    products[len(rows) :] = -torch.inf
    products[:, len(columns) :] = -torch.inf
    return Block(products, rows, columns, done)


def _by_owner(owner: Tensor, at_once: int) -> Iterator[slice]:
    """Candidates in parts of about `at_once`, none of which divides those of one owner; owners ascend."""
    start = 0
    while start < len(owner):
        last = owner[min(start + at_once, len(owner)) - 1]
        end = int(torch.searchsorted(owner, last, right=True))
        yield slice(start, end)
        start = end


def _groups(block: Tensor, axis: int) -> Tensor:
    """A block with its rows (axis 0) or columns (axis 1) cut into groups of every n-th entry: memory is read in order."""
    return block.view(len(block), GROUP, -1) if axis == 0 else block.view(GROUP, -1, block.shape[1])


def comparable(products: Tensor) -> Tensor:
    """Products in a form that is quick to compare.

    The bits of positive bfloat16 numbers sort like integers, which a CPU compares several times faster. Those of negative ones
    do not, but all come before zero.
    """
    return products.view(torch.int16) if products.dtype == torch.bfloat16 and products.device.type == "cpu" else products


def _comparable_floor(floor: Tensor, products: Tensor) -> Tensor:
    """Floors to compare such products with: never higher, and below everything if not positive."""
    if comparable(products) is products:
        return floor
    return torch.where(floor > 0, floor.view(torch.int32) >> 16, torch.iinfo(torch.int16).min).to(torch.int16)


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
