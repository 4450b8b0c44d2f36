"""One side of a block of pairs as arrays: code points, lengths, words. Each array is computed when first used."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isogloss.corpora.text import characters
from isogloss.corpora.text.arrays import count_marked, spans_of, starts_of
from isogloss.corpora.text.hashing import Hashes, hash_texts
from isogloss.types import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """`vocabulary[index[starts[i]:starts[i + 1]]]` are the words of sentence i; each distinct word is stored once."""

    vocabulary: pa.Array
    index: NDArray[np.int32]
    starts: IntArray


class Side:
    """The sentences of one language in a block, in order."""

    def __init__(self, texts: pa.Array, language: str) -> None:
        if isinstance(texts, pa.ChunkedArray):
            texts = texts.combine_chunks()
        self.texts = texts.take(pa.array(np.arange(len(texts))))  # without an offset, so that buffers begin with the text
        self.language = language

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def byte_lengths(self) -> IntArray:
        """UTF-8 bytes of each sentence."""
        return np.asarray(pc.binary_length(self.texts), dtype=np.int64)

    @cached_property
    def lengths(self) -> IntArray:
        """Characters of each sentence."""
        return np.asarray(pc.utf8_length(self.texts), dtype=np.int64)

    @cached_property
    def starts(self) -> IntArray:
        """Where each sentence begins in `codes`; one more entry at the end."""
        return starts_of(self.lengths)

    @property
    def utf8(self) -> bytes:
        """The bytes of all sentences, one after the other."""
        return bytes(memoryview(self.texts.buffers()[2] or b"")[: self.byte_lengths.sum()])

    @cached_property
    def codes(self) -> NDArray[np.uint32]:
        """The code points of all sentences, one after the other."""
        return np.frombuffer(self.utf8.decode().encode("utf-32-le"), dtype="<u4")

    @cached_property
    def wordlike(self) -> BoolArray:
        """For every character, whether it is part of a word."""
        return characters.wordlike().take(self.codes)

    @cached_property
    def scripts(self) -> NDArray[np.uint8]:
        """For every character, the number of its script."""
        return characters.scripts().take(self.codes)

    @cached_property
    def words(self) -> Words:
        """The words between ASCII white space, as in fastText; normalized text has no other."""
        lists = pc.ascii_split_whitespace(self.texts)
        encoded = lists.values.dictionary_encode()
        return Words(encoded.dictionary, encoded.indices.to_numpy(), lists.offsets.to_numpy().astype(np.int64))

    @cached_property
    def exact_hashes(self) -> Hashes:
        """Hashes of the sentences as written."""
        return hash_texts(self.codes, self.starts)

    @cached_property
    def kept_starts(self) -> IntArray:
        """Where each sentence begins in `kept`; one more entry at the end."""
        return starts_of(self.count(self.wordlike))

    @cached_property
    def kept(self) -> NDArray[np.uint32]:
        """The letters and digits of all sentences, in lower case."""
        return characters.lower_case().take(self.codes[self.wordlike])

    @cached_property
    def normalized_hashes(self) -> Hashes:
        """Hashes of the sentences by their letters and digits in lower case."""
        return hash_texts(self.kept, self.kept_starts)

    @cached_property
    def tokens(self) -> tuple[Hashes, IntArray, BoolArray]:
        """Hashes of all words (characters in unspaced scripts), the sentence of each, and whether it is such a character."""
        begins = np.flatnonzero(~self.continues[self.wordlike])
        names = hash_texts(self.kept, np.append(begins, len(self.kept)).astype(np.int64))[: len(begins)]
        return names, spans_of(begins, self.kept_starts), self.alone[self.wordlike][begins]

    @property
    def token_counts(self) -> IntArray:
        """Words, punctuation marks and single characters of unspaced scripts in each sentence."""
        return self.count((self.codes != 32) & ~self.continues)

    @cached_property
    def alone(self) -> BoolArray:
        """For every character, whether its script is written without spaces, so that it counts as a word."""
        return characters.unspaced().take(self.codes)

    @cached_property
    def continues(self) -> BoolArray:
        """For every character, whether it continues the word of the character before it."""
        word, alone = self.wordlike, self.alone
        result = np.zeros(len(word), dtype=np.bool_)
        result[1:] = word[1:] & word[:-1] & ~alone[1:] & ~alone[:-1]
        result[self.starts[:-1][self.lengths > 0]] = False
        return result

    def count(self, marked: BoolArray) -> IntArray:
        """How many characters of each sentence are marked."""
        return count_marked(marked, self.starts)
