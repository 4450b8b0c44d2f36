"""gettext's compiled .mo files, read with polib.

polib reads strings that run past the end of a file as if they were whole, and stops at one that is not UTF-8. So the table
is checked first, and strings are decoded here, entry by entry.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress

import polib

from isogloss.corpora.formats.po import Header, entry_texts
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import not_utf8
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

_BYTE_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
_LARGEST = 2**28  # bytes; the table may point anywhere, so the whole file is in memory


def blocks(source: Source, faults: Faults) -> Blocks:
    """The entries of a compiled catalog, numbered as in its table."""
    return gathered(_records(source, faults), source.name, faults, unit="entry")


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """All strings of every entry, each with its .po keyword; entries that are not UTF-8 are skipped."""
    for entry in _catalog(source):
        with suppress(UnicodeDecodeError):
            yield entry_texts(_decoded(entry))


def _records(source: Source, faults: Faults) -> Iterator[RecordOrFault]:
    catalog = _catalog(source)
    header: Header | None = None
    for number, entry in enumerate(catalog, start=2 if catalog.metadata else 1):
        try:
            metadata = {name: _utf8(value) for name, value in catalog.metadata.items()} if header is None else {}
            header = header or Header.read(metadata, source)
            pairs = header.pairs(_decoded(entry))
        except UnicodeDecodeError as error:
            fault = not_utf8(error.object, error.start, source.name, number)
            yield DataError(fault.message.replace(" line ", " entry "), hint=f"msgunfmt and msgconv change it; or {SKIPPING}")
            continue
        if not pairs:
            faults.passed_over["untranslated"] += 1
        yield from (Record(number, *pair) for pair in pairs)


def _catalog(source: Source) -> polib.MOFile:
    """The file's entries; as Latin-1, which has a character for every byte."""
    with source.open() as stream:
        data = stream.read(_LARGEST)
    order = _BYTE_ORDERS.get(data[:4])
    if order is None:
        raise DataError(f"{source.name}: not a .mo file", hint="it should come from msgfmt; is it a .po file?")
    try:
        count, *tables = struct.unpack_from(f"{order}3I", data, 8)
        for table in tables:
            for length, start in struct.iter_unpack(f"{order}2I", data[table : table + 8 * count]):
                if start + length > len(data):
                    raise ValueError(start)
        return polib.mofile(data, encoding="latin-1")
    except (struct.error, ValueError, OSError) as error:
        raise DataError(f"{source.name}: the .mo file is damaged", hint="make it again with msgfmt") from error


def _utf8(text: str) -> str:
    return text.encode("latin-1").decode()


def _decoded(entry: polib.MOEntry) -> polib.MOEntry:
    forms = {number: _utf8(text) for number, text in entry.msgstr_plural.items()}
    texts = {name: _utf8(getattr(entry, name)) for name in ("msgid", "msgid_plural", "msgstr")}
    return polib.MOEntry(**texts, msgstr_plural=forms)
