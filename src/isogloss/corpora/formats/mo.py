"""gettext's compiled .mo files: two tables that say where the originals and their translations are."""

import struct
from collections.abc import Iterator
from contextlib import suppress

from isogloss.corpora.formats.po import Header, entry_texts
from isogloss.corpora.formats.records import RecordOrFault, gathered
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
    for original, translation in _strings(source):
        with suppress(UnicodeDecodeError):
            yield entry_texts(_texts(original, translation))


def _records(source: Source, faults: Faults) -> Iterator[RecordOrFault]:
    header: Header | None = None
    for number, strings in enumerate(_strings(source), start=1):
        try:
            found = _texts(*strings)
        except UnicodeDecodeError as error:
            fault = not_utf8(error.object, error.start, source.name, number)
            yield DataError(fault.message.replace(" line ", " entry "), hint=f"msgunfmt and msgconv change it; or {SKIPPING}")
            continue
        if not found["msgid"]:
            header = Header.read(found["msgstr"], source)
            continue
        header = header or Header.read("", source)
        yield from header.records(found, number, faults)


def _strings(source: Source) -> list[tuple[bytes, bytes]]:
    """Originals and translations."""
    with source.open() as stream:
        data = stream.read(_LARGEST)
    order = _BYTE_ORDERS.get(data[:4])
    if order is None:
        raise DataError(f"{source.name}: not a .mo file", hint="it should come from msgfmt; is it a .po file?")
    try:
        count, *tables = struct.unpack_from(f"{order}3I", data, 8)
        sides = []
        for table in tables:
            places = list(struct.iter_unpack(f"{order}2I", data[table : table + 8 * count]))
            if len(places) != count or any(start + length > len(data) for length, start in places):
                raise ValueError(table)
            sides.append([data[start : start + length] for length, start in places])
    except (struct.error, ValueError) as error:
        raise DataError(f"{source.name}: the .mo file is damaged", hint="make it again with msgfmt") from error
    return list(zip(*sides, strict=True))


def _texts(original: bytes, translation: bytes) -> dict[str, str]:
    """The strings of an entry by their .po keywords; a context comes before U+0004, plurals are separated by NULs."""
    msgid, *plural = original.decode().rpartition("\x04")[2].split("\0")
    if not plural:
        return {"msgid": msgid, "msgstr": translation.decode()}
    forms = {f"msgstr[{number}]": text for number, text in enumerate(translation.decode().split("\0"))}
    return {"msgid": msgid, "msgid_plural": plural[0], **forms}
