"""Recipe files: read TOML as a checked `Recipe`, and write a recipe as commented TOML."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from isogloss.config import Recipe, as_dict
from isogloss.config.problems import Problem, keys_of, problem_of
from isogloss.config.settings import choices_of, dotted
from isogloss.errors import RecipeError
from isogloss.shapes import parse_toml

MAX_KEY_PARTS, LONGEST_SHOWN = 100, 80
BETWEEN_KEYS = re.compile(r"[={},\[\]]")
QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
EXAMPLE = "for example --set training.epochs=3"
EVERY_KEY = "isogloss init writes a recipe with every key"


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
    """A recipe from plain data, as TOML has it; `overrides` are `key=value`, `where` begins messages."""
    merged: dict[str, Any] = copy.deepcopy(dict(data))
    for override in overrides:
        apply_override(merged, override)
    try:
        return Recipe.model_validate(merged)
    except ValidationError as error:
        problem, written = problem_of(error, Recipe), _Written(where, data, overrides)
        raise RecipeError(f"{written.where(problem.name)}: {problem.message}", hint=written.hint(problem)) from None


class FromOption(str):
    """An override, `key=value`, from a command-line option, which messages name instead of --set."""

    option: str

    def __new__(cls, option: str, key: str, value: str) -> "FromOption":
        """`FromOption("--device", "device", "cpu")`."""
        made = super().__new__(cls, f"{key}={value!r}")  # quoted: the language "nan" is no number
        made.option = f"{option} {value}"
        return made


class _Written:
    """Where a value was written: in the recipe, or in one of the overrides."""

    def __init__(self, recipe: str, data: Mapping[str, Any], overrides: Sequence[str]) -> None:
        self.recipe, self.keys = recipe, dotted(data)
        self.overrides = {override.partition("=")[0].strip(): override for override in overrides}

    def override(self, name: str) -> str | None:
        """The override that set `name`, a table around it, or (if the recipe has no such table) a key in it."""
        tables = name.split(".")
        for end in range(len(tables), 0, -1):
            if (found := self.overrides.get(".".join(tables[:end]))) is not None:
                return found
        if any(f"{key}.".startswith(f"{name}.") for key in self.keys):
            return None
        return next((override for key, override in self.overrides.items() if key.startswith(f"{name}.")), None)

    def where(self, name: str) -> str:
        """The start of a message about `name`."""
        override = self.override(name)
        if override is None:
            return self.recipe
        return _short(override.option if isinstance(override, FromOption) else f"--set {override}")

    def hint(self, problem: Problem) -> str:
        """The problem's hint; its example is written in the same place as the value."""
        override = self.override(problem.name)
        if override is None or isinstance(override, FromOption):
            return problem.hint
        return problem.hint.replace(f"for example: {problem.name} = ", f"for example: --set {problem.name}=")


def _short(text: str) -> str:
    """What the user typed, truncated for a message."""
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def apply_override(data: dict[str, Any], override: str) -> None:
    """Set `table.key=value` in plain data; a number is an index of a list, as in stage.0.name=first."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise RecipeError(f"{_short(f'--set {override}')}: expected key=value", hint=EXAMPLE)
    *parents, last = key.strip().split(".", MAX_KEY_PARTS)
    if "." in last:
        raise RecipeError(f"--set {key[:40]}…: a key with over {MAX_KEY_PARTS} dots", hint=EXAMPLE)
    place: Any = data
    for parent in parents:
        if isinstance(place, list):
            place = place[int(parent)] if parent in map(str, range(len(place))) else None
        else:
            place = place.setdefault(parent, {})
        if not isinstance(place, dict | list):
            raise RecipeError(f"{_short(f'--set {override}')}: {parent} is a value, not a table", hint=EVERY_KEY)
    if isinstance(place, list):
        raise RecipeError(f"{_short(f'--set {override}')}: {parents[-1]} is a list", hint="count from 0: stage.0.name=first")
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


def all_keys() -> list[str]:
    """Every key of a recipe, dotted, except those of stages."""
    return keys_of(Recipe)


def json_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}


def dump(recipe: Recipe, comments: bool = True, defaults: bool = True) -> str:
    """Write a recipe as TOML that `load` reads back to the same value; a comment above each key is its description.

    Without `defaults`, only values that differ from them are written.
    """
    plain, fields = as_dict(recipe), Recipe.model_fields
    plain.pop("stage", None)
    if not defaults:
        others = as_dict(Recipe())
        if recipe.stage:  # [training] and [losses] then have only what was given, and it overrides the defaults of tasks
            others |= {"training": {}, "losses": {}}
        plain = _differing(plain, others)
    lines = [_entry(name, value, fields[name], comments) for name, value in plain.items() if not isinstance(value, dict)]
    for name, values in plain.items():
        if isinstance(values, dict):
            lines.append(f"\n[{name}]" + (f"  # {fields[name].description}" if comments else ""))
            table = type(getattr(recipe, name)).model_fields
            lines += [_entry(key, value, table[key], comments) for key, value in values.items()]
    for stage in recipe.stage:
        given = {key: value for key, value in as_dict(stage).items() if key in stage.model_fields_set}
        lines += ["\n[[stage]]", *(f"{key} = {_toml(value)}" for key, value in ({"task": stage.task} | given).items())]
    return "\n".join(lines) + "\n"


def _differing(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not the same in `others`, table by table."""
    found = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _differing(value, others.get(name, {}))
        if value != others.get(name) and value != {}:
            found[name] = value
    return found


def _entry(name: str, value: Any, field: FieldInfo, comments: bool) -> str:  # noqa: ANN401
    choices = " | ".join(json.dumps(choice) for choice in choices_of(field))
    comment = f"# {field.description}{f' ({choices})' if choices else ''}\n" if comments else ""
    return f"{comment}{name} = {_toml(value)}"


def _toml(value: Any) -> str:  # noqa: ANN401 - whatever TOML can hold
    """A value on one line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(_toml(inner) for inner in value)}]"
    return json.dumps(value, ensure_ascii=False)
