"""The base of all settings: typed, checked when constructed, frozen.

    class Cooking(Settings):
        minutes: int = setting(4, "Cooking time in minutes.", at_least=1)

    Cooking(minutes="four")     # RecipeError: minutes must be a whole number, not 'four'

One declaration gives the type, the range, the default and the sentence that the command line, `isogloss init`, docs/recipes.md
and the JSON schema show. Lists become tuples, one value may stand for a tuple of one, and whole numbers may stand for floats.
Nothing else is converted.
"""

import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from isogloss.config.problems import problem_of
from isogloss.errors import RecipeError
from isogloss.shapes import LARGEST


def setting(
    default: Any,  # noqa: ANN401 - each field has its own type
    help: str,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    min_length: int | None = None,
) -> Any:  # noqa: ANN401
    """A field with its default (`...`: required), its sentence and its range."""
    return Field(default, description=help, ge=at_least, le=at_most, gt=above, lt=below, min_length=min_length)


def share(default: float, help: str) -> Any:  # noqa: ANN401
    """A field with a number between 0 and 1."""
    return setting(default, help, at_least=0.0, at_most=1.0)


def table(kind: "type[Settings]", help: str) -> Any:  # noqa: ANN401
    """A field that is a table."""
    return Field(default_factory=kind, description=help)


class Settings(BaseModel):
    """Frozen values that are checked when constructed; a problem is a `RecipeError` that names the key."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, defer_build=True)

    table: ClassVar[str] = ""  # the recipe's table that these are, for messages
    partial: ClassVar[bool] = False  # whether only the values that were given count: they override others

    def __init__(self, **values: Any) -> None:  # noqa: ANN401
        try:
            super().__init__(**values)
        except ValidationError as error:
            problem = problem_of(error, type(self), self.table)
            raise RecipeError(problem.message, hint=problem.hint) from None

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]  # nested settings are checked in one pass

    @model_validator(mode="before")
    @classmethod
    def _as_declared(cls, data: Any) -> Any:  # noqa: ANN401
        """Lists become tuples, one value becomes a tuple of one, settings become overrides where these are expected."""
        if not isinstance(data, dict):
            return data
        values = {}
        for key, value in data.items():
            items = value if isinstance(value, list | tuple) else (value,)
            if any(isinstance(item, int) and abs(item) > LARGEST for item in items):
                raise PydanticCustomError("too_large", "is a number too large", {"key": key})
            hint = cls.model_fields[key].annotation if key in cls.model_fields else None
            if typing.get_origin(hint) is tuple and not isinstance(value, tuple):
                value = tuple(value) if isinstance(value, list) else (value,)
            elif isinstance(value, Settings) and isinstance(hint, type) and issubclass(hint, type(value)) and hint.partial:
                value = value.given()
            values[key] = value
        return values

    def __eq__(self, other: object) -> bool:
        """Equal if they say the same: of overrides, the same keys with the same values."""
        return isinstance(other, Settings) and type(self) is type(other) and self.values() == other.values()

    __hash__ = BaseModel.__hash__  # pydantic gives every frozen subclass one by its values

    def given(self) -> dict[str, Any]:
        """The values that were given explicitly, not by default."""
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}

    def values(self) -> dict[str, Any]:
        """The values that are written: all, or those that were given where only these count."""
        return self.given() if self.partial else dict(self)

    def replace(self, **changes: Any) -> Self:  # noqa: ANN401
        """A copy with some values changed, checked like any other."""
        return type(self)(**(self.given() | changes))


def as_dict(settings: Settings) -> dict[str, Any]:
    """Plain nested dictionaries with lists for tuples, as TOML and JSON have them."""
    return {name: _plain(value) for name, value in settings.values().items()}


def _plain(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, Settings):
        return as_dict(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def dotted(tables: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, with names such as `training.epochs`."""
    found: dict[str, Any] = {}
    for name, value in tables.items():
        found |= dotted(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {prefix + name: value}
    return found


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """The words that a field can take; empty if it takes any."""
    return typing.get_args(field.annotation) if typing.get_origin(field.annotation) is typing.Literal else ()
