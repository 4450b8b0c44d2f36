"""One pass over the text of the training pairs: a sentence is numbered and tokenized when it is seen for the first time.

What the pass gives is written to `GrowingFiles`, block by block, and nothing else of a block is kept. Sentences are numbered in
the order they are read, the source of a pair before its target. A sentence also gets a source row when it is first seen as a
source. `pair_dataset` puts everything into the order of rows afterwards.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isogloss.errors import DataError
from isogloss.memory import trim
from isogloss.models.token_store import TextTokenizer, raw_array
from isogloss.models.vector_cache import KEY, Keys, text_keys
from isogloss.models.vocabulary.coverage import LanguageSurvey
from isogloss.progress import OnProgress, Step
from isogloss.training.data.growing_files import GrowingFiles
from isogloss.training.data.sentence_table import SentenceTable
from isogloss.types import TRAIN, IntArray, PairSource

SOURCE, CORPUS, LANGUAGE = "source.i64", "corpus.i64", "language.i64"  # the row, and the codes, of each pair
TEXTS, TEXT_OFFSETS = "texts.utf8", "texts.i64"  # of each source row
FINAL = (SOURCE, CORPUS, LANGUAGE, TEXTS, TEXT_OFFSETS)
# In the order of reading: the sentence of each target and of each source row; key, tokens and language of each sentence.
TARGETS, SOURCES, KEYS = "targets.read", "sources.read", "keys.read"
IDS, OFFSETS, SPOKEN = "ids.read", "offsets.read", "spoken.read"
IN_READING_ORDER = (TARGETS, SOURCES, KEYS, IDS, OFFSETS, SPOKEN)
KEYS_AT_ONCE = 1 << 16
TOKENIZED_AT_ONCE = 2048  # sentences: while it is tokenized, one takes about 6 KB
TRIMMED_AFTER = 1 << 13  # pairs


@dataclass(frozen=True, slots=True)
class TextRead:
    """Sorted names of corpora and languages, and the text of each language: its number in this dictionary is its code."""

    corpora: list[str]
    languages: list[str]
    text: dict[str, LanguageSurvey]  # without counts of tokens


def read_pairs(pairs: PairSource, text_tokenizer: TextTokenizer, files: GrowingFiles, on_progress: OnProgress) -> TextRead:
    """Read what `files` do not have yet, and save them at the end."""
    cells = pairs.pair_counts().of_split(TRAIN)
    total, done = sum(cells.values()), files.size(SOURCE) // 8
    if not total:
        raise DataError("there are no pairs to train on: all are held out", hint="lower pairs.held_out or add pairs")
    corpora, languages = (sorted({cell[place] for cell in cells}) for place in (0, 1))
    text = {language: LanguageSurvey.without_tokens() for language in sorted({pairs.source_language, *languages})}
    text |= {language: LanguageSurvey.without_tokens(**known) for language, known in files.state.items()}
    read = TextRead(corpora, languages, text)
    note = f"continued at {done:,}" if done else ""
    on_progress(Step("tokens", done, total, "pairs", note))
    if done == total:
        return read
    reader = _Reader(read, pairs.source_language, text_tokenizer, files, _table(files, total))
    for block in _blocks(pairs, done):
        reader.add(block)
        done += block.num_rows
        del block  # before the next is read
        files.save(_state(read))
        on_progress(Step("tokens", done, total, "pairs", note))
    if done != total:
        raise changed_meanwhile()
    files.save(_state(read), now=True)
    return read


def _state(read: TextRead) -> dict[str, Any]:
    return {language: seen.text_as_dict() for language, seen in read.text.items()}


def changed_meanwhile() -> DataError:
    """The pairs are not those that were counted."""
    return DataError("the pairs changed while they were read", hint="run the same command again")


def _blocks(pairs: PairSource, done: int) -> Iterator[pa.Table]:
    """The training pairs after the first `done`, block by block; free memory is returned to the system now and then."""
    start = since = 0
    for block in pairs.in_blocks(TRAIN):
        since += block.num_rows
        if since >= TRIMMED_AFTER:
            trim()
            since = 0
        start += block.num_rows
        if start > done:
            yield block.slice(max(done - (start - block.num_rows), 0))
        del block  # before the next is read


def _table(files: GrowingFiles, pairs: int) -> SentenceTable:
    """The numbers and source rows of the sentences that were read so far."""
    table = SentenceTable(files.folder, 2 * pairs)
    keys, sources = raw_array(files.folder / KEYS, KEY.str), raw_array(files.folder / SOURCES, "<i8")
    for start in range(0, len(keys), KEYS_AT_ONCE):
        table.number(keys[start : start + KEYS_AT_ONCE], "sentence", start)
    for start in range(0, len(sources), KEYS_AT_ONCE):
        table.number(keys[sources[start : start + KEYS_AT_ONCE]], "source", start)
    return table


class _Block(NamedTuple):
    """The distinct sentences of a block in the order they are read, and which of them each pair has."""

    texts: pa.Array
    keys: Keys
    languages: NDArray[np.object_]  # that of the first pair that has it
    source: IntArray
    target: IntArray

    @classmethod
    def of(cls, block: pa.Table, source_language: str) -> "_Block":
        sides = [block.column(side).combine_chunks().cast(pa.string()) for side in ("source", "target")]
        pair_by_pair = np.arange(2 * block.num_rows).reshape(2, -1).T.ravel()
        encoded = pa.concat_arrays(sides).take(pa.array(pair_by_pair)).dictionary_encode()
        place = encoded.indices.to_numpy().astype(np.int64)
        row, is_target = np.divmod(np.unique(place, return_index=True)[1], 2)
        spoken = block.column("language").take(pa.array(row)).to_numpy(zero_copy_only=False)
        languages = np.where(is_target, spoken, source_language)
        return cls(encoded.dictionary, text_keys(encoded.dictionary.to_pylist()), languages, *place.reshape(-1, 2).T)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Adds blocks to the files."""

    read: TextRead
    source_language: str
    text_tokenizer: TextTokenizer
    files: GrowingFiles
    table: SentenceTable

    def add(self, pairs: pa.Table) -> None:
        """Append everything about a block of pairs."""
        block, append = _Block.of(pairs, self.source_language), self.files.append
        for name, column, known in ((CORPUS, "corpus", self.read.corpora), (LANGUAGE, "language", self.read.languages)):
            codes = pc.index_in(pairs.column(column), pa.array(known, pa.string()))
            if codes.null_count:
                raise changed_meanwhile()
            append(name, codes.to_numpy().astype(np.int64))
        numbers, new = self.table.number(block.keys, "sentence", self.files.size(KEYS) // KEY.itemsize)
        append(KEYS, block.keys[new])
        self._tokenize(block.texts.filter(pa.array(new)), block.languages[new])
        append(TARGETS, numbers[block.target])
        sources = pa.array(block.source).dictionary_encode()  # in the order of first appearance as a source
        distinct = sources.dictionary.to_numpy()
        rows, new = self.table.number(block.keys[distinct], "source", self.files.size(SOURCES) // 8)
        append(SOURCES, numbers[distinct][new])
        append(SOURCE, rows[sources.indices.to_numpy()])
        texts = [text.encode() for text in block.texts.take(pa.array(distinct[new])).to_pylist()]
        self._append_offsets(TEXT_OFFSETS, self.files.size(TEXTS), np.array([len(text) for text in texts], dtype=np.int64))
        append(TEXTS, b"".join(texts))

    def _tokenize(self, texts: pa.Array, languages: NDArray[np.object_]) -> None:
        """Append the tokens of new sentences, and count what is in their text."""
        for start in range(0, len(texts), TOKENIZED_AT_ONCE):
            ids, lengths = self.text_tokenizer(texts[start : start + TOKENIZED_AT_ONCE].to_pylist())
            self._append_offsets(OFFSETS, self.files.size(IDS) // 4, lengths)
            self.files.append(IDS, ids.astype("<i4"))
        code_of = {language: code for code, language in enumerate(self.read.text)}
        for language in dict.fromkeys(languages):
            self.read.text[language].add_text(language, texts.filter(pa.array(languages == language)).to_pylist())
        self.files.append(SPOKEN, np.array([code_of[language] for language in languages], dtype=np.int64))

    def _append_offsets(self, name: str, end: int, lengths: IntArray) -> None:
        """Append the ends of elements with these lengths; the first starts at `end`."""
        if not self.files.size(name):
            self.files.append(name, bytes(8))
        self.files.append(name, end + np.cumsum(lengths))
