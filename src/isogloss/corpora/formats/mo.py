"""gettext's compiled .mo files: a table of where each text and its translation lie."""

import struct
from collections.abc import Iterator
from contextlib import suppress

from isogloss.corpora.formats.messages import Catalogue, read_header
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import not_utf8
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

_ORDERS = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}
_LARGEST = 2**28  # bytes; the tables may point anywhere, so the file is read whole


def blocks(source: Source, faults: Faults) -> Blocks:
    """The entries of a compiled catalogue, numbered as they stand in its table."""
    return gathered(_records(source, faults), source.name, faults, unit="entry")


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """Every string of every entry, under the keyword that it has in a .po file; what is not UTF-8 is left out."""
    for original, translation in _entries(source):
        with suppress(UnicodeDecodeError):
            text, plural, strings = _decoded(original, translation)
            if text:
                yield [("msgid", text), ("msgid_plural", plural or ""), *(("msgstr", one) for one in strings.values())]


def _records(source: Source, faults: Faults) -> Iterator[RecordOrFault]:
    catalogue: Catalogue | None = None
    for number, (original, translation) in enumerate(_entries(source), start=1):
        try:
            text, plural, strings = _decoded(original, translation)
        except UnicodeDecodeError as error:
            fault = not_utf8(error.object, error.start, source.name, number)
            yield DataError(fault.message.replace(" line ", " entry "), hint=f"msgunfmt and msgconv change it; or {SKIPPING}")
            continue
        if not text:
            catalogue = read_header(strings[0], source)
            continue
        catalogue = catalogue or read_header("", source)
        pairs = catalogue.pairs(text, plural, strings)
        if not pairs:
            faults.passed_over["untranslated"] += 1
        for one, other in pairs:
            yield Record(number, one, [(catalogue.language, other)])


def _decoded(original: bytes, translation: bytes) -> tuple[str, str | None, dict[int, str]]:
    """The text without its context, its plural if it has one, and the translations by their form."""
    text = original.decode().rpartition("\x04")[2]
    singular, nul, plural = text.partition("\0")
    forms = translation.decode().split("\0") if nul else [translation.decode()]
    return singular, plural if nul else None, dict(enumerate(forms))


def _entries(source: Source) -> Iterator[tuple[bytes, bytes]]:
    with source.open() as stream:
        data = stream.read(_LARGEST)
    order = _ORDERS.get(data[:4])
    if order is None:
        raise DataError(f"{source.name}: not a .mo file", hint="it should come from msgfmt; is it a .po file?")
    try:
        count, originals, translations = struct.unpack_from(f"{order}3I", data, 8)
        for row in range(count):
            yield _string(data, order, originals + 8 * row), _string(data, order, translations + 8 * row)
    except (struct.error, IndexError) as error:
        raise DataError(f"{source.name}: the .mo file is damaged", hint="make it again with msgfmt") from error


def _string(data: bytes, order: str, place: int) -> bytes:
    length, start = struct.unpack_from(f"{order}2I", data, place)
    if start + length > len(data):
        raise IndexError(place)
    return data[start : start + length]
