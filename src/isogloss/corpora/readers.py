"""Files in, `Bitext` out: tab-separated text, plain or gzipped, two-column or N-way.

    en-de.tsv.gz      english<TAB>german            no header: the language comes from the name, or is told
    travel.tsv        id  domain  split  en  ar …   header: one column per language, further columns by name

A reader never guesses in silence: a line that does not fit stops it with the file and the line, unless `on_error="skip"`
was asked for, and then the count of what was left out is kept.
"""

import gzip
import logging
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pyarrow as pa

from isogloss.corpora import phrasebook
from isogloss.corpora.prepare import read_prepared
from isogloss.errors import DataError
from isogloss.types import TEST, TRAIN, Bitext, Pair

logger = logging.getLogger(__name__)

NAMED_COLUMNS = {"id", "source", "target", "language", "corpus", "domain", "split", "score"}
LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,4})?")
SUFFIXES = (".tsv", ".txt", ".tab")
SKIPPING = 'leave such lines out and count them with --on-error skip, in a recipe pairs.on_error = "skip"'


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column holds what: the source, the language of each target column, and the optional split column."""

    source: int
    targets: tuple[tuple[int, str], ...]
    language: int | None = None
    split: int | None = None

    @property
    def width(self) -> int:
        """How many columns a line must have at least."""
        used = [self.source, *(place for place, _ in self.targets), self.language or 0, self.split or 0]
        return max(used) + 1


def read(
    files: str | Path | Sequence[str | Path],
    languages: Sequence[str] = (),
    language: str | None = None,
    source_language: str = "en",
    on_error: str = "fail",
) -> Bitext:
    """Read parallel sentences from one or more files (or the word "phrasebook") into one `Bitext`.

    `languages` keeps only those target languages (all when empty); `language` says the target language of two-column
    files whose name does not tell. Sides are kept as written; `prepare` cleans them. A prepared Parquet file brings its
    own source language.
    """
    if on_error not in ("fail", "skip"):
        raise DataError(f"on_error {on_error!r} is not known", hint="choose fail or skip")
    names = [files] if isinstance(files, str | Path) else list(files)
    if not names:
        raise DataError("no files were given to read pairs from", hint='name TSV files, or "phrasebook" for the shipped pairs')
    bitext = joined(*(_read_one(Path(name), language, source_language, on_error, str(name)) for name in names))
    if languages:
        bitext = _only(bitext, languages)
    if not len(bitext):
        raise DataError(f"{', '.join(map(str, names))}: no pairs", hint="is the file empty?")
    return bitext


def read_source_text(files: Sequence[str | Path], source_language: str = "en") -> Bitext:
    """Read source-language sentences, one a line, as pairs of a sentence with itself.

    They have no translation, but the teacher says where they belong: they show the student more of the teacher's space.
    """
    pairs: list[Pair] = []
    for name in files:
        path, corpus = Path(name), Path(name).name.split(".")[0]
        if str(name) == phrasebook.READER and not path.is_file():
            path, corpus = phrasebook.reader_path(), phrasebook.READER
        if not path.is_file():
            raise DataError(f"{path}: no such file", hint="source text is one sentence a line, plain or .gz")
        for _, cells in _lines(path):
            text = " ".join(cells).strip()
            pairs.append(Pair(text, text, source_language, corpus, TRAIN))
    return Bitext.of(pairs, source_language)


def joined(first: Bitext, *others: Bitext) -> Bitext:
    """Several bitexts of one source language as one, in order."""
    if others and {one.source_language for one in others} != {first.source_language}:
        found = ", ".join(sorted({one.source_language for one in (first, *others)}))
        raise DataError(f"the files have different source languages: {found}", hint="a run has one source language")
    return Bitext(pa.concat_tables([first.table, *(one.table for one in others)]).combine_chunks(), first.source_language)


def _only(bitext: Bitext, languages: Sequence[str]) -> Bitext:
    absent = sorted(set(languages) - set(bitext.languages))
    if absent:
        raise DataError(
            f"no pairs for {', '.join(absent)}: the files have {', '.join(bitext.languages)}",
            hint="take those languages out of `languages`, or add files that have them",
        )
    wanted = set(languages)
    return bitext.keep(pa.array([one in wanted for one in bitext.column("language")]))


def _read_one(path: Path, language: str | None, source_language: str, on_error: str, name: str) -> Bitext:
    corpus = path.name.split(".")[0]
    if name == phrasebook.NAME and not path.is_file():
        path, corpus = phrasebook.path(), phrasebook.NAME
    if not path.is_file():
        kind = "is a folder, not a file" if path.is_dir() else "no such file"
        raise DataError(f"{path}: {kind}", hint="check the path; folders and globs are not read yet, name each file")
    if path.suffix == ".parquet":
        return read_prepared(path)
    skipped: list[str] = []
    pairs = list(_pairs(path, corpus, language, source_language, on_error, skipped))
    if skipped:
        logger.warning("%s: %d lines left out, the first because: %s", path, len(skipped), skipped[0])
    return Bitext.of(pairs, source_language)


def _pairs(
    path: Path, corpus: str, language: str | None, source_language: str, on_error: str, skipped: list[str]
) -> Iterator[Pair]:
    lines = _lines(path)
    try:
        number, first = next(lines)
    except StopIteration:
        return
    layout = _layout_from_header(first, language, source_language, path)
    if layout is None:
        other, source_first = _language_of(path, language, source_language)
        layout = Layout(0, ((1, other),)) if source_first else Layout(1, ((0, other),))
    else:
        number, first = next(lines, (number, []))
    while first:
        try:
            yield from list(_pairs_of_line(first, layout, corpus, path, number))  # a line counts whole or not at all
        except DataError as error:
            if on_error == "fail":
                raise
            skipped.append(error.message)
        number, first = next(lines, (number, []))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Numbered lines split at tabs; blank lines are passed over. Bytes are decoded line by line to name the bad one."""
    with _open(path) as handle:
        number = 0
        try:
            for number, raw in enumerate(handle, start=1):
                try:
                    text = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise DataError(
                        f"{path} line {number}: not UTF-8 (byte 0x{raw[error.start]:02x} at column {error.start + 1})",
                        hint=f"convert it first: iconv -f LATIN1 -t UTF-8 {path.name} > fixed.tsv",
                    ) from error
                if text.strip():
                    yield number, text.split("\t")
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"{path}: the compressed file is damaged after line {number} ({error})", hint="download it again"
            ) from error


def _open(path: Path) -> IO[bytes]:
    try:
        return cast("IO[bytes]", gzip.GzipFile(path)) if path.suffix == ".gz" else path.open("rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})", hint="check who may read the file") from error


def _layout_from_header(cells: list[str], language: str | None, source_language: str, path: Path) -> Layout | None:
    """Understand a header line, or return None if the first line is already data."""
    names = [cell.strip() for cell in cells]
    named = {"source", "target"} <= set(names) or source_language in names
    if len(names) < 2 or not named:
        return None
    if odd := [name for name in names if name not in NAMED_COLUMNS and not LANGUAGE_CODE.fullmatch(name)]:
        raise DataError(
            f"{path} line 1: the header has the unknown column {odd[0]!r}",
            hint=f"columns are language codes and {', '.join(sorted(NAMED_COLUMNS))}; take the others out",
        )
    if "source" in names and "target" in names:
        told = names.index("language") if "language" in names else None
        target = "" if told is not None else _language_of(path, language, source_language)[0]
        source, targets = names.index("source"), ((names.index("target"), target),)
    elif source_language in names:
        source, told = names.index(source_language), None
        codes = [(i, name) for i, name in enumerate(names) if i != source and name not in NAMED_COLUMNS]
        targets = tuple(codes)  # type: ignore[assignment]
    else:
        return None
    if not targets:
        raise DataError(f"{path} line 1: no column for a second language", hint=f"the header is: {' '.join(names)}")
    return Layout(source, targets, told, names.index("split") if "split" in names else None)


def _language_of(path: Path, told: str | None, source_language: str) -> tuple[str, bool]:
    """The target language, as told or from a name such as `en-de.tsv.gz`, and whether the source column comes first.

    The order of the codes in the name is the order of the columns: `news.de-en.tsv` has German first.
    """
    stem = path.name.removesuffix(".gz")
    for suffix in SUFFIXES:
        stem = stem.removesuffix(suffix)
    for part in reversed(re.split(r"[._]", stem)):
        codes = part.split("-")
        if len(codes) == 2 and source_language in codes and all(LANGUAGE_CODE.fullmatch(code) for code in codes):
            other, source_first = (codes[1], True) if codes[0] == source_language else (codes[0], False)
            if told and told != other:
                raise DataError(
                    f"{path}: the name says {other}, but it was told {told}", hint="rename it, or leave --language out"
                )
            return other, source_first
    if told:
        return told, True
    raise DataError(
        f"{path}: the target language is not known",
        hint=f"name it {source_language}-XX.tsv, give it a header line, or tell it: --language XX, in a recipe pairs.language",
    )


def _pairs_of_line(cells: list[str], layout: Layout, corpus: str, path: Path, number: int) -> Iterator[Pair]:
    if len(cells) < layout.width:
        columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
        raise DataError(
            f"{path} line {number}: {columns}, expected {layout.width} or more",
            hint=f"is it tab-separated? {SKIPPING}",
        )
    source = cells[layout.source].strip()
    split = cells[layout.split].strip() if layout.split is not None else ""
    if split not in ("", TRAIN, TEST):
        raise DataError(f"{path} line {number}: the split is {split!r}", hint="it must be train, test, or empty")
    for place, code in layout.targets:
        target = cells[place].strip()
        language = cells[layout.language].strip() if layout.language is not None else code
        if not language:
            raise DataError(f"{path} line {number}: the language is empty", hint="every line needs its language code")
        if not source or not target:
            side = "source" if not source else f"target ({language})"
            raise DataError(
                f"{path} line {number}: the {side} side is empty",
                hint=f"remove the line; or {SKIPPING}",
            )
        yield Pair(source, target, language, corpus, split)


def read_lines(name: str) -> list[str]:
    """Lines of a text file (plain or .gz), or of standard input for "-"; blank lines stay, so rows match lines."""
    if name == "-":
        try:
            typed = [line.decode("utf-8").rstrip("\r\n") for line in sys.stdin.buffer]
        except UnicodeDecodeError as error:
            raise DataError("standard input is not UTF-8", hint="convert it first with iconv") from error
        if not any(typed):
            raise DataError("standard input is empty", hint="pipe one sentence a line into it")
        return typed
    path = Path(name)
    if not path.is_file():
        raise DataError(f"{path}: no such file", hint="give a file with one sentence a line, or - for standard input")
    lines: list[str] = []
    for number, cells in _lines(path):
        lines += [""] * (number - 1 - len(lines)) + ["\t".join(cells)]
    if not lines:
        raise DataError(f"{path}: the file is empty", hint="it needs one sentence a line")
    return lines
