"""gettext's .po files: the text of programs and their documentation, entry by entry.

Entries marked fuzzy or obsolete are left out: the first are guesses of a tool, the second belong to older text. Entries
without a translation are no faults either. All three are counted.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from isogloss.corpora.blocks import Blocks
from isogloss.corpora.compression import open_stream
from isogloss.corpora.faults import SKIPPING, Faults
from isogloss.corpora.formats.messages import Catalogue, read_header
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.lines import line_blocks
from isogloss.corpora.sources import Source
from isogloss.errors import DataError

logger = logging.getLogger(__name__)

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
    broken: bool = False

    def text(self, name: str) -> str | None:
        return "".join(self.fields[name]) if name in self.fields else None

    def strings(self) -> dict[int, str]:
        """The translations by their form; a plain msgstr is form 0."""
        named = {name: "".join(pieces) for name, pieces in self.fields.items() if name.startswith("msgstr")}
        return {int(name[7:-1] or 0): text for name, text in named.items()}


def blocks(source: Source, faults: Faults) -> Blocks:
    """The translated entries of a .po file."""
    reader = _Reader(source)
    yield from gathered(reader.records(), source.name, faults)
    if reader.left_out:
        account = ", ".join(f"{count} {kind}" for kind, count in sorted(reader.left_out.items()))
        logger.info("%s: entries left out: %s", source.name, account)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._entry = _Entry()
        self._catalogue: Catalogue | None = None
        self.left_out: Counter[str] = Counter()

    def records(self) -> Iterator[RecordOrFault]:
        """Everything the file has, in its order."""
        with open_stream(self._source.path, self._source.member) as stream:
            for block in line_blocks(stream, self._source.name):
                for row, line in enumerate(block.text().to_pylist()):
                    fault = block.faults.get(row)
                    yield from self._break(fault) if fault else self._line(line.strip(), block.first + row)
        yield from self._finished()

    def _line(self, line: str, number: int) -> Iterator[RecordOrFault]:
        if not line:
            yield from self._finished()
        elif line.startswith("#"):
            yield from self._comment(line)
        else:
            yield from self._string(line, number)

    def _comment(self, line: str) -> Iterator[RecordOrFault]:
        if line.startswith("#~"):
            self.left_out["obsolete"] += line[2:].lstrip().startswith("msgid ")
            return
        if self._entry.fields or self._entry.broken:  # a comment belongs to the entry behind it
            yield from self._finished()
        if line.startswith("#,"):
            self._entry.fuzzy |= "fuzzy" in (flag.strip() for flag in line[2:].split(","))

    def _string(self, line: str, number: int) -> Iterator[RecordOrFault]:
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

    def _break(self, fault: DataError) -> Iterator[RecordOrFault]:
        """An entry with a bad line counts as one fault, however many bad lines it has."""
        if not self._entry.broken:
            self._entry.broken = True
            yield fault

    def _finished(self) -> Iterator[RecordOrFault]:
        entry, self._entry = self._entry, _Entry()
        text = entry.text("msgid")
        if entry.broken or not entry.fields:
            return
        if text is None or not entry.strings():
            yield DataError(
                f"{self._source.name} line {max(entry.line, 1)}: an entry without msgid or msgstr",
                hint=f"msgfmt --check shows what is wrong; or {SKIPPING}",
            )
        elif not text:
            self._catalogue = read_header(entry.strings().get(0, ""), self._source)
        elif entry.fuzzy:
            self.left_out["fuzzy"] += 1
        else:
            yield from self._pairs(entry, text)

    def _pairs(self, entry: _Entry, text: str) -> Iterator[RecordOrFault]:
        self._catalogue = self._catalogue or read_header("", self._source)
        pairs = self._catalogue.pairs(text, entry.text("msgid_plural"), entry.strings())
        self.left_out["untranslated"] += not pairs
        for original, translation in pairs:
            yield Record(entry.line, original, [(self._catalogue.language, translation)])


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
