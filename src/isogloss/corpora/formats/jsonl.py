"""JSON Lines with the keys of any of these examples.

{"source": "Good day.", "target": "Guten Tag.", "language": "de"}
{"en": "Good day.", "de": "Guten Tag.", "fr": "Bonjour."}
{"translation": {"en": "Good day.", "de": "Guten Tag."}}
{"english": "Good day.", "non_english": "Guten Tag."}
"""

import json
from collections.abc import Iterator
from typing import Any

from isogloss.corpora.formats.layout import Layout, from_codes, from_header, from_user, parse_columns
from isogloss.corpora.formats.records import RecordOrFault, gathered, record_of
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import line_blocks, numbered
from isogloss.corpora.reading.malformed import SKIPPING, Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError
from isogloss.shapes import parse_json

NESTED = "translation"
_KEYS = f"keys must be source and target, language codes, or a {NESTED} of language codes"


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a JSONL file. A null among several translations is skipped; an empty one is a fault."""
    return gathered(_records(source), source.name, faults)


def _records(source: Source) -> Iterator[RecordOrFault]:
    read_object = _Objects(source)
    with source.open() as stream:
        for number, line in numbered(line_blocks(stream, source.name)):
            if isinstance(line, DataError):
                yield line
            elif not line.isspace():
                yield read_object(line, number)


class _Objects:
    """Turns objects into records. The layout of a set of keys is found once, since most lines have the same."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._columns = parse_columns(source.columns)
        self._layouts: dict[tuple[tuple[str, ...], bool], Layout | None] = {}

    def __call__(self, line: str, number: int) -> RecordOrFault:
        try:
            found = parse_json(line)
        except ValueError as error:
            what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
            return self._fault(number, f"not JSON ({what})", f"each line must be one object; or {SKIPPING}")
        if not isinstance(found, dict):
            return self._fault(number, "not a JSON object", f'write {{"source": …, "target": …}}; or {SKIPPING}')
        nested = not self._columns.places and isinstance(found.get(NESTED), dict)
        return self._sides(found[NESTED] if nested else found, number, nested)

    def _fault(self, number: int, what: str, hint: str) -> DataError:
        return DataError(f"{self._source.name} line {number}: {what}", hint=hint)

    def _sides(self, found: dict[str, Any], number: int, nested: bool) -> RecordOrFault:
        keys = tuple(found)
        if (keys, nested) not in self._layouts:
            if len(self._layouts) > 1000:  # the keys are data
                self._layouts.clear()
            self._layouts[keys, nested] = self._layout(keys, number, nested)
        layout = self._layouts[keys, nested]
        if layout is None:
            return self._fault(number, f"the keys are {', '.join(keys)[:80] or 'none'}", f"{_KEYS}; or {SKIPPING}")
        values = list(found.values())
        for place in layout.used:
            value = values[place]
            if place == layout.score and isinstance(value, int | float) and not isinstance(value, bool):
                continue
            if value is not None and not isinstance(value, str):
                if place == layout.score:
                    return self._fault(number, f"the score is {str(value)[:40]}, not a number", "write it like 1.05")
                return self._fault(number, f"{str(value)[:40]} is not text", f"sides must be strings; or {SKIPPING}")
        return record_of(layout, values, number)

    def _layout(self, keys: tuple[str, ...], number: int, nested: bool) -> Layout | None:
        if nested:
            return from_codes(keys, self._source)
        if not self._columns.places:
            return from_header(keys, self._source, number, strict=False)
        wanted = {place for _, place in self._columns.places}
        return from_user(self._columns, keys, self._source, number) if wanted <= set(keys) else None
