"""One HTML file that contains everything it shows: no script, no font, nothing loaded. The HTML is in `templates/`."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from markupsafe import Markup

from isogloss.report.rendering import render

NUMBER, PICTURE, PROSE = "number", "picture", "prose"  # kinds of columns: right-aligned, as wide as possible, wrapped


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
    style = Markup((files("isogloss.report") / "templates" / "page.css").read_text(encoding="utf-8"))  # ours: not escaped
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()  # by which the page allows this style alone
    return render("page.html", title=title, lead=lead, figures=figures, sections=sections, style=style, digest=digest)


def code(text: str) -> Markup:
    """Text in the font of code."""
    return Markup("<code>{}</code>").format(text)


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
