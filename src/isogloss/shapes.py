"""Parse and validate JSON and TOML that others may have written or damaged.

    SHAPE = {"hash": TEXT, "parts": [{"file": FILE_NAME, "rows": COUNT}], "note?": TEXT, "languages": Each(TEXT, COUNT)}
    check(parse_json(text), SHAPE)         # Misfit: "parts[3].file is not the name of a file"

A dict is an object with these keys (a key that ends in "?" is optional, further keys are allowed); a list of one shape is a
list of any length; a tuple holds alternatives. `as_type` makes dataclasses. Every failure is a ValueError.
"""

import json
import math
import re
import tomllib
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import TypeAdapter

from isogloss.shown import printable

T = TypeVar("T")

LARGEST = 2**63 - 1
DEEPEST, TOO_DEEP = 100, "nested too deeply"
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_JSON_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class Misfit(ValueError):
    """A value of the wrong shape."""


class Leaf(NamedTuple):
    """A plain value: its name in errors, and its test."""

    name: str
    fits: Callable[[Any], bool]


class Each(NamedTuple):
    """An object used as a map: its keys, and the shape of its values."""

    key: Leaf
    value: Any


def _is_text(value: object) -> bool:
    return isinstance(value, str) and not _HALF_PAIR.search(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) <= LARGEST


def _is_file_name(value: object) -> bool:
    """Whether it names a file in a folder and cannot lead out of it, on any system."""
    if not isinstance(value, str) or not _is_text(value) or printable(value) != value:
        return False
    return 0 < len(value.encode()) < 256 and value not in (".", "..") and not set(value) & set("/\\:")


TEXT = Leaf("text", _is_text)
FLAG = Leaf("true or false", lambda value: isinstance(value, bool))
NUMBER = Leaf("a number", _is_number)
COUNT = Leaf("a count", lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST)
FILE_NAME = Leaf("the name of a file", _is_file_name)
SHA256 = Leaf("a SHA-256 checksum", lambda value: isinstance(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None)
NOTHING = Leaf("null", lambda value: value is None)
ANYTHING = Leaf("anything", lambda value: True)
OBJECT = Each(TEXT, ANYTHING)


def parse_json(text: str | bytes | bytearray) -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Parse JSON; any problem is a ValueError, including more than a hundred levels and unpaired surrogates."""
    plain = text if isinstance(text, str) else text.decode(json.detect_encoding(text))
    try:
        value = json.loads(plain)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    if plain.count("[") + plain.count("{") > DEEPEST and _depth(plain) > DEEPEST:
        raise ValueError(TOO_DEEP)
    if _ESCAPED_HALF.search(plain) and _HALF_PAIR.search(json.dumps(value, ensure_ascii=False)):
        raise ValueError("unpaired surrogate")
    return value


def _depth(text: str) -> int:
    """The deepest nesting of valid JSON: code that walks the value afterwards may recurse once per level."""
    brackets = re.findall(r"[\[\]{}]", _JSON_STRING.sub("", text))
    return max(accumulate(1 if bracket in "[{" else -1 for bracket in brackets))


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML; any problem is a ValueError."""
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error


def check(value: Any, shape: Any, place: str = "") -> Any:  # noqa: ANN401 - whatever JSON can hold
    """Return the value if it has the shape, else raise Misfit."""
    if isinstance(shape, Leaf):
        _require(shape.fits(value), place, shape.name)
    elif isinstance(shape, list):
        _require(isinstance(value, list), place, "a list")
        for number, inner in enumerate(value):
            check(inner, shape[0], f"{place}[{number}]")
    elif isinstance(shape, Each):
        for key, inner in check(value, {}, place).items():
            _require(shape.key.fits(key), f"{place}: the key {key[:40]!r}", shape.key.name)
            check(inner, shape.value, f"{place}.{key[:40]}".lstrip("."))
    elif isinstance(shape, tuple):
        _alternatives(value, shape, place)
    else:
        _require(isinstance(value, dict), place, "an object")
        _keys(value, shape, place)
    return value


def _keys(value: dict[str, Any], shape: dict[str, Any], place: str) -> None:
    for name, inner in shape.items():
        if (key := name.removesuffix("?")) in value:
            check(value[key], inner, f"{place}.{key}".lstrip("."))
        elif key == name:
            raise Misfit(f"{place or 'it'} has no {key}")


def _alternatives(value: Any, shapes: tuple[Any, ...], place: str) -> None:  # noqa: ANN401 - whatever JSON can hold
    misfits = []
    for shape in shapes:
        try:
            check(value, shape, place)
        except Misfit as misfit:
            misfits.append(misfit)
    if len(misfits) == len(shapes):
        raise misfits[0]


def _require(fits: bool, place: str, name: str) -> None:
    if not fits:
        raise Misfit(f"{place or 'it'} is not {name}")


def as_type(value: Any, kind: type[T], further: Literal["forbid", "ignore"] = "forbid") -> T:  # noqa: ANN401 - any JSON
    """A dataclass from its JSON, or a list or dict of them. Types are not converted; `further` keys are refused or ignored."""
    return TypeAdapter(kind).validate_json(json.dumps(value, allow_nan=False), strict=True, extra=further)
