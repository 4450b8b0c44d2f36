"""One HTML file that holds all it shows: a heading, a row of figures, links to its sections, the sections."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from isogloss.report import svg
from isogloss.report.markup import Markup, join, tag


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: its name in links, its heading, a sentence that says how to read it, what it shows."""

    key: str
    title: str
    note: str
    body: Markup


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its heading, and what it holds."""

    title: str
    kind: str = ""


WIDE, NARROW, LOW = 1170, 374, 16  # pixels there are for a picture on a screen and on a phone, and of a row on a phone
NUMBER, PICTURE, PROSE = "number", "picture", "prose"  # digits under digits; as wide as there is room; lines that wrap


def page(title: str, lead: str, figures: Sequence[tuple[str, str]], sections: Sequence[Section]) -> str:
    """The whole file. `figures` are numbers with what they count, shown large under the heading."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy()),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", _style()),
    )
    shown = (tag("div", tag("b", number), tag("span", what)) for number, what in figures)
    links = (tag("a", section.title, href=f"#{section.key}") for section in sections)
    body = tag(
        "body",
        tag("header", tag("h1", title), tag("p", lead, class_="lead"), tag("div", join(shown), class_="figures")),
        tag("nav", join(links, " ")),
        tag("main", *(_section(section) for section in sections)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _section(section: Section) -> Markup:
    note = tag("p", section.note, class_="note") if section.note else Markup("")
    return tag("section", tag("h2", section.title), note, section.body, id=section.key)


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> Markup:
    """A table that scrolls sideways where it is too wide; its first column names the row and stays in sight."""
    head = (tag("th", column.title, scope="col", class_=column.kind or None) for column in columns)
    body = (_row(columns, row) for row in rows)
    return tag("div", tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body)), class_="scroll")


def _row(columns: Sequence[Column], row: Sequence[str]) -> Markup:
    cells = [tag("th", row[0], scope="row")]
    cells += [tag("td", cell, class_=column.kind or None) for column, cell in zip(columns[1:], row[1:], strict=True)]
    return tag("tr", *cells)


def heat_maps(
    rows: Sequence[str], columns: Sequence[str], spots: Sequence[svg.Spot], name: str, high: int = 18, turn: bool = True
) -> Markup:
    """A heat map twice, of which the style sheet shows one: as it is, and for a phone, where no number fits into a cell.

    There rows become columns, unless `turn` is false.
    """
    wide = svg.heat_map(rows, columns, spots, name, WIDE, high)
    bare = [replace(spot, text="") for spot in spots]
    if turn:
        rows, columns, bare = columns, rows, [replace(spot, row=spot.column, column=spot.row) for spot in bare]
    narrow = svg.heat_map(rows, columns, bare, name, NARROW, LOW)
    return join([tag("div", wide, class_="scroll wide"), tag("div", narrow, class_="scroll narrow")])


def folded(summary: str, *content: str) -> Markup:
    """Something long, behind a line that opens it."""
    return tag("details", tag("summary", summary), *content)


def foreign(text: str, language: str, kind: str = "") -> Markup:
    """Text from data: set in its own direction, and marked with its language so that the right letter forms are chosen."""
    return tag("span", text, dir="auto", lang=language, class_=kind or None)


def named(corpus: str) -> str:
    """A corpus for a person: pairs that were handed over in Python may have none."""
    return corpus or "(no name)"


def number(value: int) -> str:
    """A count for a person."""
    return f"{value:,}"


def percent(share: float) -> str:
    """A share for a person; what is there is never shown as nothing, what is missing never as everything."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{100 * share:.0f} %" if share in (0, 1) else f"{100 * share:.1f} %"


@cache
def _policy() -> str:
    """What a browser may do for the page: read this very style sheet, and nothing else, whatever the data has in it."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


@cache
def _style() -> Markup:
    """The style sheet, ours and trusted: a style element is read raw, so nothing in it may be escaped."""
    return Markup(files("isogloss.report").joinpath("page.css").read_text(encoding="utf-8"))
