"""A batch as fixed-size arrays: what a captured step reads, whatever the sentences of the moment.

A CUDA graph repeats the same launches on the same addresses, so its inputs have a fixed size. Token counts are rounded up
to a bucket; what is missing is filled with padding tokens in sentences of their own, which no pair reads. Pairs that are
missing in the last batch of an epoch have weight 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isogloss.models.token_store import TokenStore
from isogloss.training.batches import Batch
from isogloss.types import FloatArray

FEWEST = 128  # tokens: smaller steps between buckets would mean more graphs for little
LOOKED_AT_ONCE = 1 << 24  # tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one captured step: pairs of a batch, tokens of the bucket, sentences, and the longest of them."""

    pairs: int
    tokens: int
    sentences: int
    longest: int


def bucket(tokens: int) -> int:
    """Round up to a multiple of about a sixteenth: at most a handful of buckets for batches of similar size."""
    step = max(FEWEST, 1 << max(0, int(tokens - 1).bit_length() - 4))
    return -(-tokens // step) * step


def shape_of(pairs: int, tokens: int, longest: int) -> Shape:
    """The shape for batches of at most `pairs` pairs and `tokens` tokens."""
    full = bucket(tokens)
    fill = -(-(full // 8 + FEWEST) // longest) + 1  # room for the sentences that fill a bucket up
    return Shape(pairs, full, 2 * pairs + fill, longest)


@dataclass(frozen=True, slots=True, eq=False)
class FixedBatch:
    """The arrays of one step. `rows` are the distinct rows of the token table, `token_row` says which one each token is.

    A sentence is in the batch once, so `source_at` and `target_at` also say which pairs have a sentence in common.
    """

    shape: Shape
    rows: NDArray[np.int32]
    token_row: NDArray[np.int32]
    within: NDArray[np.int32]
    sentence: NDArray[np.int32]
    starts: NDArray[np.int32]
    source_at: NDArray[np.int32]
    target_at: NDArray[np.int32]
    weight: FloatArray
    tokens: int  # without filling

    def integers(self) -> list[NDArray[np.int32]]:
        """All that is counted, to be sent in one piece."""
        return [self.rows, self.token_row, self.within, self.sentence, self.starts, self.source_at, self.target_at]


def fixed(batch: Batch, tokens: TokenStore, pairs: int, longest: int) -> FixedBatch:
    """Lay a batch out for a step of `pairs` pairs with sentences of at most `longest` tokens."""
    ids, lengths = tokens.gather(batch.rows)
    shape = shape_of(pairs, len(ids), longest)
    missing = shape.tokens - len(ids)
    fill = np.full(missing // longest, longest, dtype=np.int64)
    fill = np.append(fill, missing % longest) if missing % longest else fill
    all_lengths = np.zeros(shape.sentences, dtype=np.int64)
    all_lengths[: len(lengths)] = lengths
    all_lengths[len(lengths) : len(lengths) + len(fill)] = fill
    starts = np.concatenate([[0], np.cumsum(all_lengths)])
    sentence = np.repeat(np.arange(shape.sentences), all_lengths)
    within = np.arange(shape.tokens) - starts[sentence]
    filled = np.concatenate([ids, np.full(missing, tokens.pad_id, dtype=ids.dtype)])
    distinct, token_row = np.unique(filled, return_inverse=True)
    # Places that are left over name one row that is not read: its gradient is 0, so writing it often writes the same.
    spare = int(np.flatnonzero(np.append(distinct, -1) != np.arange(len(distinct) + 1))[0])
    rows = np.full(shape.tokens, spare, dtype=np.int32)
    rows[: len(distinct)] = distinct
    real = len(batch.source_at)
    return FixedBatch(
        shape,
        rows,
        token_row.astype(np.int32),
        within.astype(np.int32),
        sentence.astype(np.int32),
        starts.astype(np.int32),
        _padded(batch.source_at, pairs),
        _padded(batch.target_at, pairs),
        _padded(np.ones(real), pairs).astype(np.float32),
        len(ids),
    )


def may_read_all(tokens: TokenStore, pairs: int, rows: int) -> bool:
    """Whether a batch of `pairs` pairs might read all `rows` of the token table, so that none is left for the spare places.

    It cannot if its longest sentences together have fewer tokens, which is soon seen, or if no sentence at all reads some
    row: most often one does not, since no text has a mask in it.
    """
    lengths, most = tokens.lengths, min(2 * pairs, len(tokens))
    if np.partition(lengths, len(lengths) - most)[len(lengths) - most :].sum() + 1 < rows:  # one more for padding
        return False
    read = np.zeros(rows, dtype=np.bool_)
    read[tokens.pad_id] = True
    for start in range(0, len(tokens.ids), LOOKED_AT_ONCE):
        read[tokens.ids[start : start + LOOKED_AT_ONCE]] = True
    return bool(read.all())


def _padded(values: NDArray[np.generic], size: int) -> NDArray[np.int32]:
    full = np.zeros(size, dtype=np.int32)
    full[: len(values)] = values
    return full
