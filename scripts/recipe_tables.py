"""Write the tables of docs/recipes.md from the settings themselves: `python scripts/recipe_tables.py`.

A table stands under the heading of its section; the sentences, ranges and defaults are those of `isogloss.config`.
"""

import json
import re
import typing
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from isogloss.config import Recipe, Settings
from isogloss.config.problems import bounds_of, is_table
from isogloss.config.settings import choices_of
from isogloss.config.stages import STAGES, TASK_DEFAULTS, Beside, Stage

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
TYPES = {str: "text", int: "whole number", float: "number", bool: "true or false", Beside: "tables"}
NOT_EMPTY = {"pairs.files": "at least one, or `pairs.corpora`", "bridge.strengths": "each above 0, at least one"}
HEADER = ["| key | type | default | range | what it is |", "|---|---|---|---|---|"]


def rows(kind: type[Settings], prefix: str = "") -> list[str]:
    """One row per key of a section."""
    plain = {
        name: field
        for name, field in kind.model_fields.items()
        if not _is_table(field) and name not in ("stage", "task", "add")
    }
    return [_row(prefix + name, field) for name, field in plain.items()]


def _is_table(field: FieldInfo) -> bool:
    return is_table(field.annotation) and not typing.cast("type[Settings]", field.annotation).partial


def _row(key: str, field: FieldInfo) -> str:
    default = "required"
    if not field.is_required():
        plain = {} if is_table(field.annotation) else field.default
        default = f"`{json.dumps(plain, ensure_ascii=False)}`"
    help = (field.description or "").replace("|", "\\|")
    return f"| `{key}` | {_type(field.annotation)} | {default} | {NOT_EMPTY.get(key) or _range(field)} | {help} |"


def _type(hint: Any) -> str:  # noqa: ANN401 - an annotation
    if typing.get_origin(hint) is tuple:
        inner = typing.get_args(hint)[0]
        return f"list of {_type(inner)}".replace("number", "numbers")
    if typing.get_origin(hint) is typing.Annotated:
        return _type(typing.get_args(hint)[0])
    return "table" if is_table(hint) and hint is not Beside else TYPES.get(hint, "text")


def _range(field: FieldInfo) -> str:
    if choices := choices_of(field):
        return ", ".join(f'`"{choice}"`' for choice in choices)
    low, high = bounds_of(field)
    if low is None:
        return ""
    if any(hasattr(limit, "gt") for limit in field.metadata):
        return f"above {low:g}"
    return f"{low:g} or more" if high is None else f"{low:.10g} to {high:.10g}"


def sections() -> dict[str, list[str]]:
    """The lines of every table, by the heading above it."""
    found = {"Top level": [*HEADER, *rows(Recipe)]}
    for name, field in Recipe.model_fields.items():
        if _is_table(field):
            found[f"[{name}]"] = [*HEADER, *rows(typing.cast("type[Settings]", field.annotation), f"{name}.")]
    found["[[stage]]"] = [*HEADER, *rows(Stage)]
    for kind in STAGES:
        own = {name: field for name, field in kind.model_fields.items() if name not in Stage.model_fields}
        table = [*HEADER, *(_row(name, field) for name, field in own.items())]
        found[f"task = {json.dumps(kind.model_fields['task'].default)}"] = table if own else ["(no keys of its own)"]
    found["tasks beside a rank stage"] = [*HEADER, _row("task", Beside.model_fields["task"]), *rows(Beside)]
    found["Defaults of tasks"] = ["| task | [training] |", "|---|---|"] + [
        f"| {task} | {', '.join(f'`{key} = {json.dumps(value)}`' for key, value in values.items())} |"
        for task, values in TASK_DEFAULTS.items()
    ]
    return found


def page(text: str) -> str:
    """The page with its tables written anew; a section without a heading is an error."""
    for title, lines in sections().items():
        if not lines[0].startswith("|"):
            continue
        pattern = rf"(\n##+ {re.escape(title)}\n(?:(?!\n##+ ).)*?\n)\|[^\n]*\n(?:\|[^\n]*\n)+"
        table = "\n".join(lines)
        match = re.search(pattern, text, flags=re.DOTALL)
        if match is None:
            raise SystemExit(f"{PAGE.name} has no table under {title}")
        text = f"{text[: match.start()]}{match[1]}{table}\n{text[match.end() :]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
