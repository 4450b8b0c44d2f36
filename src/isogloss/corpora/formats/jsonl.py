"""JSON Lines with the keys of any of these examples.

{"source": "Good day.", "target": "Guten Tag.", "language": "de"}
{"en": "Good day.", "de": "Guten Tag.", "fr": "Bonjour."}
{"translation": {"en": "Good day.", "de": "Guten Tag."}}
{"english": "Good day.", "non_english": "Guten Tag."}
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from isogloss.corpora.formats.layout import Layout, from_codes, from_header, from_user, parse_columns
from isogloss.corpora.formats.records import Record, RecordOrFault, gathered, record_of
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import numbered
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
    columns = parse_columns(source.columns)
    number = 0

    @lru_cache(maxsize=1000)  # most lines have the same keys
    def layout_of(keys: tuple[str, ...], nested: bool) -> Layout | None:
        if nested:
            return from_codes(keys, source)
        if not columns.places:
            return from_header(keys, source, number, strict=False)
        wanted = {place for _, place in columns.places}
        return from_user(columns, keys, source, number) if wanted <= set(keys) else None

    for number, line in numbered(source.line_blocks()):
        if isinstance(line, DataError):
            yield line
        elif not line.isspace():
            try:
                found = _parsed(line)
                nested = not columns.places and isinstance(found.get(NESTED), dict)
                found = found[NESTED] if nested else found
                yield _record(found, layout_of(tuple(found), nested), number)
            except _Unusable as problem:
                yield DataError(f"{source.name} line {number}: {problem}", hint=f"{problem.hint}; or {SKIPPING}")


class _Unusable(Exception):
    """Why a line is not a pair."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except ValueError as error:
        what = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)
        raise _Unusable(f"not JSON ({what})", "each line must be one object") from error
    if not isinstance(found, dict):
        raise _Unusable("not a JSON object", 'write {"source": …, "target": …}')
    return found


def _record(found: dict[str, Any], layout: Layout | None, number: int) -> Record:
    if layout is None:
        raise _Unusable(f"the keys are {', '.join(found)[:80] or 'none'}", _KEYS)
    values = list(found.values())
    for place in layout.used:
        value, kinds = values[place], str | int | float if place == layout.score else str
        if value is None or (isinstance(value, kinds) and not isinstance(value, bool)):
            continue
        if place == layout.score:
            raise _Unusable(f"the score is {str(value)[:40]}, not a number", "write it like 1.05")
        raise _Unusable(f"{str(value)[:40]} is not text", "sides must be strings")
    return record_of(layout, values, number)
