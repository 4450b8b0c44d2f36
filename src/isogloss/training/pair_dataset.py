"""What training reads, made once from any number of pairs: token ids, and pairs as row numbers.

    FOLDER/data-NAME/rows/      the training pairs as row numbers, and the key of every source sentence
    FOLDER/data-NAME/tokens/    the token ids of every distinct sentence, row by row
    FOLDER/data-NAME/data.json  written last: counts, names, and the hash of it all

Pairs are gone through block by block, text is forgotten as soon as it is numbered and tokenized, and arrays are mapped from
disk: memory does not grow with the number of pairs. NAME is made from the pairs and the tokenizer, so a second session
finds the files, and one that was killed is taken up again. `numbering` finds the rows, `models/token_store.py` tokenizes,
`teaching` makes the teacher's vectors by the same rows, `batches` says which pairs are seen together.
"""

import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from isogloss.errors import DataError, IsoglossError
from isogloss.memory import release_memory, trim
from isogloss.models.token_store import IDS, OFFSETS, TextTokenizer, TokenStore, TokenWriter, raw_array
from isogloss.models.vector_cache import KEY, Keys, text_keys
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import (
    atomic_write,
    canonical_json,
    content_hash,
    file_hash,
    folder_lock,
    read_json,
    remove_stale_files,
    write_json,
)
from isogloss.training.batches import PairRows
from isogloss.training.sentence_rows import first_appearances, number_rows, rewrite
from isogloss.training.work_files import use
from isogloss.types import TRAIN, IntArray, PairSource

logger = logging.getLogger(__name__)

FORMAT = 2  # of the files; another number, and what was made before is made again
ROWS, TOKENS, DATA = "rows", "tokens", "data.json"
COLUMNS = ("source", "target", "corpus", "language")
ROW_FILES = (*(f"{name}.i64" for name in COLUMNS), "keys")
KEYS_AT_ONCE = 1 << 16  # as many are in memory, and a few times their size beside them
TOKENISED_AT_ONCE = 2048  # sentences; on its way to ids, one takes some 6 KB
TRIMMED_AFTER = 1 << 13  # pairs


@dataclass(frozen=True, slots=True, eq=False)
class PairDataset:
    """The training pairs as numbers. A row is a distinct sentence; source sentences come first.

    So a source sentence has the same number among the `tokens` and among the teacher's vectors. Rows are in the order of
    first appearance, whatever the blocks; a sentence that is both a source and a target has one row. Held-out pairs are
    not here: nothing that is trained depends on them.
    """

    tokens: TokenStore
    pairs: PairRows
    sources: int  # rows 0 … sources − 1 are source sentences
    corpora: tuple[str, ...]  # what the codes of `pairs` stand for, sorted
    languages: tuple[str, ...]
    source_addresses: Keys  # of the source rows: the keys of the vector cache
    key: str  # names all of the above

    @classmethod
    def build(
        cls, pairs: PairSource, text_tokenizer: TextTokenizer, folder: Path | None = None, on_progress: OnProgress = silent
    ) -> Self:
        """Number and tokenize the training pairs, or find that done in `folder`. Without a folder it is all in memory."""
        if folder is None:
            with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
                return cls._build(pairs, text_tokenizer, Path(temporary), on_progress, mapped=False)
        place = folder / f"data-{content_hash(str(FORMAT), pairs.hash, text_tokenizer.key)[:16]}"
        use(place)
        found = cls._open(place, mapped=True)
        if found is not None:  # any number of processes may read it at once
            on_progress(Step("tokens", len(found.tokens), len(found.tokens), "sentences", "reused"))
            return found
        with folder_lock(place, "another isogloss is making this training data", "wait for it, or name another folder"):
            return cls._build(pairs, text_tokenizer, place, on_progress, mapped=True)

    @classmethod
    def _build(
        cls, pairs: PairSource, text_tokenizer: TextTokenizer, place: Path, on_progress: OnProgress, mapped: bool
    ) -> Self:
        remove_stale_files(place)
        if (place / DATA).exists():  # finished, and damaged since: none of it can be trusted
            logger.warning("%s is damaged, or of another version; it is made again", place)
            for part in (ROWS, TOKENS):
                shutil.rmtree(place / part, ignore_errors=True)
            (place / DATA).unlink()
        known = _numbered(pairs, place / ROWS, on_progress)
        release_memory()
        _tokenize(pairs, place, known, text_tokenizer, on_progress)
        release_memory()
        write_json(place / DATA, known | {"key": _key(place, known)})
        made = cls._open(place, mapped)
        if made is None:
            raise IsoglossError(f"{place}: what was written is not there any more", hint="run the same command again")
        return made

    @classmethod
    def _open(cls, place: Path, mapped: bool) -> Self | None:
        """What a finished build left; None where it is not whole, or not what its key says."""
        known = _read(place / DATA)
        key = known.pop("key", "")
        tokens = TokenStore.open(place / TOKENS, mapped) if key else None
        if tokens is None or key != _key(place, known) or len(tokens) != known["sentences"]:
            return None
        columns = [raw_array(_column(place, name), "<i8", mapped) for name in COLUMNS]
        keys = raw_array(place / ROWS / "keys", KEY.str, mapped)
        if {len(column) for column in columns} != {known["pairs"]} or len(keys) != known["sources"]:
            return None
        names = tuple(known["corpora"]), tuple(known["languages"])
        return cls(tokens, PairRows(*columns), known["sources"], *names, keys, key)

    @property
    def source_keys(self) -> NDArray[np.uint64]:
        """The first half of each source sentence's hash: a number that depends on its text alone."""
        heads: NDArray[np.uint64] = self.source_addresses.view("<u8")[::2]
        return heads

    def source_texts(self, pairs: PairSource) -> Iterator[tuple[int, pa.Array]]:
        """The source sentences in the order of their rows, block by block, each block with the number of its first row."""
        return _distinct_texts(pairs, "source", lambda start, count: self.pairs.source[start : start + count], 0)


# ── numbering ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _blocks(pairs: PairSource) -> Iterator[pa.Table]:
    """The training pairs, block by block; what reading them took goes back now and then, before a block is worked on."""
    since = 0
    for block in pairs.in_blocks(TRAIN):
        since += block.num_rows
        if since >= TRIMMED_AFTER:
            trim()
            since = 0
        yield block
        del block  # or it would be there while the next is read


def _column(place: Path, name: str) -> Path:
    return place / ROWS / f"{name}.i64"


def _key(place: Path, known: dict[str, Any]) -> str:
    """Names the content of a finished build: its counts and names, and every file of it."""
    files = [*(place / ROWS / name for name in ROW_FILES), place / TOKENS / IDS, place / TOKENS / OFFSETS]
    if not all(file.is_file() for file in files):
        return "unfinished"
    return content_hash(canonical_json(known), *(file_hash(file) for file in files))


def _numbered(pairs: PairSource, folder: Path, on_progress: OnProgress) -> dict[str, Any]:
    """Counts and names of the pairs, whose rows and codes are in `folder` then. Interrupted, it begins again."""
    kept = _read(folder / "rows.json")
    if kept and kept.get("checksums") == _checksums(folder):
        known: dict[str, Any] = kept["known"]
        return known
    with atomic_write(folder) as temporary:
        temporary.mkdir()
        codes = {"corpus": _Codes(), "language": _Codes()}
        done = _read_pairs(pairs, temporary, codes, on_progress)
        if not done:
            raise DataError("there are no pairs to train on: all are held out", hint="lower pairs.held_out or add pairs")
        keys = [temporary / f"{side}.keys" for side in COLUMNS[:2]]
        sources, sentences = number_rows(keys, [temporary / f"{side}.i64" for side in COLUMNS[:2]], KEYS_AT_ONCE)
        _keep_first_keys(keys[0], temporary / "source.i64", temporary / "keys")
        for path in keys:
            path.unlink()
        names = {column: codes[column].sort(temporary / f"{column}.i64") for column in codes}
        known = {"pairs": done, "sources": sources, "sentences": sentences}
        known |= {"corpora": names["corpus"], "languages": names["language"]}
        write_json(temporary / "rows.json", {"known": known, "checksums": _checksums(temporary)})
    return known


def _checksums(folder: Path) -> dict[str, str]:
    """The checksum of each file of rows that is there."""
    return {name: file_hash(folder / name) for name in ROW_FILES if (folder / name).is_file()}


def _read_pairs(pairs: PairSource, folder: Path, codes: "dict[str, _Codes]", on_progress: OnProgress) -> int:
    """Write the key of every side and the code of every corpus and language to files, pair by pair; how many there are."""
    done = 0
    with ExitStack() as stack:
        files = {side: stack.enter_context((folder / f"{side}.keys").open("wb")) for side in COLUMNS[:2]}
        files |= {name: stack.enter_context((folder / f"{name}.i64").open("wb")) for name in codes}
        for block in _blocks(pairs):
            for side in COLUMNS[:2]:
                files[side].write(text_keys(block.column(side).to_pylist()).tobytes())
            for name in codes:
                files[name].write(codes[name].of(block.column(name)).tobytes())
            done += block.num_rows
            del block
            on_progress(Step("numbering", done, len(pairs), "pairs"))
    on_progress(Step("numbering", len(pairs), len(pairs), "pairs"))
    return done


def _keep_first_keys(keys: Path, rows: Path, out: Path) -> None:
    """The keys of the source rows, row by row: each source's key where it first appears."""
    seen, count = 0, keys.stat().st_size // KEY.itemsize
    with out.open("wb") as handle:
        for start in range(0, count, KEYS_AT_ONCE):
            new = first_appearances(np.fromfile(rows, "<i8", KEYS_AT_ONCE, offset=8 * start), seen)
            handle.write(np.fromfile(keys, KEY, KEYS_AT_ONCE, offset=KEY.itemsize * start)[new].tobytes())
            seen += int(new.sum())


class _Codes:
    """Names as numbers, in the order they come; sorted when all are known."""

    def __init__(self) -> None:
        self.code_of: dict[str, int] = {}

    def of(self, column: pa.ChunkedArray) -> IntArray:
        encoded = column.combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        codes = np.array([self.code_of.setdefault(name, len(self.code_of)) for name in names], dtype="<i8")
        return np.asarray(codes[encoded.indices.to_numpy()])

    def sort(self, path: Path) -> list[str]:
        """Give the codes of a file in the order of their names, which are returned."""
        names = sorted(self.code_of)
        rank = np.empty(len(names), dtype=np.int64)
        rank[[self.code_of[name] for name in names]] = np.arange(len(names))
        for start in range(0, path.stat().st_size // 8, KEYS_AT_ONCE):
            rewrite(path, start, rank[np.fromfile(path, "<i8", KEYS_AT_ONCE, offset=8 * start)])
        return names


def _read(path: Path) -> dict[str, Any]:
    """Counts and names as they were written; empty where they are not there, or not what they should be."""
    try:
        known = read_json(path)
    except (OSError, ValueError, RecursionError):
        return {}
    counted = {"pairs": int, "sources": int, "sentences": int, "corpora": list, "languages": list}
    whole = isinstance(known, dict) and all(type(known.get(name)) is kind for name, kind in counted.items())
    return known if whole else {}


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tokenize(
    pairs: PairSource, place: Path, known: dict[str, Any], text_tokenizer: TextTokenizer, on_progress: OnProgress
) -> None:
    """Tokenize the distinct sentences in the order of their rows: sources, then targets. What is there is gone over."""
    with TokenWriter(place / TOKENS, text_tokenizer) as writer:
        note = f"continued at {writer.rows:,}" if writer.rows else ""
        on_progress(Step("tokens", writer.rows, known["sentences"], "sentences", note))
        for side, seen in (("source", 0), ("target", known["sources"])):
            path = _column(place, side)
            if side == "source" and writer.rows >= known["sources"]:
                continue
            for first, texts in _distinct_texts(pairs, side, partial(_rows, path), seen):
                missing = texts[max(writer.rows - first, 0) :]
                for start in range(0, len(missing), TOKENISED_AT_ONCE):
                    writer.add(missing[start : start + TOKENISED_AT_ONCE].to_pylist())
                if len(missing):
                    on_progress(Step("tokens", writer.rows, known["sentences"], "sentences", note))
                del texts, missing
        if writer.rows != known["sentences"]:
            raise changed_meanwhile()
        writer.finish()


def _rows(path: Path, start: int, count: int) -> IntArray:
    return np.fromfile(path, "<i8", count, offset=8 * start)


def _distinct_texts(
    pairs: PairSource, side: str, rows_of: Callable[[int, int], IntArray], seen: int
) -> Iterator[tuple[int, pa.Array]]:
    """Each new sentence of one side, block by block, with the row of the first; `seen` rows came before this side."""
    start = 0
    for block in _blocks(pairs):
        rows = rows_of(start, block.num_rows)
        if len(rows) != block.num_rows:
            raise changed_meanwhile()
        new = first_appearances(rows, seen)
        texts = block.column(side).combine_chunks().filter(pa.array(new))
        del block
        yield seen, texts
        del texts
        seen, start = seen + int(new.sum()), start + len(rows)


def changed_meanwhile() -> DataError:
    """Pairs are gone through several times, and have to be the same each time."""
    return DataError("the pairs changed while they were read", hint="run the same command again")
