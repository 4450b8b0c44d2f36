"""Turn pydantic's errors into a message with the dotted name of the key, and a hint."""

import difflib
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

LISTS_OF_TABLES = ("stage", "beside")
_TABLE = (
    "{name} must be a table, not {value}",
    "write [{name}] and its keys below, or set one of them: {name}.KEY=VALUE",
)
_RANGE = ("{name} = {value} is out of range", "it must be {range}")
_MESSAGES: dict[str, tuple[str, str]] = {  # by pydantic's type of error: message and hint
    "extra_forbidden": ("unknown key {name}", "{nearest}"),
    "missing": ("{name} is missing", "set {name}"),
    "too_short": ("{name} has too few values", "it needs at least {min_length}"),
    "too_large": ("{name} is a number too large", "no setting needs more than 18 digits"),
    "finite_number": ("{name} is not a finite number", "for example 0.1"),
    "greater_than_equal": _RANGE,
    "greater_than": _RANGE,
    "less_than_equal": _RANGE,
    "less_than": _RANGE,
    "literal_error": ("{name} = {value} is not known", "choose from: {expected}"),
    "union_tag_invalid": ("{name}.task = {tag!r} is not known", "choose from: {expected_tags}"),
    "union_tag_not_found": ("{name}.task is missing", 'for example task = "distill"'),
    "model_type": _TABLE,
    "model_attributes_type": _TABLE,
    "string_type": ("{name} must be text, not {value}", 'for example: {name} = "text"'),
    "int_type": ("{name} must be a whole number, not {value}", "for example: {name} = 3"),
    "float_type": ("{name} must be a number, not {value}", "for example: {name} = 0.1"),
    "bool_type": ("{name} must be true or false, not {value}", "for example: {name} = true"),
}
_OTHER = ("{name} = {value} cannot be used: {reason}", "isogloss init writes a recipe with every key")


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a value: the dotted name of its key, the message and the hint."""

    name: str
    message: str
    hint: str


def problem_of(error: ValidationError, kind: type[BaseModel], table: str = "") -> Problem:
    """The first problem that was found, unknown keys before others."""
    found = error.errors(include_url=False)
    first = next((one for one in found if one["type"] == "extra_forbidden"), found[0])
    name, owner, context = _dotted(first, table), _owner(kind, first["loc"]), first.get("ctx", {})
    words: dict[str, Any] = {"name": name, "reason": first["msg"], **context}
    words["value"] = "" if first["type"] == "too_large" else repr(first["input"])
    words["nearest"] = _nearest(name, kind, owner) if first["type"] == "extra_forbidden" else ""
    words["range"] = _range(name, owner, context)
    for key in ("expected", "expected_tags"):
        choices = str(context.get(key, "")).replace("'", "").replace(" or ", ", ").split(", ")
        words[key] = ", ".join(choice for choice in choices if choice)
    message, hint = (text.format_map(words) for text in _MESSAGES.get(first["type"], _OTHER))
    return Problem(name, message, hint)


def _dotted(error: ErrorDetails, table: str) -> str:
    """The key as it is written after --set, such as stage.0.files, without indices into lists of plain values."""
    parts = [table, *error["loc"]] if table else list(error["loc"])
    if len(parts) > 2 and parts[0] == "stage" and isinstance(parts[1], int):
        del parts[2]  # the task, by which pydantic chose the class
    if "key" in error.get("ctx", {}):
        parts.append(error["ctx"]["key"])
    while len(parts) > 1 and isinstance(parts[-1], int) and parts[-2] not in LISTS_OF_TABLES:
        del parts[-1]
    return ".".join(str(part) for part in parts)


def is_table(hint: Any) -> bool:  # noqa: ANN401 - an annotation
    """Whether a field of this type is a table."""
    return isinstance(hint, type) and issubclass(hint, BaseModel)


def bounds_of(field: FieldInfo) -> tuple[float | None, float | None]:
    """The smallest and the largest value of a field."""
    limits = {name: getattr(one, name) for one in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(one, name)}
    return limits.get("ge", limits.get("gt")), limits.get("le", limits.get("lt"))


def _owner(kind: type[BaseModel], place: tuple[int | str, ...]) -> type[BaseModel]:
    """The class whose field is at a place in nested settings."""
    stages: dict[str, type[BaseModel]] = {}
    for part in place[:-1]:
        if isinstance(part, int):
            continue
        if part in stages:
            kind, stages = stages[part], {}
            continue
        hint = kind.model_fields[part].annotation
        inner = typing.get_args(hint)[0] if typing.get_origin(hint) is tuple else hint
        if is_table(inner):
            kind = typing.cast("type[BaseModel]", inner)
        elif typing.get_origin(inner) is typing.Annotated and not isinstance(typing.get_args(inner)[0], type):
            stages = {member.model_fields["task"].default: member for member in typing.get_args(typing.get_args(inner)[0])}
    return kind


def _range(name: str, owner: type[BaseModel], context: Mapping[str, Any]) -> str:
    field = owner.model_fields.get(name.rpartition(".")[2])
    low, high = bounds_of(field) if field else (None, None)
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    words = {"gt": "above", "ge": "at least", "le": "at most", "lt": "below"}
    return next((f"{word} {context[key]:g}" for key, word in words.items() if key in context), "")


def _nearest(name: str, kind: type[BaseModel], owner: type[BaseModel]) -> str:
    """The key that was probably meant: of the same table, or for a key without a table any."""
    prefix, _, key = name.rpartition(".")
    siblings = list(owner.model_fields)
    if close := difflib.get_close_matches(key, siblings, n=1, cutoff=0.5):
        return f"did you mean {prefix}.{close[0]}?" if prefix else f"did you mean {close[0]}?"
    if not prefix:
        names = {path.rpartition(".")[2]: path for path in keys_of(kind)}
        if elsewhere := difflib.get_close_matches(key, list(names), n=1, cutoff=0.7):
            return f"did you mean {names[elsewhere[0]]}?"
    return f"keys here are: {', '.join(siblings)}"


def keys_of(kind: type[BaseModel], prefix: str = "") -> list[str]:
    """Every key of some settings, dotted; stages, which have keys of their own, are left out."""
    keys: list[str] = []
    for name, field in kind.model_fields.items():
        if is_table(field.annotation):
            keys += keys_of(typing.cast("type[BaseModel]", field.annotation), f"{prefix}{name}.")
        elif name not in ("stage", "add"):
            keys.append(prefix + name)
    return keys
