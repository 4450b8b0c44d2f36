"""The training pairs as numbers, made from any number of pairs in one pass over their text.

    FOLDER/data-NAME/{source,target,corpus,language}.i64   a row or a code for each pair
    FOLDER/data-NAME/{keys,ids.i32,offsets.i64}            the key and the token ids of each row
    FOLDER/data-NAME/{texts.utf8,texts.i64}                the text of each source row, for the teacher
    FOLDER/data-NAME/counts.i64                            how often each language uses each row of the vocabulary
    FOLDER/data-NAME/data.json                             written last: counts, names, and the hash of it all

`pair_reading` reads and tokenizes; a killed process continues where it was. Then sentences are put into the order of rows:
source sentences first, both sides by first appearance. Arrays are mapped from disk, so memory does not grow with the number of
pairs.

NAME is made from the pairs and the tokenizer, so a second session finds the files. A vocabulary is trimmed by `counts`, and a
trimmed student finds the ids of the full vocabulary and renumbers them: its text is not tokenized again.
"""

import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isogloss.errors import IsoglossError
from isogloss.memory import release_memory
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
from isogloss.training.data import pair_reading as reading
from isogloss.training.data.growing_files import STATE, GrowingFiles
from isogloss.training.data.sentence_table import mapped_zeros
from isogloss.training.data.work_files import use
from isogloss.types import IntArray, PairSource

logger = logging.getLogger(__name__)

FORMAT = 3  # of the files; those of another format are made again
DATA, TARGET, KEYS, IDS, OFFSETS, COUNTS = "data.json", "target.i64", "keys", "ids.i32", "offsets.i64", "counts.i64"
FILES = (*reading.FINAL, TARGET, KEYS, IDS, OFFSETS, COUNTS)
AT_ONCE = 1 << 16  # rows that are in memory


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
        with GrowingFiles(place, (*reading.FINAL, *reading.IN_READING_ORDER)) as files:
            read = reading.read_pairs(pairs, text_tokenizer, files, on_progress)
        release_memory()
        known = _put_in_order(place, read, text_tokenizer)
        write_json(place / DATA, known | {"key": _key(place, known)})
        for name in (STATE, *reading.IN_READING_ORDER):
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
        kinds = {KEYS: KEY.str, IDS: "<i4", reading.TEXTS: "<u1"}
        arrays = {name: raw_array(place / name, kinds.get(name, "<i8"), mapped) for name in FILES}
        texts = [pa.py_buffer(arrays[name]) for name in (reading.TEXT_OFFSETS, reading.TEXTS)]
        return cls(
            tokens=TokenStore(arrays[IDS], arrays[OFFSETS], known["pad_id"]),
            pairs=PairRows(*(arrays[name] for name in (reading.SOURCE, TARGET, reading.CORPUS, reading.LANGUAGE))),
            sources=known["sources"],
            corpora=tuple(known["corpora"]),
            languages=tuple(known["languages"]),
            keys=arrays[KEYS],
            source_texts=pa.LargeStringArray.from_buffers(known["sources"], *texts),
            text_counts=known["text"],
            token_counts=arrays[COUNTS].reshape(len(known["text"]), -1),
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
            found.languages[language] = replace(LanguageSurvey.without_tokens(**known), counts=counts)
        return found


def _place(pairs: PairSource, tokenizer_key: str, folder: Path) -> Path:
    return folder / f"data-{content_hash(str(FORMAT), pairs.hash, tokenizer_key)[:16]}"


def _key(place: Path, known: dict[str, Any]) -> str:
    """Names the content of a finished build: its counts and names, and every file of it."""
    return content_hash(canonical_json(known), *(file_hash(place / name) for name in FILES))


def _parts(count: int) -> Iterator[slice]:
    """Slices of up to `AT_ONCE` elements."""
    return (slice(start, min(start + AT_ONCE, count)) for start in range(0, count, AT_ONCE))


def _put_in_order(place: Path, read: reading.TextRead, text_tokenizer: TextTokenizer) -> dict[str, Any]:
    """Write what was read in the order of rows; returns counts and names."""
    targets, sources, spoken = (raw_array(place / name, "<i8") for name in (reading.TARGETS, reading.SOURCES, reading.SPOKEN))
    ids, offsets = raw_array(place / reading.IDS, "<i4"), raw_array(place / reading.OFFSETS, "<i8")
    tokens, keys = TokenStore(ids, offsets, text_tokenizer.pad_id), raw_array(place / reading.KEYS, KEY.str)
    row_of = mapped_zeros(place, "<i8", len(keys))  # row + 1 of each sentence; 0 until it is known
    for part in _parts(len(sources)):
        row_of[sources[part]] = 1 + np.arange(part.start, part.stop)
    others = (part.start + np.flatnonzero(row_of[part] == 0) for part in _parts(len(keys)))
    with explaining_disk(place):
        _write_rows(place, chain((sources[part] for part in _parts(len(sources))), others), keys, tokens, row_of)
        with (place / TARGET).open("wb") as handle:
            for part in _parts(len(targets)):
                handle.write((row_of[targets[part]] - 1).tobytes())
        _token_counts(tokens, spoken, len(read.text), text_tokenizer).tofile(place / COUNTS)
    names = {"corpora": read.corpora, "languages": read.languages, "pad_id": text_tokenizer.pad_id}
    text = {language: seen.text_as_dict() for language, seen in read.text.items()}
    return {"pairs": len(targets), "sources": len(sources), "sentences": len(keys), **names, "text": text}


def _write_rows(place: Path, order: Iterable[IntArray], keys: Keys, tokens: TokenStore, row_of: IntArray) -> None:
    """Write keys and tokens of sentences in the given order, and complete `row_of`."""
    with ExitStack() as stack:
        key_file, id_file, offset_file = (stack.enter_context((place / name).open("wb")) for name in (KEYS, IDS, OFFSETS))
        offset_file.write(bytes(8))
        end = done = 0
        for sentences in order:
            row_of[sentences] = 1 + np.arange(done, done + len(sentences))
            ids, lengths = tokens.gather(sentences)
            key_file.write(keys[sentences].tobytes())
            id_file.write(ids.tobytes())
            offset_file.write((end + np.cumsum(lengths)).tobytes())
            end, done = end + len(ids), done + len(sentences)


def _token_counts(tokens: TokenStore, spoken: IntArray, languages: int, text_tokenizer: TextTokenizer) -> IntArray:
    """How often each language uses each row of the vocabulary; `spoken` is the language of each sentence."""
    rows = 1 + max(text_tokenizer.tokenizer.get_vocab().values())
    counts = np.zeros(languages * rows, dtype=np.int64)
    for part in _parts(len(spoken)):
        ends = tokens.offsets[part.start : part.stop + 1]
        used = np.repeat(spoken[part], np.diff(ends)) * rows + tokens.ids_at(slice(ends[0], ends[-1]))
        counts += np.bincount(used, minlength=len(counts))
    return counts
