"""A whole table of a paper, made and measured here: the paper's figures beside ours, row by row.

    reproduce("rg-table-2", scale="lab", data="../shared/data", out="reproduced")

`published` has the table, `workshop` makes the systems that it needs, `scores` measures them, `claims` judges the orderings
that the paper claims. A system that cannot be made here is a row that says why. Rows of systems that start from
multilingual-e5-small, which is aligned across languages already, stand beside controls.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from isogloss.errors import DataError, IsoglossError, ModelError, RecipeError
from isogloss.evaluation.bootstrap import RESAMPLES
from isogloss.evaluation.data.hub import HUB
from isogloss.evaluation.data.test_sets import open_data
from isogloss.evaluation.suites import open_suite
from isogloss.models.loading import choose_device
from isogloss.progress import OnProgress, silent
from isogloss_papers.claims import Verdict, judge
from isogloss_papers.published import PublishedRow, PublishedTable, published
from isogloss_papers.recipe import CONTROLLED, CONTROLS, FOLDER, PREPARATION, load_system
from isogloss_papers.scores import Figure, Figures, Gauge, columns_for
from isogloss_papers.workshop import CannotBeMade, Made, Resolved, Workshop

PAPER, EXTRA, CONTROL = "paper", "ours alone", "control"
TRAINED = ("finetune", "distil", "moving", "dual")
SCORES = "scores"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One system: what the paper has, what we have, and what ours is."""

    label: str
    system: str
    kind: str  # a row of the paper, one of ours alone, or a control
    published: tuple[float | None, ...]
    ours: tuple[Figure | None, ...]
    backbone: str = ""
    data: str = ""
    pairs: str = ""
    published_pairs: str = ""
    differs: tuple[str, ...] = ()
    why: str = ""  # it has no figures of ours
    note: str = ""
    seconds: float = 0.0  # of making it, where it was made here
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduction:
    """A table of a paper with ours beside it."""

    table: str
    title: str
    paper: str
    measure: str
    scale: str
    columns: tuple[str, ...]
    digits: tuple[int, ...]
    rows: tuple[Row, ...]
    claims: tuple[Verdict, ...]
    differs: str = ""
    picture: str = ""

    def as_dict(self) -> dict[str, Any]:
        """As JSON holds it; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `as_dict` wrote."""
        rows = [
            Row(
                **{
                    **one,
                    "published": tuple(one["published"]),
                    "differs": tuple(one["differs"]),
                    "ours": tuple(None if figure is None else Figure(**figure) for figure in one["ours"]),
                }
            )
            for one in data["rows"]
        ]
        lists = {name: tuple(data[name]) for name in ("columns", "digits")}
        return cls(**{**data, **lists, "rows": tuple(rows), "claims": tuple(Verdict(**one) for one in data["claims"])})

    def with_rows_of(self, other: "Reproduction") -> "Reproduction":
        """The table with the rows that another part of it measured: a table may be made on several machines."""
        if (other.table, other.scale) != (self.table, self.scale):
            raise IsoglossError(
                f"{other.table} at {other.scale} is no part of {self.table} at {self.scale}", hint="join parts of one table"
            )
        theirs = {(one.label, one.system): one for one in other.rows}
        rows = []
        for one in self.rows:
            their = theirs.pop((one.label, one.system), one)
            rows.append(one if any(one.ours) or not any(their.ours) else their)
        return with_claims(self, (*rows, *theirs.values()))

    def with_missing_rows(self, why: str) -> "Reproduction":
        """The table with all rows of the paper, and a reason at those that are not there."""
        known, there = published(self.table), {(row.label, row.system) for row in self.rows}
        nothing = tuple(None for _ in self.columns)
        missing = [
            Row(
                label=row.label,
                system=row.system,
                kind=PAPER,
                published=row.figures,
                ours=nothing,
                why=why,
                note=row.note,
                at=row.at,
            )
            for row in known.rows
            if (row.label, row.system) not in there
        ]
        return with_claims(self, (*self.rows, *missing))


def reproduce(
    table: str,
    scale: str = "lab",
    data: str | Path = ".",
    out: str | Path = "reproduced",
    rows: Sequence[str] = (),
    models: str | Path | None = None,
    device: str = "auto",
    overrides: Sequence[str] = (),
    resamples: int = RESAMPLES,
    recipes: str | Path = FOLDER,
    strict: bool | None = None,
    on_progress: OnProgress = silent,
) -> Reproduction:
    """Make every system of a table that can be made here, measure it, and set it beside the paper.

    `rows` chooses some systems by name. With `strict`, which is so if one is asked for alone, what cannot be made is an error
    and not a row that says why. `models` is a folder whose subfolders stand for models of their name. What is finished in `out`
    is reused, by other tables too.
    """
    known, root = published(table), Path(data)
    workshop = Workshop(
        scale=scale,
        data=root,
        out=Path(out),
        models=None if models is None else Path(models),
        device=device,
        overrides=tuple(overrides),
        recipes=Path(recipes),
        on_progress=on_progress,
    )
    if scale not in known.suites:
        raise RecipeError(f"scale = {scale!r} is not known", hint=f"choose from: {', '.join(known.suites)}")
    choose_device(device)  # what is wrong for all rows is an error, not a reason in each
    chosen = _chosen(known, workshop, rows)
    if scale == "lab" and not root.is_dir():
        raise DataError(f"{root}: no such folder", hint="--data names one with test sets in eval/ and text in train/")
    place = str(root / "eval") if (root / "eval").is_dir() else HUB if scale == "paper" else str(root)
    suite = open_suite(known.suites[scale], lambda: open_data(place))
    gauge = Gauge(known, scale, suite, Path(out) / SCORES, resamples)
    bench = _Bench(known, scale, workshop, gauge, len(set(rows)) == 1 if strict is None else strict)
    made = [row for name, kind in chosen for row in bench.rows(name, kind)]
    return with_claims(_empty(known, scale), made)


def _empty(table: PublishedTable, scale: str) -> Reproduction:
    return Reproduction(
        table=table.name,
        title=table.title,
        paper=table.paper,
        measure=table.measure,
        scale=scale,
        columns=tuple(one.name for one in table.columns),
        digits=tuple(table.digits_of(one) for one in table.columns),
        rows=(),
        claims=(),
        differs=table.differs.get(scale, ""),
        picture=table.picture,
    )


def table_rows(table: str, workshop: Workshop) -> list[str]:
    """The systems of all rows of a table, controls among them where it needs them."""
    return [name for name, _ in _chosen(published(table), workshop, ())]


def _chosen(table: PublishedTable, workshop: Workshop, rows: Sequence[str]) -> list[tuple[str, str]]:
    """The systems to make, with the kind of row each is; controls where a chosen one starts from what needs them."""
    papers = {row.system for row in table.rows}
    kinds = {name: PAPER if name in papers else EXTRA for name in table.systems}
    for name in rows:
        if name not in kinds and name not in CONTROLS:
            raise RecipeError(f"{table.name} has no row {name}", hint=f"it has {', '.join([*kinds, *CONTROLS])}")
    chosen = [(name, kind) for name, kind in kinds.items() if not rows or name in rows]
    resolved = {name: [workshop.resolve(name, one) for one in workshop.languages_of(name)] for name, _ in chosen}
    if rows:
        return chosen + [(name, CONTROL) for name in CONTROLS if name in rows]
    if any(_needs_controls(system) for systems in resolved.values() for system in systems):
        keys = {system.key for systems in resolved.values() for system in systems}
        chosen += [(name, CONTROL) for name in CONTROLS if workshop.resolve(name).key not in keys]
    return chosen


def _needs_controls(system: Resolved) -> bool:
    return any(one.making.how in TRAINED and one.making.model == CONTROLLED for one in system.walk())


@dataclass(frozen=True, slots=True)
class _Bench:
    """Makes and measures the rows of one table."""

    table: PublishedTable
    scale: str
    workshop: Workshop
    gauge: Gauge
    strict: bool

    def rows(self, name: str, kind: str) -> list[Row]:
        """The rows of a system: one, or one for each measure that the paper prints of it."""
        title = load_system(name, self.workshop.recipes).title
        empty = tuple(None for _ in self.table.columns)
        printed = [row for row in self.table.rows if row.system == name] or [
            PublishedRow(label=f"{title}, {measure}" if measure else title, system=name, figures=empty, measure=measure)
            for measure in dict.fromkeys(row.measure for row in self.table.rows)
        ]
        systems = [self.workshop.resolve(name, language) for language in self.workshop.languages_of(name)]
        try:
            found = [(system, *self._measured(system)) for system in systems]
        except (ModelError, DataError, CannotBeMade) as error:
            if self.strict:
                raise
            return [self._row(row, kind, systems, [], error.message) for row in printed]
        return [self._row(row, kind, systems, found, "") for row in printed]

    def _measured(self, system: Resolved) -> tuple[Made, dict[str, Figures]]:
        made = self.workshop.make(system)
        return made, self.gauge.figures(made, self.workshop.device, self.workshop.on_progress)

    def _row(
        self,
        printed: PublishedRow,
        kind: str,
        systems: Sequence[Resolved],
        found: Sequence[tuple[Resolved, Made, dict[str, Figures]]],
        why: str,
    ) -> Row:
        ours: dict[str, Figure] = {}
        for system, _, figures in found:
            columns = columns_for(self.table, self.scale, system.language) if system.language else self.table.columns
            known = figures.get(printed.measure, {})
            ours |= {one.name: known[one.name] for one in columns if one.name in known}
        first = systems[0]
        counts = [f"{system.language} {made.pairs:,}".strip() for system, made, _ in found if made.pairs is not None]
        heard = () if first.making.how == "published" else (*first.differs, *self._overridden(systems))
        return Row(
            label=printed.label,
            system=printed.system,
            kind=kind,
            published=printed.figures,
            ours=tuple(ours.get(one.name) for one in self.table.columns),
            backbone="" if first.making.how == "published" else first.backbone,
            data=first.data.replace(f"({first.language})", f"({', '.join(one.language for one in systems)})"),
            pairs=", ".join(counts),
            published_pairs=printed.pairs,
            differs=heard,
            why=why,
            note=printed.note,
            seconds=round(sum(made.seconds for _, made, _ in found), 1),
            at=printed.at,
        )

    def _overridden(self, systems: Sequence[Resolved]) -> tuple[str, ...]:
        """What was set for this run alone, where a row or what it is made from heeds it: its recipe says otherwise."""
        making = [one.making for system in systems for one in system.walk()]
        heeded = [
            one
            for one in self.workshop.overrides
            if any(one.startswith(f"{kind}.") for own in making for kind in (own.how, *(PREPARATION if own.has_pairs else ())))
        ]
        return (f"set for this run, in place of the recipe: {', '.join(heeded)}",) if heeded else ()


def with_claims(table: Reproduction, rows: Sequence[Row]) -> Reproduction:
    """The table with these rows, its claims judged by them."""
    known = published(table.table)
    order = {name: place for place, name in enumerate([*known.systems, *CONTROLS])}
    ranked = tuple(sorted(rows, key=lambda row: order.get(row.system, len(order))))

    def look(system: str, column: str) -> tuple[float, float, float] | None:
        place = table.columns.index(column)
        own = [row.ours[place] for row in ranked if row.system == system]
        figures = [one for one in own if one is not None]
        if not figures:
            return None
        value, low, high = (sum(getattr(one, part) for one in figures) / len(figures) for part in ("value", "low", "high"))
        return value, low, high

    def title(system: str) -> str:
        return next((row.label for row in known.rows if row.system == system), system)

    verdicts = tuple(judge(claim, look, title) for claim in known.claims)
    return replace(table, rows=ranked, claims=verdicts)
