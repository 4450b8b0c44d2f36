"""gettext .po files: entries with a msgid, its translation, and flags.

Fuzzy, obsolete and untranslated entries are counted and skipped. A broken entry costs one fault, not the file.
"""

import gettext
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from isogloss.corpora.formats.layout import language_unknown
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.languages import is_shaped_like_a_code, without_region
from isogloss.corpora.reading.lines import numbered
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[\d\])?)(?![\w\[])\s*")
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(r"((?:\\x[0-9a-fA-F]{1,2}|\\[0-7]{1,3})+)|\\(.)")
_BYTE = re.compile(r"\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})")
_MEANING = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "b": "\b", "f": "\f", "a": "\a"}
_MANY = 5  # "%d files" is translated by the plural form for five files


def blocks(source: Source, faults: Faults) -> Blocks:
    """The translated entries of a .po file."""
    return gathered(_records(source, faults), source.name, faults)


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """All strings of every entry, fuzzy ones too, each with its keyword; broken entries are skipped."""
    return (entry_texts(entry.texts()) for entry in _entries(source) if not entry.obsolete and not entry.fault)


def entry_texts(found: Mapping[str, str]) -> list[tuple[str, str]]:
    """The strings of one entry, each with its keyword; none of the header."""
    wanted = found.items() if found.get("msgid") else ()
    return [(keyword.partition("[")[0], text) for keyword, text in wanted if text and keyword != "msgctxt"]


def _records(source: Source, faults: Faults) -> Iterator[RecordOrFault]:
    header: Header | None = None
    for entry in _entries(source):
        found = entry.texts()
        if entry.obsolete:
            faults.passed_over["obsolete"] += 1
        elif entry.fault:
            yield entry.fault
        elif not found["msgid"]:
            header = Header.read(found.get("msgstr", ""), source)
        elif entry.fuzzy:
            faults.passed_over["fuzzy"] += 1
        else:
            header = header or Header.read("", source)
            yield from header.records(found, entry.line, faults)


@dataclass(slots=True)
class _Entry:
    """The lines of an entry so far, and the first thing wrong with them."""

    name: str  # of the file
    line: int = 0  # of its flags or first string
    pieces: dict[str, list[str]] = field(default_factory=dict)  # by keyword
    keyword: str = ""  # of the last line; "" after a comment
    fuzzy: bool = False
    obsolete: bool = False
    fault: DataError | None = None

    def texts(self) -> dict[str, str]:
        """Its strings by keyword."""
        return {keyword: "".join(pieces) for keyword, pieces in self.pieces.items()}

    def ends_before(self, text: str) -> bool:
        """Whether a line belongs to the next entry: a blank one, a comment after a string, or one that begins an entry."""
        if not text or not self.keyword:
            return not text
        obsolete = text.startswith("#~")
        if text.startswith("#") and not obsolete:
            return True
        found = _KEYWORD.match(text.removeprefix("#~").lstrip())
        begins = found is not None and found[1] in ("msgctxt", "msgid")
        return obsolete != self.obsolete or (begins and bool(self.pieces.keys() - {"msgctxt"}))

    def add(self, text: str, number: int) -> None:
        """Take in a line that is not blank. Of comments, only flags and old entries are of interest."""
        if text.startswith("#,"):
            self.line = self.line or number
            self.fuzzy = self.fuzzy or "fuzzy" in re.split(r"[,\s]+", text)
        if text.startswith("#~") and _STRING.fullmatch(_KEYWORD.sub("", text[2:].lstrip(), count=1)):
            self.obsolete, text = True, text[2:].lstrip()
        if not text.startswith("#"):
            self._add_string(text, number)

    def _add_string(self, text: str, number: int) -> None:
        self.line = self.line or number
        found = _KEYWORD.match(text)
        string = _STRING.fullmatch(text, found.end() if found else 0)
        self.keyword = found[1] if found else self.keyword or "msgstr"
        known = self.keyword in self.pieces
        lost = known if found else not known  # a second translation, or a string without a keyword
        lost = lost or (self.keyword not in ("msgctxt", "msgid") and "msgid" not in self.pieces)
        try:
            self.pieces.setdefault(self.keyword, []).append(_ESCAPE.sub(_unescaped, string[1]) if string else "")
        except UnicodeDecodeError:
            lost = True
        if (lost or not string) and not self.fault:
            self.fault = _not_po(self.name, number, text)

    def checked(self) -> "_Entry":
        """With a fault where a msgid has no msgstr."""
        complete = "msgid" in self.pieces and any(keyword.startswith("msgstr") for keyword in self.pieces)
        if not complete and not self.fault:
            self.fault = _not_po(self.name, self.line, "an entry without msgid or msgstr")
        return self


def _entries(source: Source) -> Iterator[_Entry]:
    entry = _Entry(source.name)
    for number, line in chain(numbered(source.line_blocks()), [(0, "")]):  # a blank line ends the last entry
        if isinstance(line, DataError):
            entry.fault, entry.line = entry.fault or line, entry.line or number
            continue
        text = line.strip()
        if entry.ends_before(text):
            if entry.pieces or entry.fault:
                yield entry.checked()
            entry = _Entry(source.name)
        if text:
            entry.add(text, number)


def _not_po(name: str, number: int, line: str) -> DataError:
    hint = f"msgfmt --check shows what is wrong; or {SKIPPING}"
    return DataError(f"{name} line {number}: not a line of a .po file: {line[:60]}", hint=hint)


def _unescaped(found: re.Match[str]) -> str:
    if found[1]:
        return bytes((int(one[1], 16) if one[1] else int(one[2], 8)) & 0xFF for one in _BYTE.finditer(found[1])).decode()
    return _MEANING.get(found[2], found[2])


@dataclass(frozen=True, slots=True)
class Header:
    """What a catalog's header says: its language, and the plural forms for one and for many (-1: the last)."""

    language: str
    one: int = 0
    many: int = -1

    @classmethod
    def read(cls, text: str, source: Source) -> "Header":
        """From the translation of the empty string; the language given by the user or the file's name comes first."""
        fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in text.split("\n"))}
        locale = without_region(fields.get("language", ""))
        language = source.language or (locale if is_shaped_like_a_code(locale) else "")
        if not language:
            raise language_unknown(source)
        found = re.search(r"plural\s*=\s*([^;]+)", fields.get("plural-forms", "").partition(";")[2])
        try:
            form = gettext.c2py(found[1].strip()) if found else None
            return cls(language, form(1), form(_MANY)) if form else cls(language)
        except (ValueError, ArithmeticError, RecursionError):
            return cls(language)

    def records(self, texts: Mapping[str, str], line: int, faults: Faults) -> Iterator[Record]:
        """Source and translation of an entry, both numbers of a plural; what is not translated is counted.

        A single form for all numbers translates the plural, whose text has the place for the number.
        """
        pairs = [(texts["msgid"], texts.get("msgstr", ""))]
        forms = {int(keyword[7:-1]): text for keyword, text in texts.items() if keyword.startswith("msgstr[")}
        if forms:
            one, many = forms.get(self.one, ""), forms.get(max(forms) if self.many < 0 else self.many, "")
            plural = (texts.get("msgid_plural", ""), many)
            pairs = [plural] if one == many else [(texts["msgid"], one), plural]
        pairs = [(text, translation) for text, translation in pairs if text.strip() and translation.strip()]
        if not pairs:
            faults.passed_over["untranslated"] += 1
        yield from (Record(line, text, [(self.language, translation)]) for text, translation in pairs)
