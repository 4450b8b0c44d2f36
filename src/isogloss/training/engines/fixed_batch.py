"""A batch as fixed-size arrays: the inputs of a recorded step.

A CUDA graph repeats the same launches on the same addresses, so its inputs have fixed sizes. Token counts are rounded up to a
bucket and filled with padding in sentences of their own, which no example reads. Missing examples have weight 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isogloss.models.token_store import TokenStore
from isogloss.training.tasks.protocol import SentenceBatch

FEWEST = 128  # tokens: the smallest step between buckets
AT_ONCE = 1 << 24  # tokens
Layout = tuple[tuple[str, tuple[int, ...]], ...]  # the names and shapes of tensors in one piece


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one recorded step: examples of a batch, tokens of the bucket, sentences, and the longest of them."""

    examples: int
    tokens: int
    sentences: int
    longest: int


def bucket(tokens: int) -> int:
    """Round up to a multiple of about a sixteenth: at most a handful of buckets for batches of similar size."""
    step = max(FEWEST, 1 << max(0, int(tokens - 1).bit_length() - 4))
    return -(-tokens // step) * step


def shape_of(examples: int, sides: int, tokens: int, longest: int) -> Shape:
    """The shape for at most `examples` examples of `sides` sentences each, and at most `tokens` tokens."""
    full = bucket(tokens)
    fill = -(-(full // 8 + FEWEST) // longest) + 1  # room for the sentences that fill a bucket up
    return Shape(examples, full, sides * examples + fill, longest)


@dataclass(frozen=True, slots=True, eq=False)
class FixedBatch:
    """The arrays of one step: integers in one piece, to be copied at once, and floats by name.

    `layout` has the names and shapes of the integers: `rows` are the distinct rows of the token table, `token_row` says which
    one each token is; `at.NAME` and `value.NAME` are those of the `SentenceBatch`.
    """

    shape: Shape
    layout: Layout
    integers: Tensor
    floats: dict[str, Tensor]
    tokens: int  # without padding

    def named_integers(self) -> dict[str, Tensor]:
        """Views of the integers by name."""
        return split_integers(self.integers, self.layout)


def split_integers(integers: Tensor, layout: Layout) -> dict[str, Tensor]:
    """Views of one flat tensor by name."""
    parts = torch.split(integers, [int(np.prod(shape)) for _, shape in layout])
    return {name: part.view(shape) for (name, shape), part in zip(layout, parts, strict=True)}


def fixed(batch: SentenceBatch, tokens: TokenStore, examples: int, longest: int, pin: bool = False) -> FixedBatch:
    """Lay a batch out for a step of `examples` examples with sentences of at most `longest` tokens."""
    ids, lengths = tokens.gather(batch.rows)
    sides = sum(int(np.prod(at.shape[1:])) for at in batch.at.values())
    shape = shape_of(examples, sides, len(ids), longest)
    missing = shape.tokens - len(ids)
    fill = np.full(missing // longest, longest, dtype=np.int64)
    fill = np.append(fill, missing % longest) if missing % longest else fill
    all_lengths = np.zeros(shape.sentences, dtype=np.int64)
    all_lengths[: len(lengths)] = lengths
    all_lengths[len(lengths) : len(lengths) + len(fill)] = fill
    starts = np.concatenate([[0], np.cumsum(all_lengths)])
    sentence = np.repeat(np.arange(shape.sentences), all_lengths)
    filled = np.concatenate([ids, np.full(missing, tokens.pad_id, dtype=ids.dtype)])
    distinct, token_row = np.unique(filled, return_inverse=True)
    # Spare places name one row that is not read: its gradient is 0, so writing it several times writes the same.
    spare = int(np.flatnonzero(np.append(distinct, -1) != np.arange(len(distinct) + 1))[0])
    rows = np.full(shape.tokens, spare, dtype=np.int64)
    rows[: len(distinct)] = distinct
    counted: dict[str, NDArray[Any]] = {
        "rows": rows,
        "token_row": token_row,
        "within": np.arange(shape.tokens) - starts[sentence],
        "sentence": sentence,
        "starts": starts,
    }
    counted |= {f"at.{name}": _padded(at, examples) for name, at in batch.at.items()}
    floats = {"weight": _padded(np.ones(len(next(iter(batch.at.values()))), dtype=np.float32), examples)}
    for name, value in batch.values.items():
        (floats if np.issubdtype(value.dtype, np.floating) else counted)[f"value.{name}"] = _padded(value, examples)
    integers = torch.empty(sum(part.size for part in counted.values()), dtype=torch.int32, pin_memory=pin)
    np.concatenate([part.ravel() for part in counted.values()], out=integers.numpy(), casting="same_kind")
    layout = tuple((name, part.shape) for name, part in counted.items())
    as_tensors = {
        name: torch.from_numpy(value).pin_memory() if pin else torch.from_numpy(value) for name, value in floats.items()
    }
    return FixedBatch(shape, layout, integers, as_tensors, len(ids))


def may_read_all(tokens: TokenStore, sentences: int, rows: int) -> bool:
    """Whether a batch of `sentences` might read all `rows` of the token table, which leaves none for the spare places.

    It cannot if the longest sentences together have fewer tokens, or if no sentence at all reads some row, such as the mask's.
    """
    lengths, most = tokens.lengths, min(sentences, len(tokens))
    if np.partition(lengths, len(lengths) - most)[len(lengths) - most :].sum() + 1 < rows:  # one more for padding
        return False
    read = np.zeros(rows, dtype=np.bool_)
    read[tokens.pad_id] = True
    for start in range(0, int(tokens.offsets[-1]), AT_ONCE):
        read[tokens.ids_at(slice(start, start + AT_ONCE))] = True
    return bool(read.all())


def _padded(values: NDArray[Any], size: int) -> NDArray[Any]:
    """The values with zeros for missing examples."""
    full = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    full[: len(values)] = values
    return full
