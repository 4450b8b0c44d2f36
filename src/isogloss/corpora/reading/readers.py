"""Read pairs: `stream` gives blocks of any corpus, `read` all pairs as one `Bitext`.

    en-de.tsv.gz                    english<TAB>german            the language is in the name, or given
    travel.tsv                      id  domain  split  en  ar …   a header: one column per language, others by name
    news.de-en.de + news.de-en.en   two line-aligned files        name either of them
    TED2020.en-de.zip, data/, *.po  archives, folders, globs      whatever can be read in them

A malformed line raises with its file and line, unless `on_error` says to skip and count such lines. Formats: docs/data.md.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora import phrasebook
from isogloss.corpora.formats.assemble import trimmed
from isogloss.corpora.reading.filenames import FORMATS, FileEntry, corpus_of, stem_of
from isogloss.corpora.reading.in_memory import PairData, are_paths, as_bitext
from isogloss.corpora.reading.languages import canonical
from isogloss.corpora.reading.lines import text_blocks
from isogloss.corpora.reading.malformed import Faults, unread_in_words
from isogloss.corpora.reading.sources import STORE, Source, find_sources, target_code
from isogloss.corpora.store import open_store
from isogloss.errors import DataError
from isogloss.types import SCHEMA, TRAIN, Bitext, PairSource

logger = logging.getLogger(__name__)


def stream(source: Source, faults: Faults) -> Iterator[pa.Table]:
    """The pairs of one source in blocks with the columns of `BLOCK_SCHEMA`; memory does not grow with the file.

    Malformed lines go to `faults`, which raises or counts them. Damaged files always raise.
    """
    if source.format == STORE:
        yield from open_store(source.path).blocks()
        return
    if source.format not in FORMATS:
        hint = f"choose one of {', '.join(FORMATS)}"
        raise DataError(f"{source.name}: the format {source.format!r} is not known", hint=hint)
    yield from import_module(f"isogloss.corpora.formats.{source.format}").blocks(source, faults)


def read(
    data: PairData,
    languages: Sequence[str] = (),
    language: str | None = None,
    source_language: str = "en",
    on_error: str = "fail",
    format: str | None = None,
    columns: str | None = None,
) -> Bitext:
    """Read parallel sentences into one `Bitext`.

    `data` is one or more paths (files, folders, globs, archives, stores, or "phrasebook" for the shipped pairs), or pairs in
    memory: a list of (source, target[, language]) tuples or of dicts, a pandas or polars DataFrame, a pyarrow Table, a
    `datasets.Dataset`. Columns are source, target and optionally language, split and corpus; or one per language (en, de);
    or `translation` with dicts of these; or name them with `columns="source=NAME,target=NAME"`.

    `languages` keeps only those target languages. `language` is the target language if names or columns do not say it, and
    `format` the format of files. Text is kept as written; `prepare` cleans it.
    """
    faults = Faults(on_error)
    if are_paths(data):
        paths = [data] if isinstance(data, str | Path) else data
        if not paths:
            raise DataError("no files were given to read pairs from", hint='name files, or "phrasebook" for the shipped pairs')
        name = ", ".join(map(str, paths))
        bitext = joined(*(_read(source, faults) for source in find_sources(paths, language, source_language, format, columns)))
    else:
        name = type(data).__name__
        target, source = target_code(language, source_language), canonical(source_language)
        bitext = data if isinstance(data, Bitext) else as_bitext(data, faults, target, source, columns or "")
    if languages:
        bitext = _only(bitext, languages)
    if not len(bitext):
        raise DataError(f"{name}: no pairs", hint="is it empty?")
    return bitext


def _read(source: Source, faults: Faults) -> Bitext:
    if source.format == STORE:
        return open_store(source.path).bitext()
    before, passed_over = faults.count, faults.passed_over.copy()
    tables = [SCHEMA.empty_table()]
    for block in stream(source, faults):
        tables.append(block.append_column("corpus", pa.repeat(source.corpus, block.num_rows)).select(SCHEMA.names))
    skipped = faults.count - before
    if message := unread_in_words(skipped, "" if before else faults.first, faults.passed_over - passed_over):
        logger.log(logging.WARNING if skipped else logging.INFO, "%s: %s", source.name, message)
    return Bitext(pa.concat_tables(tables), source.source_language)


def read_source_text(files: Sequence[str | Path], source_language: str = "en") -> Bitext:
    """Read source-language sentences, one per line, as pairs of a sentence with itself.

    They have no translation, but the teacher embeds them: they show the student more of the teacher's space.
    """
    found = [SCHEMA.empty_table()]
    for name in files:
        path, corpus = Path(name), ""
        if str(name) == phrasebook.READER and not path.is_file():
            path, corpus = phrasebook.reader_path(), phrasebook.READER
        corpus = corpus or corpus_of(FileEntry(path), stem_of(path.name), source_language)
        for block in text_blocks(path):
            text = trimmed(pc.replace_substring(block.text(), "\t", " "))
            text = text.filter(pc.not_equal(text, ""))
            constant = [pa.repeat(value, len(text)) for value in (source_language, corpus, TRAIN)]
            found.append(pa.Table.from_arrays([text, text, *constant], schema=SCHEMA))
    return Bitext(pa.concat_tables(found).combine_chunks(), source_language)


def read_lines(name: str) -> list[str]:
    """Lines of a text file (plain or compressed), or of standard input for "-"; blank lines are kept."""
    lines: list[str] = []
    for block in text_blocks(Path(name)):
        lines += [line.rstrip("\r\n") if not line.isspace() else "" for line in block.text().to_pylist()]
    if not any(lines):
        empty = "standard input is empty" if name == "-" else f"{name}: the file is empty"
        raise DataError(empty, hint="it needs one sentence per line")
    return lines


def joined(first: Bitext, *others: Bitext) -> Bitext:
    """Several bitexts of one source language as one, in order."""
    refuse_several_sources({one.source_language for one in (first, *others)})
    return Bitext(pa.concat_tables([first.table, *(one.table for one in others)]).combine_chunks(), first.source_language)


def refuse_several_sources(languages: Collection[str]) -> None:
    """Raise if pairs that should go together have different source languages."""
    if len(languages) > 1:
        found = ", ".join(sorted(languages))
        raise DataError(f"the files have different source languages: {found}", hint="a run has one source language")


def refuse_missing_languages(wanted: Iterable[str], found: Iterable[str]) -> None:
    """Raise an error that names the wanted languages without pairs, if there are any."""
    if absent := sorted(set(wanted) - set(found)):
        have = ", ".join(sorted(set(found)))
        raise DataError(
            f"no pairs for {', '.join(absent)}" + (f"; there are pairs for {have}" if have else ""),
            hint="take those languages out of `languages`, or add files that have them",
        )


def _only(bitext: Bitext, languages: Sequence[str]) -> Bitext:
    wanted = {canonical(one) for one in languages} | set(languages)
    refuse_missing_languages([one for one in languages if not {one, canonical(one)} & set(bitext.languages)], bitext.languages)
    return bitext.keep(pc.is_in(bitext.table["language"], value_set=pa.array(sorted(wanted))))


def bitext_of(data: PairData) -> Bitext:
    """Pairs in memory, whatever they are given as: a `Bitext`, a store, the result of `prepare`, or what `read` takes."""
    if isinstance(data, Bitext):
        return data
    inner = getattr(data, "bitext", None)
    if inner is None:
        return read(data)
    found: Bitext = inner() if callable(inner) else inner
    return found


def pairs_of(data: PairData) -> PairSource:
    """The same for training, which reads in blocks: a store stays on disk."""
    source: PairSource = data if hasattr(data, "in_blocks") else bitext_of(data)
    return source
