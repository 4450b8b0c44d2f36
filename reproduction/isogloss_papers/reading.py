"""TOML of this folder into frozen values: what is not known is refused by name, what is of another type too."""

import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from isogloss.errors import RecipeError
from isogloss.shapes import parse_toml

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML file as plain data."""
    try:
        return parse_toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise RecipeError(f"{path}: cannot be read ({error.strerror})", hint="isogloss reproduce --list") from error
    except ValueError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}", hint="values such as text need quotes") from error


def checked(kind: type[Any], data: Mapping[str, Any], where: str, ready: Mapping[str, Any] | None = None) -> Any:  # noqa: ANN401
    """A dataclass from plain data; values that are `ready` are taken as they are."""
    given = dict(ready or {})
    known, hints = {one.name: one for one in fields(kind)}, typing.get_type_hints(kind)
    open_to = [name for name in known if name not in given]
    for key, value in data.items():
        if key not in open_to:
            close = difflib.get_close_matches(key, open_to, n=1, cutoff=0.5)
            raise RecipeError(
                f"{where}: unknown key {key}",
                hint=f"did you mean {close[0]}?" if close else f"keys here are: {', '.join(open_to)}",
            )
        given[key] = _value(value, hints[key], key, where)
        choices = known[key].metadata.get("one_of")
        if choices and given[key] not in choices:
            raise RecipeError(f"{where}: {key} = {value!r} is not known", hint=f"choose from: {', '.join(choices)}")
    for name, one in known.items():
        if name not in given and one.default is MISSING and one.default_factory is MISSING:
            raise RecipeError(f"{where}: {name} is missing", hint=f"keys here are: {', '.join(open_to)}")
    return kind(**given)


def _value(value: Any, hint: Any, name: str, where: str) -> Any:  # noqa: ANN401
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise RecipeError(f"{where}: {name} must be a list, not {value!r}", hint=f'for example: {name} = ["…"]')
        return tuple(_value(item, inner[0], name, where) for item in value)
    if origin is dict or isinstance(hint, types.GenericAlias):
        if not isinstance(value, dict):
            raise RecipeError(f"{where}: {name} must be a table, not {value!r}", hint=f"write {name} = {{ … }}")
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    raise RecipeError(f"{where}: {name} must be {_WORDS[hint]}, not {value!r}", hint="see the other recipes beside it")
