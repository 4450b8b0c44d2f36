"""The training pairs as numbers, made from any number of pairs in one pass over their text.

    FOLDER/data-NAME/{source,target,corpus,language}.i64   a row or a code for each pair
    FOLDER/data-NAME/{keys,ids.i32,offsets.i64}            the key and the token ids of each row
    FOLDER/data-NAME/{texts.utf8,texts.i64}                the text of each source row, for the teacher
    FOLDER/data-NAME/counts.i64                            how often each language uses each piece of the vocabulary
    FOLDER/data-NAME/data.json                             written last: counts, names, and the hash of it all

While text is read, a sentence that is seen for the first time is tokenized and numbered (`sentence_table`), in the order it
comes. What that gives is in files that grow (`growing_files`), so a killed process continues where it was. When all text was
read, everything is put into the order of rows: source sentences first, both sides by first appearance. Arrays are mapped from
disk, and text is forgotten after its block, so memory does not grow with the number of pairs.

NAME is made from the pairs and the tokenizer, so a second session finds the files. A vocabulary is trimmed by `counts`, and a
trimmed student finds the ids of the full vocabulary and renumbers them: its text is not tokenized again.
"""

import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isogloss.errors import DataError, IsoglossError
from isogloss.memory import release_memory, trim
from isogloss.models.token_store import TextTokenizer, TokenStore, raw_array
from isogloss.models.vector_cache import KEY, Keys, text_keys
from isogloss.models.vocabulary.coverage import LanguageSurvey, Survey
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import (
    canonical_json,
    content_hash,
    explaining_disk,
    file_hash,
    folder_lock,
    read_json,
    remove,
    remove_stale_files,
    write_json,
)
from isogloss.training.batches import PairRows
from isogloss.training.growing_files import STATE, GrowingFiles
from isogloss.training.sentence_table import SentenceTable, mapped_zeros
from isogloss.training.work_files import use
from isogloss.types import TRAIN, IntArray, PairSource

logger = logging.getLogger(__name__)

FORMAT = 3  # of the files; those of another format are made again
DATA, COUNTS = "data.json", "counts.i64"
COLUMNS = ("source", "target", "corpus", "language")
# Files that grow while text is read. Some are final, the others have the order in which text was read.
SOURCE, TEXTS, TEXT_OFFSETS = "source.i64", "texts.utf8", "texts.i64"
TARGET_READ, CODES_READ = "target.read", {"corpus": "corpus.read", "language": "language.read"}
KEYS_READ, IDS_READ, OFFSETS_READ, SPOKEN_READ = "keys.read", "ids.read", "offsets.read", "spoken.read"  # of each sentence
SOURCES_READ = "sources.read"  # the sentence of each source row
READ = (TARGET_READ, *CODES_READ.values(), KEYS_READ, IDS_READ, OFFSETS_READ, SPOKEN_READ, SOURCES_READ)
GROWING = (SOURCE, TEXTS, TEXT_OFFSETS, *READ)
FINAL = (*(f"{name}.i64" for name in COLUMNS), "keys", "ids.i32", "offsets.i64", TEXTS, TEXT_OFFSETS, COUNTS)
AT_ONCE = 1 << 16  # rows that are in memory
TOKENIZED_AT_ONCE = 2048  # sentences: while it is tokenized, one takes about 6 KB
TRIMMED_AFTER = 1 << 13  # pairs


@dataclass(frozen=True, slots=True, eq=False)
class PairDataset:
    """The training pairs as numbers. A row is a distinct sentence; source sentences come first.

    So a source sentence has the same row in `tokens` and in the teacher's embeddings. Rows are in the order of first
    appearance, whatever the blocks; a sentence that is both a source and a target has one row. Held-out pairs are not here:
    nothing that is trained depends on them.
    """

    tokens: TokenStore
    pairs: PairRows
    sources: int  # rows 0 … sources − 1 are source sentences
    corpora: tuple[str, ...]  # names of the codes in `pairs`, sorted
    languages: tuple[str, ...]
    keys: Keys  # of all rows; those of source rows are their keys in the vector cache
    source_texts: pa.Array  # by row
    text_counts: dict[str, dict[str, Any]]  # texts, words and characters of each language
    token_counts: IntArray  # how often each language, in the order of `text_counts`, uses each piece
    key: str  # names all of the above

    @classmethod
    def build(
        cls, pairs: PairSource, text_tokenizer: TextTokenizer, folder: Path | None = None, on_progress: OnProgress = silent
    ) -> Self:
        """Read the training pairs, or find in `folder` that this was done. Without a folder everything is in memory."""
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
                return cls._build(pairs, text_tokenizer, Path(temporary), on_progress, mapped=False)
        if text_tokenizer.trimmed_from is not None:
            full, kept = text_tokenizer.trimmed_from
            found = cls._found(_place(pairs, full, folder), on_progress)
            if found is not None and np.isin(np.flatnonzero(found.token_counts.sum(0)), kept).all():
                tokens = found.tokens.renumbered(kept, text_tokenizer.pad_id)
                return replace(found, tokens=tokens, key=content_hash(found.key, kept.tobytes()))
        place = _place(pairs, text_tokenizer.key, folder)
        found = cls._found(place, on_progress)
        if found is not None:
            return found
        with folder_lock(place, "another isogloss is making this training data", "wait for it, or name another folder"):
            return cls._build(pairs, text_tokenizer, place, on_progress, mapped=True)

    @classmethod
    def _found(cls, place: Path, on_progress: OnProgress) -> Self | None:
        """What a finished build left, if it is still needed; any number of processes may read it at once."""
        use(place)
        found = cls._open(place, mapped=True)
        if found is not None:
            on_progress(Step("tokens", len(found.tokens), len(found.tokens), "sentences", "reused"))
        return found

    @classmethod
    def _build(
        cls, pairs: PairSource, text_tokenizer: TextTokenizer, place: Path, on_progress: OnProgress, mapped: bool
    ) -> Self:
        remove_stale_files(place)
        if (place / DATA).exists():  # finished, and damaged since: none of it can be trusted
            logger.warning("%s is damaged, or of another version; it is made again", place)
            remove(place / DATA)
            remove(place / STATE)
        with GrowingFiles(place, GROWING) as files:
            known = _Reader(pairs, text_tokenizer, files, on_progress).read()
        release_memory()
        _order_by_rows(place, known, text_tokenizer)
        write_json(place / DATA, known | {"key": _key(place, known)})
        for name in (STATE, *READ):
            remove(place / name)
        release_memory()
        made = cls._open(place, mapped)
        if made is None:
            raise IsoglossError(f"{place}: what was written is not there any more", hint="run the same command again")
        return made

    @classmethod
    def _open(cls, place: Path, mapped: bool) -> Self | None:
        """What a finished build left; None if something is missing or does not match its hash."""
        try:
            known = read_json(place / DATA)
            key = known.pop("key")
            if key != _key(place, known):
                return None
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return None
        tokens = TokenStore(
            raw_array(place / "ids.i32", "<i4", mapped), raw_array(place / "offsets.i64", "<i8", mapped), known["pad_id"]
        )
        columns = [raw_array(place / f"{name}.i64", "<i8", mapped) for name in COLUMNS]
        texts, ends = raw_array(place / TEXTS, "<u1", mapped), raw_array(place / TEXT_OFFSETS, "<i8", mapped)
        return cls(
            tokens=tokens,
            pairs=PairRows(*columns),
            sources=known["sources"],
            corpora=tuple(known["corpora"]),
            languages=tuple(known["languages"]),
            keys=raw_array(place / "keys", KEY.str, mapped),
            source_texts=pa.LargeStringArray.from_buffers(known["sources"], pa.py_buffer(ends), pa.py_buffer(texts)),
            text_counts=known["text"],
            token_counts=raw_array(place / COUNTS, "<i8", mapped).reshape(len(known["text"]), -1),
            key=key,
        )

    @property
    def source_addresses(self) -> Keys:
        """The keys of the source rows in the vector cache."""
        return self.keys[: self.sources]

    @property
    def source_keys(self) -> NDArray[np.uint64]:
        """The first half of each source sentence's hash: a number that depends on its text alone."""
        heads: NDArray[np.uint64] = self.source_addresses.view("<u8")[::2]
        return heads

    def rows_of(self, texts: Sequence[str]) -> IntArray:
        """The row of each text; −1 if it is no training sentence."""
        wanted, place = np.unique(text_keys(texts), return_inverse=True)
        rows = np.full(len(wanted), -1, dtype=np.int64)
        for part in _parts(len(self.keys) if len(wanted) else 0):
            keys = self.keys[part]
            at = np.minimum(np.searchsorted(wanted, keys), len(wanted) - 1)
            same = np.flatnonzero(wanted[at] == keys)
            rows[at[same]] = part.start + same
        return rows[place]

    def survey(self, text_tokenizer: TextTokenizer) -> Survey:
        """What the text uses of the vocabulary that it was tokenized with. The prompt and special tokens are not counted.

        A sentence counts once, for the language in which it was read first.
        """
        found = Survey(text_tokenizer.tokenizer)
        frame = np.bincount(text_tokenizer([""])[0], minlength=self.token_counts.shape[1])
        for (language, known), tokens in zip(self.text_counts.items(), self.token_counts, strict=True):
            counts = np.maximum(tokens - known["texts"] * frame, 0)
            found.languages[language] = LanguageSurvey(counts, set(known["characters"]), known["texts"], known["words"])
        return found


def _place(pairs: PairSource, tokenizer_key: str, folder: Path) -> Path:
    return folder / f"data-{content_hash(str(FORMAT), pairs.hash, tokenizer_key)[:16]}"


def _key(place: Path, known: dict[str, Any]) -> str:
    """Names the content of a finished build: its counts and names, and every file of it."""
    return content_hash(canonical_json(known), *(file_hash(place / name) for name in FINAL))


def _parts(count: int) -> Iterator[slice]:
    """Slices of `AT_ONCE` elements."""
    edges = [*range(0, count, AT_ONCE), count]
    return (slice(start, stop) for start, stop in pairwise(edges))


# ── one pass over the text ──────────────────────────────────────────────────────────────────────────────────────────────


class _Block(NamedTuple):
    """The distinct sentences of a block in the order they are read, pair by pair, and which of them each pair has."""

    texts: pa.Array
    keys: Keys
    languages: NDArray[np.object_]  # that of the first pair that has it
    source: IntArray
    target: IntArray

    @classmethod
    def of(cls, block: pa.Table, source_language: str) -> "_Block":
        sides = [block.column(side).combine_chunks().cast(pa.string()) for side in COLUMNS[:2]]
        pair_by_pair = np.arange(2 * block.num_rows).reshape(2, -1).T.ravel()
        encoded = pa.concat_arrays(sides).take(pa.array(pair_by_pair)).dictionary_encode()
        place = encoded.indices.to_numpy().astype(np.int64)
        row, is_target = np.divmod(np.unique(place, return_index=True)[1], 2)
        spoken = block.column("language").take(pa.array(row)).to_numpy(zero_copy_only=False)
        languages = np.where(is_target, spoken, source_language)
        keys = text_keys(encoded.dictionary.to_pylist())
        return cls(encoded.dictionary, keys, languages, *place.reshape(-1, 2).T)


class _Reader:
    """Reads the training pairs once: sentences get numbers and source rows when they are first seen, and are tokenized."""

    def __init__(self, pairs: PairSource, text_tokenizer: TextTokenizer, files: GrowingFiles, on_progress: OnProgress) -> None:
        self.pairs, self.text_tokenizer, self.files, self.on_progress = pairs, text_tokenizer, files, on_progress
        self.total = pairs.pair_counts().total(split=TRAIN)
        state = files.state or {"finished": False, "pairs": 0, "sentences": 0, "sources": 0, "tokens": 0, "bytes": 0}
        names = {name: state.pop(name, []) for name in ("corpora", "languages")}
        self.codes = {"corpus": _Codes(names["corpora"]), "language": _Codes(names["languages"])}
        self.text = {
            language: LanguageSurvey(np.zeros(0, dtype=np.int64), set(known["characters"]), known["texts"], known["words"])
            for language, known in state.pop("text", {}).items()
        }
        self.state: dict[str, Any] = state

    def read(self) -> dict[str, Any]:
        """Read what was not read yet; returns counts and names."""
        if not self.state["finished"]:
            if not self.total:
                raise DataError("there are no pairs to train on: all are held out", hint="lower pairs.held_out or add pairs")
            self._read_blocks()
            if self.state["pairs"] != self.total:
                raise DataError("the pairs changed while they were read", hint="run the same command again")
            self.state["finished"] = True
            self.files.save(self._as_dict(), now=True)
        return {name: value for name, value in self._as_dict().items() if name != "finished"}

    def _read_blocks(self) -> None:
        done = self.state["pairs"]
        note = f"continued at {done:,}" if done else ""
        self.on_progress(Step("tokens", done, self.total, "pairs", note))
        table = self._table()
        if not done:
            self.files.append(OFFSETS_READ, bytes(8))
            self.files.append(TEXT_OFFSETS, bytes(8))
        for block in _blocks(self.pairs, done):
            self._add_block(block, table)
            del block  # before the next is read
            self.files.save(self._as_dict())
            self.on_progress(Step("tokens", self.state["pairs"], self.total, "pairs", note))

    def _table(self) -> SentenceTable:
        """The numbers of the sentences that were read so far."""
        folder, table = self.files.folder, SentenceTable(self.files.folder, 2 * self.total)
        keys, sources = raw_array(folder / KEYS_READ, KEY.str), raw_array(folder / SOURCES_READ, "<i8")
        for part in _parts(len(keys)):
            table.number(keys[part], "sentence", part.start)
        for part in _parts(len(sources)):
            table.number(keys[sources[part]], "source", part.start)
        return table

    def _add_block(self, table: pa.Table, known: SentenceTable) -> None:
        block, state = _Block.of(table, self.pairs.source_language), self.state
        for column, name in CODES_READ.items():
            self._append(name, self.codes[column].of(table.column(column)))
        for language in (self.pairs.source_language, *self.codes["language"].code_of):
            self.text.setdefault(language, LanguageSurvey(np.zeros(0, dtype=np.int64)))
        numbers, new = known.number(block.keys, "sentence", state["sentences"])
        self._append(KEYS_READ, block.keys[new])
        self._add_sentences(block.texts.filter(pa.array(new)), block.languages[new])
        encoded = pa.array(block.source).dictionary_encode()  # in the order of first appearance as a source
        seen = encoded.dictionary.to_numpy()
        rows, new = known.number(block.keys[seen], "source", state["sources"])
        self._append(SOURCES_READ, numbers[seen][new])
        self._add_source_texts(block.texts.take(pa.array(seen[new])).to_pylist())
        self._append(SOURCE, rows[encoded.indices.to_numpy()])
        self._append(TARGET_READ, numbers[block.target])
        state["pairs"] += table.num_rows

    def _add_sentences(self, texts: pa.Array, languages: NDArray[np.object_]) -> None:
        """Tokenize sentences that are new, and count what their languages use."""
        for start in range(0, len(texts), TOKENIZED_AT_ONCE):
            ids, lengths = self.text_tokenizer(texts[start : start + TOKENIZED_AT_ONCE].to_pylist())
            self._append(IDS_READ, ids.astype("<i4"))
            self._append(OFFSETS_READ, self.state["tokens"] + np.cumsum(lengths))
            self.state["tokens"] += len(ids)
        for language in dict.fromkeys(languages):
            self.text[language].add_text(language, texts.filter(pa.array(languages == language)).to_pylist())
        code_of = {language: code for code, language in enumerate(self.text)}
        self._append(SPOKEN_READ, np.array([code_of[language] for language in languages], dtype=np.int64))
        self.state["sentences"] += len(texts)

    def _add_source_texts(self, texts: list[str]) -> None:
        encoded = [text.encode() for text in texts]
        ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
        self.files.append(TEXTS, b"".join(encoded))
        self._append(TEXT_OFFSETS, self.state["bytes"] + ends)
        self.state["sources"] += len(texts)
        self.state["bytes"] += sum(map(len, encoded))

    def _append(self, name: str, values: NDArray[Any]) -> None:
        self.files.append(name, values.tobytes())

    def _as_dict(self) -> dict[str, Any]:
        names = {"corpora": list(self.codes["corpus"].code_of), "languages": list(self.codes["language"].code_of)}
        text = {
            language: {"texts": seen.texts, "words": seen.words, "characters": "".join(sorted(seen.characters))}
            for language, seen in self.text.items()
        }
        return self.state | names | {"text": text}


class _Codes:
    """Names as numbers, in the order they come."""

    def __init__(self, names: Sequence[str]) -> None:
        self.code_of = {name: code for code, name in enumerate(names)}

    def of(self, column: pa.ChunkedArray) -> IntArray:
        encoded = column.combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = np.array([self.code_of.setdefault(name, len(self.code_of)) for name in names], dtype=np.int64)
        return np.asarray(codes[encoded.indices.to_numpy()])


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


# ── the order of rows ───────────────────────────────────────────────────────────────────────────────────────────────────


def _order_by_rows(place: Path, known: dict[str, Any], text_tokenizer: TextTokenizer) -> None:
    """Write the final files: sources come first, sorted names give the codes. `known` gets the sorted names."""
    spoken = raw_array(place / SPOKEN_READ, "<i8")
    tokens = TokenStore(raw_array(place / IDS_READ, "<i4"), raw_array(place / OFFSETS_READ, "<i8"), text_tokenizer.pad_id)
    sources, keys = raw_array(place / SOURCES_READ, "<i8"), raw_array(place / KEYS_READ, KEY.str)
    row_of = mapped_zeros(place, "<i8", known["sentences"])  # row + 1 of each sentence; 0: not a source
    for part in _parts(len(sources)):
        row_of[sources[part]] = 1 + np.arange(part.start, part.stop)
    others = (part.start + np.flatnonzero(row_of[part] == 0) for part in _parts(len(row_of)))
    done = 0
    with explaining_disk(place), (place / "keys").open("wb") as key_file, (place / "ids.i32").open("wb") as id_file:
        with (place / "offsets.i64").open("wb") as offset_file:
            end = np.zeros(1, dtype=np.int64)
            offset_file.write(end.tobytes())
            for sentences in chain((sources[part] for part in _parts(len(sources))), others):
                row_of[sentences] = 1 + np.arange(done, done + len(sentences))
                ids, lengths = tokens.gather(sentences)
                ends = end + np.cumsum(lengths)
                key_file.write(keys[sentences].tobytes())
                id_file.write(ids.tobytes())
                offset_file.write(ends.tobytes())
                end, done = ends[-1:] if len(ends) else end, done + len(sentences)
        _write(place / "target.i64", (row_of[part] - 1 for part in _numbers(place / TARGET_READ)))
        for column, listed in (("corpus", "corpora"), ("language", "languages")):
            rank = np.argsort(np.argsort(known[listed]))
            known[listed] = sorted(known[listed])
            _write(place / f"{column}.i64", (rank[part] for part in _numbers(place / CODES_READ[column])))
        _write(place / COUNTS, [_token_counts(tokens, spoken, len(known["text"]), text_tokenizer)])
    known["pad_id"] = text_tokenizer.pad_id


def _numbers(path: Path) -> Iterator[IntArray]:
    numbers = raw_array(path, "<i8")
    return (numbers[part] for part in _parts(len(numbers)))


def _write(path: Path, parts: "Iterator[IntArray] | list[IntArray]") -> None:
    with path.open("wb") as handle:
        for part in parts:
            handle.write(part.tobytes())


def _token_counts(tokens: TokenStore, spoken: IntArray, languages: int, text_tokenizer: TextTokenizer) -> IntArray:
    """How often each language uses each row of the vocabulary; `spoken` is the language of each sentence."""
    rows = 1 + max(text_tokenizer.tokenizer.get_vocab().values())
    counts = np.zeros(languages * rows, dtype=np.int64)
    for part in _parts(len(spoken)):
        ids = tokens.ids_at(slice(tokens.offsets[part.start], tokens.offsets[part.stop]))
        used = np.repeat(spoken[part], np.diff(tokens.offsets[part.start : part.stop + 1])) * rows + ids
        counts += np.bincount(used, minlength=len(counts))
    return counts
