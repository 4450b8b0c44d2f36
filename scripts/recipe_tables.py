"""Write the tables of docs/recipes.md from the settings themselves: `python scripts/recipe_tables.py`.

A table stands under the heading of its section; the sentences, ranges and defaults are those of `config.py`.
"""

import json
import re
import typing
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any

from isogloss.config import Recipe, default_of

PAGE = Path(__file__).parent.parent / "docs" / "recipes.md"
KINDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
NOT_EMPTY = {"pairs.files": "at least one, or `pairs.corpora`", "bridge.strengths": "each above 0, at least one"}


def rows(kind: type[Any], prefix: str) -> list[str]:
    """One row a key of a section."""
    hints = typing.get_type_hints(kind)
    return [_row(one, hints[one.name], prefix) for one in fields(kind) if not is_dataclass(hints[one.name])]


def _row(one: "Field[Any]", hint: Any, prefix: str) -> str:  # noqa: ANN401 - a type
    kind = f"list of {KINDS[typing.get_args(hint)[0]]}" if typing.get_origin(hint) is tuple else KINDS[hint]
    kind = kind.replace("list of number", "list of numbers")
    default = default_of(one)
    shown = json.dumps(list(default) if isinstance(default, tuple) else default, ensure_ascii=False)
    key = prefix + one.name
    help = one.metadata["help"].replace("|", "\\|")
    return f"| `{key}` | {kind} | `{shown}` | {NOT_EMPTY.get(key) or _range(one.metadata)} | {help} |"


def _range(limits: typing.Mapping[str, Any]) -> str:
    if limits["one_of"]:
        return ", ".join(f'`"{choice}"`' for choice in limits["one_of"])
    low, high = limits["at_least"], limits["at_most"]
    if low is None:
        return ""
    return f"{low:g} or more" if high is None else f"{low:.10g} to {high:.10g}"


def page(text: str) -> str:
    """The page with its tables written anew; a section without a heading is an error."""
    hints = typing.get_type_hints(Recipe)
    sections: dict[str, tuple[Any, str]] = {"Top level": (Recipe, "")}
    sections |= {f"[{name}]": (hint, f"{name}.") for name, hint in hints.items() if is_dataclass(hint)}
    for title, (kind, prefix) in sections.items():
        table = "\n".join(["| key | type | default | range | what it is |", "|---|---|---|---|---|", *rows(kind, prefix)])
        pattern = rf"(## {re.escape(title)}\n(?:(?!\n## ).)*?)\| key \|[^\n]*\n(?:\|[^\n]*\n)+"
        text, found = re.subn(pattern, lambda match, table=table: f"{match[1]}{table}\n", text, count=1, flags=re.DOTALL)
        if not found:
            raise SystemExit(f"{PAGE.name} has no table under ## {title}")
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
