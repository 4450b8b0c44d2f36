"""gettext's .po files: the text of programs and their documentation, entry by entry.

Entries marked fuzzy or obsolete are left out: the first are guesses of a tool, the second belong to older text. Entries
without a translation are no faults either. All three are counted.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from isogloss.corpora.formats.messages import Catalogue, read_header
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import line_blocks
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

_LINE = re.compile(r'(?:(msgctxt|msgid|msgid_plural|msgstr|msgstr\[(\d{1,2})\])\s*)?"([^"\\]*(?:\\.[^"\\]*)*)"')
_BYTES = r"(?:\\x[0-9a-fA-F]{1,2}|\\[0-7]{1,3})+"
_ESCAPE = re.compile(rf"({_BYTES})|\\(.)")
_BYTE = re.compile(r"\\x([0-9a-fA-F]{1,2})|\\([0-7]{1,3})")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


@dataclass(slots=True)
class _Entry:
    line: int = 0
    fields: dict[str, list[str]] = field(default_factory=dict)
    latest: str = ""  # the field that a continued string belongs to
    fuzzy: bool = False
    obsolete: bool = False  # nothing else is known of such an entry
    broken: bool = False

    def text(self, name: str) -> str | None:
        return "".join(self.fields[name]) if name in self.fields else None

    def strings(self) -> dict[int, str]:
        """The translations by their form; a plain msgstr is form 0."""
        named = {name: "".join(pieces) for name, pieces in self.fields.items() if name.startswith("msgstr")}
        return {int(name[7:-1] or 0): text for name, text in named.items()}


_EntryOrFault = _Entry | DataError


def blocks(source: Source, faults: Faults) -> Blocks:
    """The translated entries of a .po file."""
    return gathered(_records(source, faults), source.name, faults)


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """Every string of every entry, fuzzy ones too, under its keyword; what cannot be read is left out."""
    for entry in _Reader(source).entries():
        if isinstance(entry, _Entry) and entry.text("msgid"):
            fields = ((name.partition("[")[0], "".join(pieces)) for name, pieces in entry.fields.items())
            yield [(name, text) for name, text in fields if name != "msgctxt"]


def _records(source: Source, faults: Faults) -> Iterator[RecordOrFault]:
    catalogue: Catalogue | None = None
    for entry in _Reader(source).entries():
        if isinstance(entry, DataError):
            yield entry
        elif entry.obsolete:
            faults.passed_over["obsolete"] += 1
        elif not (text := entry.text("msgid")):
            catalogue = read_header(entry.strings().get(0, ""), source)
        elif entry.fuzzy:
            faults.passed_over["fuzzy"] += 1
        else:
            catalogue = catalogue or read_header("", source)
            pairs = catalogue.pairs(text, entry.text("msgid_plural"), entry.strings())
            if not pairs:
                faults.passed_over["untranslated"] += 1
            for original, translation in pairs:
                yield Record(entry.line, original, [(catalogue.language, translation)])


class _Reader:
    """Puts entries together line by line; the one with an empty msgid is the header."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._entry = _Entry()

    def entries(self) -> Iterator[_EntryOrFault]:
        """Everything the file has, in its order."""
        with self._source.open() as stream:
            for block in line_blocks(stream, self._source.name):
                for row, line in enumerate(block.text().to_pylist()):
                    fault = block.faults.get(row)
                    yield from self._break(fault) if fault else self._line(line.strip(), block.first + row)
        yield from self._finished()

    def _line(self, line: str, number: int) -> Iterator[_EntryOrFault]:
        if not line:
            yield from self._finished()
        elif line.startswith("#"):
            yield from self._comment(line)
        else:
            yield from self._string(line, number)

    def _comment(self, line: str) -> Iterator[_EntryOrFault]:
        if line.startswith("#~"):
            if line[2:].lstrip().startswith("msgid "):
                yield _Entry(obsolete=True)
            return
        if self._entry.fields or self._entry.broken:  # a comment belongs to the entry behind it
            yield from self._finished()
        if line.startswith("#,"):
            self._entry.fuzzy |= "fuzzy" in (flag.strip() for flag in line[2:].split(","))

    def _string(self, line: str, number: int) -> Iterator[_EntryOrFault]:
        found = _LINE.fullmatch(line)
        text = _unescaped(found[3]) if found else None
        name = (found[1] or self._entry.latest) if found else ""
        if found and _begins_another(found[1], self._entry):
            yield from self._finished()
        if text is None or not name or (found and found[1] and name in self._entry.fields):
            yield from self._break(
                DataError(
                    f"{self._source.name} line {number}: not a line of a .po file: {line[:60]}",
                    hint=f"msgfmt --check shows what is wrong; or {SKIPPING}",
                )
            )
            return
        if found and found[1] == "msgid":
            self._entry.line = number
        self._entry.fields.setdefault(name, []).append(text)
        self._entry.latest = name

    def _break(self, fault: DataError) -> Iterator[_EntryOrFault]:
        """An entry with a bad line counts as one fault, however many bad lines it has."""
        if not self._entry.broken:
            self._entry.broken = True
            yield fault

    def _finished(self) -> Iterator[_EntryOrFault]:
        entry, self._entry = self._entry, _Entry()
        text = entry.text("msgid")
        if entry.broken or not entry.fields:
            return
        if text is None or not entry.strings():
            yield DataError(
                f"{self._source.name} line {max(entry.line, 1)}: an entry without msgid or msgstr",
                hint=f"msgfmt --check shows what is wrong; or {SKIPPING}",
            )
        else:
            yield entry


def _begins_another(name: str | None, entry: _Entry) -> bool:
    """Entries need no blank line between them: a second text begins one, and so does a context behind any text."""
    return (name == "msgid" and name in entry.fields) or (name == "msgctxt" and bool(entry.fields))


def _unescaped(text: str) -> str | None:
    """The text that was meant; None if its escapes are no UTF-8."""
    if "\\" not in text:
        return text
    try:
        return _ESCAPE.sub(lambda one: _bytes(one[1]) if one[1] else _LETTERS.get(one[2], one[2]), text)
    except UnicodeDecodeError:
        return None


def _bytes(escapes: str) -> str:
    return bytes((int(one[1], 16) if one[1] else int(one[2], 8)) & 0xFF for one in _BYTE.finditer(escapes)).decode()
