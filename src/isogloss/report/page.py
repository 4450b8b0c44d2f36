"""One HTML file that contains everything it shows: no script, no font, nothing loaded. The HTML is in `templates/`."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from isogloss.report import svg
from isogloss.report.markup import Markup, join, tag, xml_text

if TYPE_CHECKING:
    from jinja2 import Environment

NUMBER, PICTURE, PROSE = "number", "picture", "prose"  # kinds of columns: right-aligned, as wide as possible, wrapped
WIDE, NARROW, LOW = 1170, 374, 16  # pixels for a picture on a screen and on a phone, and for a row on a phone


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, and what it holds."""

    title: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text or `Markup`, the first cell naming the row. `folded` is the line that opens it, if it starts closed."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    folded: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError("every row of a table needs one cell per column")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its name in links, its heading, how to read it, and its tables and pictures."""

    key: str
    title: str
    note: str
    parts: Sequence[Table | Markup]


@dataclass(frozen=True, slots=True)
class ShownPair:
    """A sentence pair with the line below it."""

    source: str
    target: str
    source_language: str
    target_language: str
    where: str


def page(title: str, lead: str, figures: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The whole file. `figures` are numbers with their labels, shown large under the heading."""
    values = {"title": title, "lead": lead, "figures": figures, "sections": sections}
    return str(render("page.html", **values, style=_style(), policy=_policy()))


def render(template: str, **values: object) -> Markup:
    """A template filled in. Every value that is not `Markup` is escaped."""
    return Markup(_environment().get_template(template).render(**values))


def heat_maps(
    rows: Sequence[str], columns: Sequence[str], spots: Sequence[svg.Spot], name: str, high: int = 18, turn: bool = True
) -> Markup:
    """A heat map twice, of which the style sheet shows one: for screens, and for phones, where cells have no numbers.

    On phones rows become columns, unless `turn` is false.
    """
    wide = svg.heat_map(rows, columns, spots, name, WIDE, high)
    bare = [replace(spot, text="") for spot in spots]
    if turn:
        rows, columns, bare = columns, rows, [replace(spot, row=spot.column, column=spot.row) for spot in bare]
    narrow = svg.heat_map(rows, columns, bare, name, NARROW, LOW)
    return join([tag("div", wide, class_="scroll wide"), tag("div", narrow, class_="scroll narrow")])


def named(corpus: str) -> str:
    """The name of a corpus; pairs given from Python may have none."""
    return corpus or "(no name)"


def totals(rows: Iterable[object], name: str, count: str) -> dict[str, float]:
    """The sum of the attribute `count` for each value of the attribute `name`."""
    found: dict[str, float] = {}
    for row in rows:
        found[getattr(row, name)] = found.get(getattr(row, name), 0) + getattr(row, count)
    return found


def number(value: int) -> str:
    """A count with thousands separators."""
    return f"{value:,}"


def percent(share: float) -> str:
    """A share in percent that never rounds to 0 % or 100 % unless it is."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{100 * share:.0f} %" if share in (0, 1) else f"{100 * share:.1f} %"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("isogloss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=xml_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _policy() -> str:
    """The content security policy: this style sheet and nothing else, whatever the data contains."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


@cache
def _style() -> Markup:
    """The style sheet. It is ours; a style element must not be escaped."""
    return Markup((files("isogloss.report") / "templates" / "page.css").read_text(encoding="utf-8"))
