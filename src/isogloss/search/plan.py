"""Choose the kind of search from sizes, memory and the wanted recall, in one pure function.

    exact    compare all pairs, if that takes minutes at most
    cells    compare sentences in nearby cells, as matrix products (`cells`); needs coarse copies of both sides in memory
    hnsw     a graph over one side at a time (faiss): half the memory of cells, and any recall; slow to build
    ivf-pq   lists of short codes of one side at a time (faiss): a tenth of the memory, but less precise

Memory is beyond the vectors themselves, which are memory-mapped. A quarter of it is for products and lists, the rest for the
index.
"""

from dataclasses import dataclass

from isogloss.amounts import amount, duration
from isogloss.errors import DataError

PATIENCE = 120.0  # seconds that an exact search may take, estimated
CPU_RATE, CUDA_RATE = 6e10, 2e14  # operations per second, of a thread and of a GPU: a rough estimate
CELLS_PER_ROOT, LISTS_PER_ROOT = 2.5, 4  # per square root of the number of sentences
MOST_CELLS = 32_000  # numbered in 16 bits
EXTRA_COLUMNS, WIDTHS = 4, 8  # of coarse copies (`sides`)
PROBE_BYTES = 2  # the number of a cell
PROBES = 96  # cells that a sentence probes, at most, on average
SENTENCE_BYTES = 26  # its cell, its place among the others, and where its probes begin
LINKS = 32  # of a sentence in the graph; twice as many at the bottom
GRAPH_RECALL = 0.99  # from here on codes have to be ranked again by the hundred
CODE_WIDTHS = (2, 4, 8, 16)  # numbers that share four bits of a code
REFINED = 8  # candidates for each neighbor, ranked again exactly


@dataclass(frozen=True, slots=True)
class Plan:
    """The kind of search; `probes` is where tuning begins, and `memory` the size of the index in bytes."""

    kind: str
    why: str
    lists: int = 0
    probes: int = 0
    code_width: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Machine:
    """What determines the time of an exact search and the size of its copies."""

    threads: int = 1
    cuda: bool = False
    number_bytes: int = 2  # of a number in a coarse copy


def choose(
    left: int, right: int, dimension: int, memory: int, recall: float, search: str = "auto", machine: Machine | None = None
) -> Plan:
    """The kind of search for `left` and `right` sentences, in both directions."""
    on = machine or Machine()
    if search == "exact":
        return Plan("exact", "as requested")
    seconds = 2.0 * left * right * dimension / (CUDA_RATE if on.cuda else CPU_RATE * on.threads)
    if search == "auto" and seconds <= PATIENCE:
        return Plan("exact", f"comparing all pairs takes about {duration(max(1.0, seconds))}")
    if recall == 1:
        return Plan("exact", "nothing may be missed")
    plans = [_cells(left, right, dimension, recall, on), _graph(max(left, right), dimension, recall)]
    plans += [_codes(max(left, right), dimension, recall, width) for width in CODE_WIDTHS]
    any_kind = search in ("auto", "approximate")
    plans = [plan for plan in plans if (plan.kind != "hnsw" or recall >= GRAPH_RECALL if any_kind else plan.kind == search)]
    room = 3 * memory // 4
    fitting = next((plan for plan in plans if plan.memory <= room), None)  # the first is the fastest
    if fitting is not None:
        return fitting
    if search == "auto":
        return Plan("exact", "no index fits into memory")
    least = min(plans, key=lambda plan: plan.memory)
    raise DataError(
        f"an index of {amount(left + right, 'sentence')} ({least.kind}) takes {_size(least.memory)}, but there is"
        f" {_size(room)} for it",
        hint=f"allow more memory: {_size(4 * least.memory // 3 + 2**20)} is enough",
    )


def _cells(left: int, right: int, dimension: int, recall: float, on: Machine) -> Plan:
    width = -(-(dimension + EXTRA_COLUMNS) // WIDTHS) * WIDTHS
    lists = _lists(min(left, right), CELLS_PER_ROOT)
    sentence = width * on.number_bytes + SENTENCE_BYTES + PROBE_BYTES * min(PROBES, lists)
    memory = (left + right) * sentence + lists * width * on.number_bytes
    return Plan("cells", "copies of both sides fit into memory", lists, _probes(lists, recall), 0, memory)


def _graph(rows: int, dimension: int, recall: float) -> Plan:
    width, depth = index_width(dimension), int(min(max(0.5 / (1 - recall), 16), 1024))
    memory = rows * (2 * width + 4 * (2 * LINKS + 2) + 4 * LINKS // 8 + 24)
    return Plan("hnsw", f"copies do not fit, and codes are too coarse for a recall of {recall:g}", 0, depth, 0, memory)


def _codes(rows: int, dimension: int, recall: float, code_width: int) -> Plan:
    width, lists = index_width(dimension), _lists(rows, LISTS_PER_ROOT)
    memory = rows * (code_bytes(dimension, code_width) + 8) + lists * (4 * width + 2048) + 64 * width
    return Plan("ivf-pq", "copies of both sides do not fit into memory", lists, _probes(lists, recall), code_width, memory)


def index_width(dimension: int) -> int:
    """Columns of a vector in a faiss index: its own, two that make products comparable, and padding to whole codes."""
    return -(-(dimension + 2) // max(CODE_WIDTHS)) * max(CODE_WIDTHS)


def code_bytes(dimension: int, code_width: int) -> int:
    """Bytes of a code: four bits per `code_width` columns, in pairs."""
    return -(-index_width(dimension) // (2 * code_width))


def _lists(rows: int, per_root: float) -> int:
    """So many that finding the right lists takes about as long as searching them."""
    return max(min(int(per_root * rows**0.5), rows // 8, MOST_CELLS), 1)


def _probes(lists: int, recall: float) -> int:
    return min(max(int(lists * 0.0005 / (1 - recall)), 4), lists)


def _size(size: int) -> str:
    return f"{size / 2**30:.1f}G" if size >= 2**30 else f"{-(-size // 2**20)}M"
