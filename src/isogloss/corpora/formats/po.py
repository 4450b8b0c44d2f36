"""gettext .po files, read with polib.

Fuzzy, obsolete and untranslated entries are counted and skipped. polib stops at the first error, silently cuts an unclosed
string, and does not resolve numeric escapes. So lines are checked and such escapes resolved before it sees them, and a bad
paragraph costs one fault, not the file.
"""

import gettext
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import polib

from isogloss.corpora.formats.layout import language_unknown
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered, known_code
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.languages import without_region
from isogloss.corpora.reading.lines import line_blocks, numbered
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

LINES_AT_ONCE = 4000  # given to polib together: one call per paragraph would be slow
_STRING = re.compile(r'(?:#~\s+)?(?:(?:msgctxt|msgid|msgid_plural|msgstr)\s+|msgstr\[\d\]\s*)?"[^"\\]*(?:\\.[^"\\]*)*"')
_ESCAPE = re.compile(r"((?:\\x[0-9a-fA-F]{1,2}|\\[0-7]{1,3})+)|\\(.)")
_BYTE = re.compile(r"\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})")
_MANY = 5  # "%d files" is translated by the plural form for five files


def blocks(source: Source, faults: Faults) -> Blocks:
    """The translated entries of a .po file."""
    return gathered(_records(source, faults), source.name, faults)


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """All strings of every entry, fuzzy ones too, each with its keyword; unreadable entries are skipped."""
    for batch in _batches(source):
        if not isinstance(batch, DataError):
            yield from (entry_texts(entry) for entry in batch[1] if not entry.obsolete)


def entry_texts(entry: polib.POEntry | polib.MOEntry) -> list[tuple[str, str]]:
    """The strings of one entry, each with its keyword."""
    translations = [entry.msgstr, *entry.msgstr_plural.values()]
    found = [("msgid", entry.msgid), ("msgid_plural", entry.msgid_plural), *(("msgstr", text) for text in translations)]
    return [(keyword, text) for keyword, text in found if text]


def _records(source: Source, faults: Faults) -> Iterator[RecordOrFault]:
    header: Header | None = None
    for batch in _batches(source):
        if isinstance(batch, DataError):
            yield batch
            continue
        first, catalog = batch
        if catalog.metadata:
            header = Header.read(catalog.metadata, source)
        for entry in catalog:
            if entry.obsolete:
                faults.passed_over["obsolete"] += 1
            elif "fuzzy" in entry.flags:
                faults.passed_over["fuzzy"] += 1
            elif entry.msgid:
                header = header or Header.read({}, source)
                pairs = header.pairs(entry)
                if not pairs:
                    faults.passed_over["untranslated"] += 1
                yield from (Record(first + max(entry.linenum - 1, 0), *pair) for pair in pairs)


class _Text(str):
    """Text of a catalog for polib: only a line feed ends a line, U+2028 and the like are part of a string."""

    def splitlines(self, keepends: bool = False) -> list[str]:
        return self.split("\n")


def _batches(source: Source) -> Iterator["tuple[int, polib.POFile] | DataError"]:
    """Parsed stretches of the file, each with the number of its first line, and the faults between them."""
    batch: list[_Paragraph] = []
    for paragraph in _paragraphs(source):
        if paragraph.fault or sum(len(one.lines) for one in batch) > LINES_AT_ONCE:
            yield from _parsed(batch, source)
            batch = []
        if paragraph.fault:
            yield paragraph.fault
        else:
            batch.append(paragraph)
    yield from _parsed(batch, source)


def _parsed(batch: list["_Paragraph"], source: Source) -> Iterator["tuple[int, polib.POFile] | DataError"]:
    lines: list[str] = []
    for paragraph in batch:
        lines += [""] * (paragraph.first - batch[0].first - len(lines)) + paragraph.lines
    try:
        if lines:
            yield batch[0].first, polib.pofile(_Text("\n".join(lines)))
    except OSError as error:
        if len(batch) > 1:  # find out which one it is
            for paragraph in batch:
                yield from _parsed([paragraph], source)
        else:
            found = re.search(r"line (\d+)", str(error))
            yield _not_po(source, batch[0].first + (int(found[1]) - 1 if found else 0), "")


@dataclass(slots=True)
class _Paragraph:
    """Lines that belong together, without the comments that are not needed, and the first thing wrong with them."""

    first: int
    lines: list[str] = field(default_factory=list)
    fault: DataError | None = None
    ends: bool = False  # the last line is a string: a comment after it belongs to the next entry

    def add(self, line: str, number: int, source: Source) -> None:
        """Take in a line that is not blank."""
        self.ends = not line.startswith("#")
        if not self.ends:
            self.lines.append(line if line.startswith("#,") or (line.startswith("#~") and _STRING.fullmatch(line)) else "")
            return
        resolved = _resolved(line) if _STRING.fullmatch(line) else None
        if resolved is None and not self.fault:
            self.fault = _not_po(source, number, line)
        self.lines.append(resolved or "")

    def checked(self, source: Source) -> "_Paragraph":
        """With a fault where a msgid has no msgstr, which polib takes for an untranslated entry."""
        ids, strings = (sum(line.startswith(start) for line in self.lines) for start in ("msgid ", ("msgstr ", "msgstr[0]")))
        if ids != strings and not self.fault:
            self.fault = _not_po(source, self.first, "an entry without msgid or msgstr")
        return self


def _paragraphs(source: Source) -> Iterator[_Paragraph]:
    """Stretches between blank lines; a comment that follows a string begins a new one, too."""
    now = _Paragraph(1)
    with source.open() as stream:
        for number, line in numbered(line_blocks(stream, source.name)):
            fault = line if isinstance(line, DataError) else None
            text = "" if isinstance(line, DataError) else line.strip()
            long = len(now.lines) > LINES_AT_ONCE and text.startswith(("msgctxt ", "msgid "))
            if now.lines and ((not text and not fault) or (text.startswith("#") and now.ends) or long):
                yield now.checked(source)
                now = _Paragraph(number)
            if fault:
                now.fault = now.fault or fault
            elif text:
                now.first = now.first if now.lines else number
                now.add(text, number, source)
    if now.lines or now.fault:
        yield now.checked(source)


def _not_po(source: Source, number: int, line: str) -> DataError:
    hint = f"msgfmt --check shows what is wrong; or {SKIPPING}"
    return DataError(f"{source.name} line {number}: not a line of a .po file" + (f": {line[:60]}" if line else ""), hint=hint)


def _resolved(line: str) -> str | None:
    """The line with escapes that polib knows only; None if escaped bytes are not UTF-8."""
    try:
        return _ESCAPE.sub(_escape, line) if "\\" in line else line
    except UnicodeDecodeError:
        return None


def _escape(found: re.Match[str]) -> str:
    if found[1]:
        data = bytes((int(one[1], 16) if one[1] else int(one[2], 8)) & 0xFF for one in _BYTE.finditer(found[1]))
        return str(polib.escape(data.decode()))
    return found[0] if found[2] in 'ntrvbf\\"' else {"a": "\a"}.get(found[2], found[2])


@dataclass(frozen=True, slots=True)
class Header:
    """What a catalog's header says: its language, and the plural forms for one and for many (-1: the last)."""

    language: str
    one: int = 0
    many: int = -1

    @classmethod
    def read(cls, metadata: Mapping[str, str], source: Source) -> "Header":
        """From polib's metadata; the language given by the user or the file's name comes first."""
        fields = {name.lower(): value for name, value in metadata.items()}
        locale = without_region(fields.get("language", ""))
        language = source.language or (known_code(locale) if locale else "")
        if not language:
            raise language_unknown(source)
        found = re.search(r"plural\s*=\s*([^;]+)", fields.get("plural-forms", "").partition(";")[2])
        try:
            form = gettext.c2py(found[1].strip()) if found else None
            return cls(language, form(1), form(_MANY)) if form else cls(language)
        except (ValueError, ArithmeticError, RecursionError):
            return cls(language)

    def pairs(self, entry: polib.POEntry | polib.MOEntry) -> list[tuple[str, list[tuple[str, str]]]]:
        """Source and translation of an entry, both numbers of a plural; none where it is not translated.

        A single form for all numbers translates the plural, whose text has the place for the number.
        """
        pairs = [(entry.msgid, entry.msgstr)]
        if strings := entry.msgstr_plural:
            one, many = strings.get(self.one, ""), strings.get(max(strings) if self.many < 0 else self.many, "")
            pairs = [(entry.msgid_plural, many)] if one == many else [(entry.msgid, one), (entry.msgid_plural, many)]
        return [(text, [(self.language, translation)]) for text, translation in pairs if text.strip() and translation.strip()]
