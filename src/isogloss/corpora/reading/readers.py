"""Files in, pairs out: `stream` gives blocks of any size of corpus, `read` all of it as one `Bitext`.

    en-de.tsv.gz                    english<TAB>german            the language comes from the name, or is told
    travel.tsv                      id  domain  split  en  ar …   a header: one column per language, further columns by name
    news.de-en.de + news.de-en.en   two line-aligned files        named by either of the two
    TED2020.en-de.zip, data/, *.po  archives, folders, globs      whatever can be read in them

A reader never guesses in silence: a line that does not fit stops it with the file and the line, unless `on_error` was
told to bear with it, and then what was left out is counted. Layouts: docs/data.md.
"""

import logging
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora import phrasebook
from isogloss.corpora.formats.assemble import trimmed
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.compression import open_stream
from isogloss.corpora.reading.filenames import FORMATS, Entry, corpus_of, stem_of
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.lines import LineBlock, line_blocks
from isogloss.corpora.reading.malformed import Faults, unread_in_words
from isogloss.corpora.reading.sources import STORE, Source, find_sources
from isogloss.corpora.store import open_store
from isogloss.errors import DataError
from isogloss.types import SCHEMA, TRAIN, Bitext, PairSource

logger = logging.getLogger(__name__)


class _Format(Protocol):
    def blocks(self, source: Source, faults: Faults) -> Blocks: ...


def stream(source: Source, faults: Faults) -> Iterator[pa.Table]:
    """The pairs of one source, block by block, with the columns of `BLOCK_SCHEMA`; memory does not grow with the file.

    Lines that do not fit go to `faults`, which raises or counts them. Damaged files always raise.
    """
    if source.format == STORE:
        yield from open_store(source.path).blocks()
        return
    name = source.format
    if name not in FORMATS:
        raise DataError(f"{source.name}: the format {name!r} is not known", hint=f"choose one of {', '.join(FORMATS)}")
    reader = cast("_Format", import_module(f"isogloss.corpora.formats.{name}"))
    yield from reader.blocks(source, faults)


def read(
    files: str | Path | Sequence[str | Path],
    languages: Sequence[str] = (),
    language: str | None = None,
    source_language: str = "en",
    on_error: str = "fail",
    format: str | None = None,
    columns: str | None = None,
) -> Bitext:
    """Read parallel sentences from files, folders, globs or archives (or the word "phrasebook") into one `Bitext`.

    `languages` keeps only those target languages (all when empty); `language` says the target language of files whose name
    does not tell, `format` and `columns` how they are written. Sides are kept as written; `prepare` cleans them. Prepared
    data brings its own source language.
    """
    faults = Faults(on_error)
    names = [files] if isinstance(files, str | Path) else list(files)
    if not names:
        raise DataError("no files were given to read pairs from", hint='name files, or "phrasebook" for the shipped pairs')
    sources = find_sources(names, language, source_language, format, columns)
    bitext = joined(*(_read_one(source, faults) for source in sources))
    if languages:
        bitext = _only(bitext, languages)
    if not len(bitext):
        raise DataError(f"{', '.join(map(str, names))}: no pairs", hint="is the file empty?")
    return bitext


def _read_one(source: Source, faults: Faults) -> Bitext:
    if source.format == STORE:
        return open_store(source.path).bitext()
    before, passed_over = faults.count, faults.passed_over.copy()
    tables = [_with_corpus(block, source.corpus) for block in stream(source, faults)]
    left_out = faults.count - before
    if said := unread_in_words(left_out, "" if before else faults.first, faults.passed_over - passed_over):
        logger.log(logging.WARNING if left_out else logging.INFO, "%s: %s", source.name, said)
    return Bitext(pa.concat_tables([SCHEMA.empty_table(), *tables]), source.source_language)


def _with_corpus(block: pa.Table, corpus: str) -> pa.Table:
    return block.append_column("corpus", pa.repeat(corpus, block.num_rows)).select(SCHEMA.names)


def read_source_text(files: Sequence[str | Path], source_language: str = "en") -> Bitext:
    """Read source-language sentences, one a line, as pairs of a sentence with itself.

    They have no translation, but the teacher says where they belong: they show the student more of the teacher's space.
    """
    found = [SCHEMA.empty_table()]
    for name in files:
        path, corpus = Path(name), ""
        if str(name) == phrasebook.READER and not path.is_file():
            path, corpus = phrasebook.reader_path(), phrasebook.READER
        corpus = corpus or corpus_of(Entry(path), stem_of(path.name), source_language)
        for block in _text_blocks(str(path), "source text is one sentence a line, plain or packed"):
            text = trimmed(pc.replace_substring(block.text(), "\t", " "))
            text = text.filter(pc.not_equal(text, ""))
            constant = [pa.repeat(value, len(text)) for value in (source_language, corpus, TRAIN)]
            found.append(pa.Table.from_arrays([text, text, *constant], schema=SCHEMA))
    return Bitext(pa.concat_tables(found).combine_chunks(), source_language)


def read_lines(name: str) -> list[str]:
    """Lines of a text file (plain or packed), or of standard input for "-"; blank lines stay, so rows match lines."""
    lines: list[str] = []
    for block in _text_blocks(name, "give a file with one sentence a line, or - for standard input"):
        lines += [line.rstrip("\r\n") if not line.isspace() else "" for line in block.text().to_pylist()]
    if not any(lines):
        empty = "standard input is empty" if name == "-" else f"{name}: the file is empty"
        raise DataError(empty, hint="it needs one sentence a line")
    return lines


def _text_blocks(name: str, hint: str) -> Iterator[LineBlock]:
    path = Path(name)
    label = "standard input" if name == "-" else name
    try:
        missing = name != "-" and not path.exists()
    except OSError as error:  # a name that is too long, for one
        raise DataError(f"{name[:200]}: cannot be read ({error.strerror})", hint=hint) from error
    if missing or path.is_dir():
        raise DataError(f"{name}: {'no such file' if missing else 'is a folder, not a file'}", hint=hint)
    with open_stream(path) as opened:
        for block in line_blocks(opened, label):
            for fault in block.faults.values():
                raise fault
            yield block


def joined(first: Bitext, *others: Bitext) -> Bitext:
    """Several bitexts of one source language as one, in order."""
    if others and {one.source_language for one in others} != {first.source_language}:
        found = ", ".join(sorted({one.source_language for one in (first, *others)}))
        raise DataError(f"the files have different source languages: {found}", hint="a run has one source language")
    return Bitext(pa.concat_tables([first.table, *(one.table for one in others)]).combine_chunks(), first.source_language)


def _only(bitext: Bitext, languages: Sequence[str]) -> Bitext:
    wanted = {canonical(one) for one in languages} | set(languages)
    absent = sorted(one for one in languages if not {one, canonical(one)} & set(bitext.languages))
    if absent:
        raise DataError(
            f"no pairs for {', '.join(absent)}: the files have {', '.join(bitext.languages)}",
            hint="take those languages out of `languages`, or add files that have them",
        )
    return bitext.keep(pc.is_in(bitext.table["language"], value_set=pa.array(sorted(wanted))))


def bitext_of(data: Any) -> Bitext:  # noqa: ANN401 - paths, pairs in memory, a prepared store, or the result of `prepare`
    """Pairs in memory, whatever they are given as: a `Bitext`, a store, the result of `prepare`, or what `read` takes."""
    if isinstance(data, Bitext):
        return data
    inner = getattr(data, "bitext", None)
    if inner is None:
        return read(data)
    found: Bitext = inner() if callable(inner) else inner
    return found


def pairs_of(data: Any) -> PairSource:  # noqa: ANN401 - as for bitext_of
    """The same for training, which reads in blocks: a store stays on disk."""
    source: PairSource = data if hasattr(data, "in_blocks") else bitext_of(data)
    return source
