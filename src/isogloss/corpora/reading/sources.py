"""Turn the names a user gives (files, folders, globs, archives, standard input) into `Source`s."""

import glob
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from isogloss.amounts import amount
from isogloss.corpora import phrasebook
from isogloss.corpora.reading.compression import STANDARD_INPUT as STANDARD_INPUT
from isogloss.corpora.reading.compression import ByteStream, is_archive, members, open_stream, unpacked_name, unreadable
from isogloss.corpora.reading.filenames import (
    FORMATS,
    FileEntry,
    MosesFiles,
    catalog_language,
    corpus_of,
    format_of,
    half_of,
    is_no_corpus,
    matched,
    missing_half,
    pair_of,
    stem_of,
)
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code, pair_in, same_language
from isogloss.corpora.reading.lines import LineBlock, line_blocks
from isogloss.corpora.reading.origin import origin_of
from isogloss.corpora.store import is_store
from isogloss.errors import DataError

logger = logging.getLogger(__name__)

STORE, MOSES, IN_MEMORY = "store", "moses", "memory"
_NOTHING_HINT = (
    f"formats are {', '.join(FORMATS)}, plain or compressed; set the format and the language if names do not say them"
)
_MISSING_HINT = "check the path; files, folders, globs and - for standard input can be named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One thing to read: where it is, its format, its languages.

    `path` may be an archive with the file `member`. Moses text is two line-aligned files: `path` has the source side, `other`
    (or `other_member`) the target side, and `scores` (or `scores_member`) an optional number per line.
    """

    path: Path
    format: str
    corpus: str
    language: str = ""  # of the target; empty if the file says it per row or column
    source_language: str = "en"
    source_first: bool = True  # for two columns without names
    member: str = ""
    other: Path | None = None
    other_member: str = ""
    scores: Path | None = None
    scores_member: str = ""
    dictionary: bool = False
    license: str = ""
    version: str = ""
    columns: str = ""  # which column holds what, by the user: see formats/layout.py
    called: str = ""  # its name in messages, if that is not its path

    @property
    def name(self) -> str:
        """Its name in messages."""
        return self.called or (f"{self.path}:{self.member}" if self.member else str(self.path))

    def open(self) -> ByteStream:
        """Its decompressed bytes; of Moses text, those of the source side."""
        return open_stream(self.path, self.member, self.called)

    def line_blocks(self) -> Iterator[LineBlock]:
        """Its text in blocks of whole lines."""
        with self.open() as stream:
            yield from line_blocks(stream, self.name)


def find_sources(
    names: str | Path | Sequence[str | Path],
    language: str | None = None,
    source_language: str = "en",
    format: str | None = None,
    columns: str | None = None,
    dictionaries: Sequence[str] = (),
) -> list[Source]:
    """All sources in the order of `names`; those of a folder or a glob are sorted by name.

    A file that is named must be readable. In folders, globs and archives, files that are not corpora are skipped and counted
    in the log. `dictionaries` are patterns of corpora that hold entries, not sentences.
    """
    if format is not None and format not in FORMATS:
        raise DataError(f"the format {format!r} is not known", hint=f"choose one of {', '.join(FORMATS)}")
    target = target_code(language, source_language)
    search = _Search(target, canonical(source_language), format, columns or "", tuple(dictionaries))
    found: list[Source] = []
    for name in [names] if isinstance(names, str | Path) else names:
        for source in search.named(str(name)):
            if source.format != MOSES or source not in found:  # both halves of a pair may be named
                found.append(source)
    return found


def target_code(language: str | None, source_language: str) -> str:
    """The target language that the user gave, as a canonical code; "" if none."""
    target = canonical(language) if language else ""
    if target and not is_shaped_like_a_code(target):
        raise DataError(f"{language!r} is not a language code", hint="for example de, pt-BR or zh-Hant")
    if target and target == canonical(source_language):
        raise DataError(f"the target language cannot be the source language, {target}", hint="set it to the other language")
    return target


def _exists(path: Path) -> str:
    """Whether a path is a "file", a "folder" or nothing ("")."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a NUL in the name
        return ""
    except OSError as error:
        raise unreadable(str(path), error) from error
    return "folder" if path.is_dir() else "file"


@dataclass(frozen=True, slots=True)
class _Search:
    """What the user said about the files, and how names become sources."""

    target: str  # the target language; "" if the user did not say it
    source_language: str
    format: str | None
    columns: str
    dictionaries: tuple[str, ...]

    def named(self, name: str) -> list[Source]:
        if name == str(STANDARD_INPUT):
            return [self._standard_input()]
        kind = _exists(Path(name)) if name else ""
        if name == phrasebook.NAME and kind != "file":
            return [replace(self._source(FileEntry(phrasebook.path()), "tsv"), corpus=phrasebook.NAME, language="")]
        if kind == "file":
            return self._file(FileEntry(Path(name)))
        if kind == "folder":
            return self._folder(Path(name))
        if glob.has_magic(name):
            return self._glob(name)
        raise DataError(f"{name or repr(name)}: no such file", hint=_MISSING_HINT)

    def _standard_input(self) -> Source:
        if self.format == MOSES:
            raise DataError("standard input cannot be Moses text, which is two files", hint="paste the two together as TSV")
        kind = self.format or "tsv"
        return Source(
            path=STANDARD_INPUT,
            format=kind,
            corpus="stdin",
            called="standard input",
            language=self.target,
            source_language=self.source_language,
            dictionary=FORMATS[kind].dictionary,
            columns=self.columns,
        )

    def _glob(self, pattern: str) -> list[Source]:
        paths = [Path(name) for name in sorted(glob.glob(pattern, recursive=True))]
        if not paths:
            raise DataError(f"{pattern}: no file matches", hint=_MISSING_HINT)
        files = [FileEntry(path) for path in paths if _exists(path) == "file"]
        found = self._among(files, pattern, chosen=self.format is not None)
        if "**" not in pattern:  # otherwise the files of folders have matched, too
            found += [source for path in paths if _exists(path) == "folder" for source in self._folder(path)]
        if not found:
            raise DataError(
                f"{pattern}: matches {amount(len(paths), 'file')}, but none that can be read as pairs", hint=_NOTHING_HINT
            )
        return found

    def _folder(self, folder: Path) -> list[Source]:
        if is_store(folder):
            return [Source(path=folder, format=STORE, corpus=folder.name, source_language=self.source_language)]
        paths = list(_walk(folder))
        found = [store for path in paths if path.is_dir() for store in self._folder(path)]
        found += self._among([FileEntry(path) for path in paths if not path.is_dir()], str(folder), chosen=False)
        if not found:
            raise DataError(f"{folder}: is a folder without a file that can be read as pairs", hint=_NOTHING_HINT)
        return found

    def _file(self, entry: FileEntry) -> list[Source]:
        """A file that the user named; it must be readable."""
        if is_archive(entry.name):
            if found := self._archive(entry.path):
                return found
            raise DataError(f"{entry.path}: the archive has no file that can be read as pairs", hint=_NOTHING_HINT)
        kind = self.format or format_of(entry.name)
        half = half_of(entry.name, self.source_language) if kind in ("", MOSES) else None
        if half:
            return self._half(entry, half, _neighbors(entry), chosen=True)
        if kind == MOSES:
            raise DataError(f"{entry.path}: the name does not end in a language", hint="Moses text is news.en and news.de")
        return [self._source(entry, kind or "tsv")]

    def _archive(self, path: Path) -> list[Source]:
        """The corpora of an archive. If they are all of one language, the archive's own name says which.

        OPUS has `en-jp` inside of `en-ja`, and `zh_cn` inside of `zh`.
        """
        found = self._among([FileEntry(path, name) for name in members(path)], str(path), chosen=False)
        outer = pair_in(stem_of(path.name), self.source_language)
        if outer and len({source.language for source in found}) == 1 and found[0].language:
            return [replace(source, language=outer[0]) for source in found]
        return found

    def _among(self, entries: Sequence[FileEntry], place: str, chosen: bool) -> list[Source]:
        """The corpora among many files; the others are counted. `chosen` reads unknown names in the user's format."""
        found: list[Source] = []
        skipped: list[FileEntry] = []
        beside: dict[tuple[Path, str, str], list[FileEntry]] = {}
        for entry in entries:
            beside.setdefault(_family(entry), []).append(entry)
        paired: set[tuple[Path, str, str]] = set()
        for entry in entries:
            if _family(entry) in paired:
                continue  # the other file, or the scores, of Moses text
            new = [] if _is_hidden(entry) else self._one_of(entry, beside[_family(entry)], chosen)
            found += new
            if any(source.format == MOSES for source in new):
                paired.add(_family(entry))
            if not new:
                skipped.append(entry)
        if skipped:
            missed = any(format_of(entry.name) and not is_no_corpus(entry.name) for entry in skipped)
            names = ", ".join(entry.member or entry.path.name for entry in skipped[:5]) + (", …" if len(skipped) > 5 else "")
            message = "%s: %s skipped, of unknown format or language: %s"
            logger.log(logging.WARNING if missed else logging.INFO, message, place, amount(len(skipped), "file"), names)
        return found

    def _one_of(self, entry: FileEntry, neighbors: Iterable[FileEntry], chosen: bool) -> list[Source]:
        if is_archive(entry.name):
            return [] if entry.member else self._archive(entry.path)
        kind = format_of(entry.name)
        half = half_of(entry.name, self.source_language) if not kind else None
        if half and self.format in (None, MOSES):
            return self._half(entry, half, neighbors, chosen=False)
        if self.format:
            fits = chosen or kind == self.format or (self.format == "muse" and kind == "tsv")
            return [self._source(entry, self.format)] if fits and self.format != MOSES else []
        if not kind or entry.name.lower().endswith(".json"):
            return []
        source = self._source(entry, kind)
        return [source] if self._is_corpus(source) else []

    def _half(self, entry: FileEntry, half: tuple[str, str], neighbors: Iterable[FileEntry], chosen: bool) -> list[Source]:
        """The pairs that one Moses file belongs to. A chosen one, or one with a pair in its name, must have another file."""
        pair = pair_in(half[0], self.source_language)
        self._agreed(pair[0] if pair else "", entry)
        found = matched(*half, neighbors, self.source_language, self.target, chosen)
        if not found and (pair or chosen):
            raise missing_half(entry, *half, self.source_language, self.target)
        return [self._moses(halves) for halves in found]

    def _is_corpus(self, source: Source) -> bool:
        """Whether a text file that was not named says its languages somewhere; a README.txt does not."""
        if source.language or self.columns or source.format not in ("tsv", "csv"):
            return True
        from isogloss.corpora.formats.csv import names_its_languages

        return names_its_languages(source)

    def _source(self, entry: FileEntry, kind: str) -> Source:
        """A source of one file."""
        stem = stem_of(entry.name)
        catalog = FORMATS[kind].catalog
        if catalog:
            named, first = catalog_language(entry, stem), True
        else:
            named, first = pair_of(entry, stem, self.source_language) or ("", True)
        source = Source(
            path=entry.path,
            member=entry.member,
            format=kind,
            corpus=corpus_of(entry, stem, self.source_language, catalog),
            language=self._agreed(named, entry),
            source_language=self.source_language,
            source_first=first,
            columns=self.columns,
        )
        return self._with_origin(self._sniffed(source))

    def _sniffed(self, source: Source) -> Source:
        """With the format that the name leaves open: .txt may be a word list."""
        plain = source.format == "tsv" and source.language and not self.format and not self.columns
        if plain and unpacked_name(source.member or source.path.name)[0].lower().endswith(".txt"):
            from isogloss.corpora.formats.muse import is_word_list

            return replace(source, format="muse") if is_word_list(source) else source
        return source

    def _moses(self, halves: MosesFiles) -> Source:
        entry, target, scores = halves.source, halves.target, halves.scores
        self._agreed(halves.language, target)
        source = Source(
            path=entry.path,
            member=entry.member,
            other=None if target.member else target.path,
            other_member=target.member,
            scores=scores.path if scores and not scores.member else None,
            scores_member=scores.member if scores else "",
            format=MOSES,
            corpus=corpus_of(entry, halves.stem, self.source_language),
            language=self.target or halves.language,
            source_language=self.source_language,
        )
        return self._with_origin(source)

    def _agreed(self, named: str, entry: FileEntry) -> str:
        """The target language of the user or of the file name, which must agree."""
        if named and self.target and not same_language(named, self.target):
            raise DataError(
                f"{entry.path}: the file name says {named}, but --language (in a recipe pairs.language) says {self.target}",
                hint="rename the file, or leave --language (in a recipe pairs.language) out",
            )
        return self.target or named

    def _with_origin(self, source: Source) -> Source:
        """With the corpus, version and license that were noted when it was downloaded."""
        if origin := origin_of(source.path) or (origin_of(source.other) if source.other else None):
            about = {name: getattr(origin, name) for name in ("corpus", "version", "license", "dictionary")}
            source = replace(source, **about)
        listed = any(fnmatch(source.corpus, pattern) for pattern in self.dictionaries)
        return replace(source, dictionary=source.dictionary or listed or FORMATS[source.format].dictionary)


def _family(entry: FileEntry) -> tuple[Path, str, str]:
    """The folder and the name up to its last part: the same for both files of Moses text."""
    return *entry.folder, unpacked_name(entry.name)[0].rpartition(".")[0]


def _neighbors(entry: FileEntry) -> list[FileEntry]:
    try:
        return [FileEntry(path) for path in sorted(entry.path.parent.iterdir()) if path.is_file()]
    except OSError:  # a file may be readable in a folder that is not
        return [entry]


def _is_hidden(entry: FileEntry) -> bool:
    inner = entry.member.split("/") if entry.member else [entry.path.name]
    return any(is_no_corpus(part) for part in inner[:-1] if part.startswith((".", "__"))) or is_no_corpus(inner[-1])


def _walk(folder: Path) -> Iterator[Path]:
    """The files and stores under a folder, sorted; links are followed once."""

    def refused(error: OSError) -> None:
        raise DataError(f"{error.filename}: cannot be read ({error.strerror})", hint="check who may read the folder")

    seen: set[str] = set()
    for place, folders, files in os.walk(folder, onerror=refused, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if real not in seen else []
        if real in seen:
            continue
        seen.add(real)
        stores = [name for name in folders if is_store(Path(place, name))]
        folders[:] = [name for name in folders if name not in stores]
        yield from (Path(place, name) for name in sorted([*files, *stores]))
