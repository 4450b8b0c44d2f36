"""What the papers print, table by table: data in published/*.toml, typed off Reimers & Gurevych 2020 and Ham & Kim 2021.

A table says which test sets its columns are at each scale, which system (`recipe`) each row is, the paper's figures, and
the orderings that the paper claims. Nothing is measured here.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.errors import RecipeError
from isogloss_papers.reading import checked, read_toml

FOLDER = Path(__file__).with_name("published")
SCALES = ("paper", "lab")
ABSENT = "-"  # what the papers print where there is no figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: the parts of test sets whose mean it is. `lab` names others for that scale; none: it is not measured."""

    name: str
    of: tuple[str, ...]
    lab: tuple[str, ...] | None = None
    digits: int = 0  # after the point; 0 takes the table's
    language: str = ""  # of systems that are made once for each language, the one that this column measures

    def parts(self, scale: str) -> tuple[str, ...]:
        """What it is the mean of at a scale."""
        return self.of if scale != "lab" or self.lab is None else self.lab


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One row as it is printed: a figure a column, None where the paper has none."""

    label: str
    system: str
    figures: tuple[float | None, ...]
    measure: str = ""  # where the row is not the main measure, but one that stands beside it
    pairs: str = ""  # what the paper says of its training pairs
    note: str = ""
    at: float | None = None  # where the row lies on the axis of the table's picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An ordering that a paper claims: systems of a column from the best on, or which column gains more."""

    says: str
    column: str = ""
    order: tuple[str, ...] = ()
    gain: dict[str, str] = field(default_factory=dict)  # from, to: systems; more, less: columns


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTable:
    """A table of a paper."""

    name: str
    title: str
    paper: str
    measure: str
    suites: dict[str, str]
    columns: tuple[Column, ...]
    rows: tuple[PublishedRow, ...]
    claims: tuple[Claim, ...]
    differs: dict[str, str]
    extra: tuple[str, ...] = ()
    digits: int = 1
    picture: str = ""

    def digits_of(self, column: Column) -> int:
        """Digits after the point of a column's figures."""
        return column.digits or self.digits

    @property
    def systems(self) -> tuple[str, ...]:
        """Every system of its rows, each once, and those that are ours alone."""
        return tuple(dict.fromkeys([*(row.system for row in self.rows), *self.extra]))


def table_names() -> list[str]:
    """The tables that there are: those of R&G, then those of H&K."""
    return sorted((path.stem for path in FOLDER.glob("*.toml")), key=lambda name: (name[:2] != "rg", name))


def published(name: str) -> PublishedTable:
    """A table by its name, such as `rg-table-2`."""
    if name not in table_names():
        raise RecipeError(f"{name}: no such table", hint=f"there are {', '.join(table_names())}")
    return _read(name)


@cache
def _read(name: str) -> PublishedTable:
    where = f"{name}.toml"
    data = read_toml(FOLDER / where)
    columns = tuple(_column(one, where) for one in data.pop("columns"))
    rows = tuple(_row(one, len(columns), where) for one in data.pop("rows"))
    claims = tuple(_claim(one, where) for one in data.pop("claims", []))
    table: PublishedTable = checked(
        PublishedTable,
        data | {"differs": data.get("differs", {})},
        where,
        {"name": name, "columns": columns, "rows": rows, "claims": claims},
    )
    names = {column.name for column in columns}
    for claim in claims:
        needed = [claim.column] if claim.order else [claim.gain["more"], claim.gain["less"]]
        systems = claim.order or (claim.gain["from"], claim.gain["to"])
        if not set(needed) <= names or not set(systems) <= set(table.systems):
            raise RecipeError(f"{where}: the claim {claim.says!r} names what the table does not have")
    return table


def _column(data: dict[str, Any], where: str) -> Column:
    lab = data.pop("lab", None)
    made: Column = checked(Column, data, where, {"lab": None if lab is None else tuple(lab)})
    return made


def _row(data: dict[str, Any], columns: int, where: str) -> PublishedRow:
    figures = tuple(None if one == ABSENT else float(one) for one in data.pop("figures"))
    if len(figures) != columns:
        raise RecipeError(f"{where}: {data.get('label')} has {amount(len(figures), 'figure')} for {amount(columns, 'column')}")
    at = data.pop("at", None)
    made: PublishedRow = checked(PublishedRow, data, where, {"figures": figures, "at": None if at is None else float(at)})
    return made


def _claim(data: dict[str, Any], where: str) -> Claim:
    gain = data.pop("gain", {})
    if bool(gain) == bool(data.get("order")) or (gain and set(gain) != {"from", "to", "more", "less"}):
        raise RecipeError(f"{where}: a claim has either an order or a gain with from, to, more and less")
    made: Claim = checked(Claim, data, where, {"gain": gain})
    return made
