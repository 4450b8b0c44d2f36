"""Recipe files: TOML in, checked `Recipe` out, and a commented recipe written for a new run."""

import copy
import difflib
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from isogloss.config import Recipe, as_dict
from isogloss.errors import RecipeError
from isogloss.shapes import LARGEST, parse_toml

MAX_KEY_PARTS, LONGEST_SHOWN = 100, 80
BETWEEN_KEYS = re.compile(r"[={},\[\]]")
QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
EXAMPLE = "for example --set training.epochs=3"


def load(path: Path, overrides: Sequence[str] = (), folder: Path | None = None) -> Recipe:
    """Read a recipe file and apply `key=value` overrides to it; `folder` replaces its output.folder before that."""
    if not path.is_file():
        raise RecipeError(f"{path}: no such recipe", hint="isogloss init writes one")
    try:
        text = path.read_text(encoding="utf-8-sig")
        _refuse_long_keys(text, str(path))
        data = parse_toml(text)
    except ValueError as error:
        raise RecipeError(f"{path}: not valid TOML: {error}", hint="values such as text need quotes") from error
    if folder is not None:
        data.setdefault("output", {})["folder"] = str(folder)
    return parse(data, overrides, str(path))


def _refuse_long_keys(text: str, where: str) -> None:
    """Refuse keys of very many parts: the parser's work grows with the square of their number."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") <= MAX_KEY_PARTS:
            continue
        if any(part.count(".") > MAX_KEY_PARTS for part in BETWEEN_KEYS.split(QUOTED.sub("s", line))):
            raise RecipeError(f"{where} line {number}: a key with over {MAX_KEY_PARTS} dots", hint="write it as [table]")


def parse(data: Mapping[str, Any], overrides: Sequence[str] = (), where: str = "recipe") -> Recipe:
    """Check plain data, as TOML gives it, and make it a `Recipe`."""
    merged: dict[str, Any] = copy.deepcopy(dict(data))
    for override in overrides:
        apply_override(merged, override)
    recipe: Recipe = _build(Recipe, merged, "", _Written(where, _keys(data), overrides))
    return recipe


class FromOption(str):
    """An override, `key=value`, that the user wrote as an option of its own: messages name that one, not --set."""

    option: str

    def __new__(cls, option: str, key: str, value: str) -> "FromOption":
        """`FromOption("--device", "device", "cpu")`."""
        made = super().__new__(cls, f"{key}={value!r}")  # quoted: the language "nan" is no number
        made.option = f"{option} {value}"
        return made


def _keys(data: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Every key of tables as TOML has them, with the tables that it is in."""
    for key, value in data.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _keys(value, f"{prefix}{key}.")


class _Written:
    """Where a value was written: in the recipe, or in one of the overrides."""

    def __init__(self, recipe: str, keys: Iterable[str], overrides: Sequence[str]) -> None:
        self.recipe, self.keys = recipe, set(keys)
        self.overrides = {one.partition("=")[0].strip(): one for one in overrides}

    def override(self, name: str) -> str | None:
        """The override that set `name`, or a table that it is in; or that made it, where the recipe has nothing there."""
        tables = name.split(".")
        for end in range(len(tables), 0, -1):
            if (found := self.overrides.get(".".join(tables[:end]))) is not None:
                return found
        if name in self.keys:
            return None
        return next((one for key, one in self.overrides.items() if key.startswith(f"{name}.")), None)

    def where(self, name: str) -> str:
        """What a message about `name` begins with."""
        override = self.override(name)
        if override is None:
            return self.recipe
        return _short(override.option if isinstance(override, FromOption) else f"--set {override}")

    def example(self, name: str, value: str) -> str:
        """How it could have been written in the same place."""
        override = self.override(name)
        if override is None or isinstance(override, FromOption):
            return f"for example: {name} = {value}"
        return f"for example: --set {name}={value}"


def _short(text: str) -> str:
    """What the user typed, cut where it is too long to be read in a message."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def apply_override(data: dict[str, Any], override: str) -> None:
    """Set what `key.of.a.table=value` names, in tables as TOML has them."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"{_short(f'--set {override}')}: expected key=value", hint=EXAMPLE)
    *parents, last = key.strip().split(".", MAX_KEY_PARTS)
    if "." in last:
        raise RecipeError(f"--set {key[:40]}…: a key with over {MAX_KEY_PARTS} dots", hint=EXAMPLE)
    place = data
    for parent in parents:
        place = place.setdefault(parent, {})
        if not isinstance(place, dict):
            raise RecipeError(
                f"{_short(f'--set {override}')}: {parent} is a value, not a table",
                hint="isogloss init writes a recipe with every key",
            )
    place[last] = _literal(text.strip())


def _literal(text: str) -> Any:  # noqa: ANN401 - whatever TOML can hold
    """Read an override's value as TOML; plain words may go without quotes, `a,b` makes a list."""
    try:
        if "{" in text:
            _refuse_long_keys(text, "--set")
        return parse_toml(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.split(",") if "," in text else text
    except ValueError as error:
        raise RecipeError(f"--set …={text[:40]}…: {error}", hint=EXAMPLE) from error


def _build(kind: type[Any], data: Mapping[str, Any], prefix: str, written: _Written) -> Any:  # noqa: ANN401
    known = {one.name: one for one in fields(kind)}
    hints = typing.get_type_hints(kind)
    values = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if key not in known:
            raise RecipeError(f"{written.where(name)}: unknown key {name}", hint=_nearest(key, prefix, list(known)))
        if is_dataclass(hints[key]):
            if not isinstance(value, Mapping):
                hint = f"write [{name}] and its keys below, or set one of them: --set {name}.KEY=VALUE"
                raise RecipeError(f"{written.where(name)}: {name} must be a table, not {value!r}", hint=hint)
            values[key] = _build(typing.cast("type[Any]", hints[key]), value, f"{name}.", written)
        else:
            values[key] = _checked(value, hints[key], name, written)
            _in_range(values[key], known[key].metadata, f"{written.where(name)}: {name}")
    return kind(**values)


def _nearest(key: str, prefix: str, siblings: list[str]) -> str:
    close = difflib.get_close_matches(key, siblings, n=1, cutoff=0.5)
    if close:
        return f"did you mean {prefix}{close[0]}?"
    names = {path.rsplit(".", 1)[-1]: path for path in all_keys()}
    elsewhere = [] if prefix else difflib.get_close_matches(key, list(names), n=1, cutoff=0.7)
    return f"did you mean {names[elsewhere[0]]}?" if elsewhere else f"keys here are: {', '.join(siblings)}"


def _checked(value: Any, hint: Any, name: str, written: _Written) -> Any:  # noqa: ANN401
    """Return `value` as the hinted type, or say what was expected. Whole numbers may stand for floats, nothing else."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        items = value if isinstance(value, list) else [value]
        return tuple(_checked(item, inner[0], name, written) for item in items)
    if isinstance(value, int) and abs(value) > LARGEST:
        raise RecipeError(f"{written.where(name)}: {name} is a number too large", hint="no setting needs more than 18 digits")
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, hint) and isinstance(value, bool) == (hint is bool):
        return value
    expected = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}[hint]
    raise RecipeError(
        f"{written.where(name)}: {name} must be {expected}, not {value!r}", hint=written.example(name, _example(hint))
    )


def _example(hint: type) -> str:
    return {str: '"text"', int: "3", float: "0.1", bool: "true"}[hint]


def refuse_out_of_range(settings: Any) -> None:  # noqa: ANN401 - any dataclass made of `config.setting`s
    """Refuse by name what the fields of some settings do not allow: for those that no recipe is read into."""
    for one in fields(settings):
        _in_range(getattr(settings, one.name), one.metadata, one.name)


def _in_range(value: Any, limits: Mapping[str, Any], name: str) -> None:  # noqa: ANN401
    low, high, choices = limits.get("at_least"), limits.get("at_most"), limits.get("one_of")
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    for item in value if isinstance(value, tuple) else [value]:
        if isinstance(item, float) and not math.isfinite(item):
            raise RecipeError(f"{name} is not a finite number", hint="for example 0.1")
    if numeric and ((low is not None and value < low) or (high is not None and value > high)):
        bounds = f"at least {low:g}" if high is None else f"between {low or 0:g} and {high:g}"
        raise RecipeError(f"{name} = {value!r} is impossible", hint=f"it must be {bounds}")
    if choices and value not in choices:
        raise RecipeError(f"{name} = {value!r} is not known", hint=f"choose from: {', '.join(one for one in choices if one)}")


def all_keys(kind: type[Any] = Recipe, prefix: str = "") -> list[str]:
    """Every key a recipe can have, dotted."""
    hints = typing.get_type_hints(kind)
    keys: list[str] = []
    for one in fields(kind):
        hint = hints[one.name]
        if isinstance(hint, types.GenericAlias) or not is_dataclass(hint):
            keys.append(prefix + one.name)
        else:
            keys += all_keys(typing.cast("type[Any]", hint), f"{prefix}{one.name}.")
    return keys


def dump(recipe: Recipe, comments: bool = True) -> str:
    """Write a recipe as TOML that `load` reads back to the same value, each key under the sentence that explains it."""
    plain = as_dict(recipe)
    top, tables = [], []
    for one in fields(recipe):
        if isinstance(plain[one.name], dict):
            lines = _table(getattr(recipe, one.name), comments)
            tables.append(f"\n[{one.name}]" + (f"  # {one.metadata['help']}" if comments else "") + f"\n{lines}")
        else:
            top.append(_entry(one.name, plain[one.name], one.metadata, comments))
    return "\n".join([*top, *tables]) + "\n"


def _table(settings: Any, comments: bool) -> str:  # noqa: ANN401
    plain = as_dict(settings)
    return "\n".join(_entry(one.name, plain[one.name], one.metadata, comments) for one in fields(settings))


def _entry(name: str, value: Any, metadata: Mapping[str, Any], comments: bool) -> str:  # noqa: ANN401
    choices = f" ({' | '.join(metadata['one_of'])})" if metadata.get("one_of") else ""
    comment = f"# {metadata['help']}{choices}\n" if comments else ""
    return f"{comment}{name} = {json.dumps(value, ensure_ascii=False)}"
