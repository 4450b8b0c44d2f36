"""Sentences as words, each distinct word stored once."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isogloss.types import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """`vocabulary[index[starts[i]:starts[i + 1]]]` are the words of sentence i."""

    vocabulary: pa.Array
    index: NDArray[np.int32]
    starts: IntArray


def split_words(texts: pa.Array) -> Words:
    """Split at ASCII white space, as fastText does; normalized text has no other."""
    lists = pc.ascii_split_whitespace(texts)
    encoded = lists.values.dictionary_encode()
    starts = lists.offsets.to_numpy().astype(np.int64)
    return Words(encoded.dictionary, encoded.indices.to_numpy(), starts)
