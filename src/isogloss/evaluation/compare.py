"""Models side by side: one table a task, every score with its interval, every difference with whether it can be chance.

A difference is significant where the 95 % interval of the paired differences (`bootstrap`) does not contain 0. That says
nothing about other test sets, and of many comparisons one in twenty is significant by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from isogloss.errors import IsoglossError
from isogloss.evaluation.bootstrap import RESAMPLES, Average, Draws, Interval, Sample, can_be_resampled, interval
from isogloss.evaluation.leak_report import Scan, leak_state
from isogloss.evaluation.results import Measured
from isogloss.shown import masked

MEAN_REMOVED = " − means"  # after the name of a model, where each language's mean was taken off its vectors
AVERAGE = "Avg."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one model reached in a suite."""

    model: str
    measured: tuple[Measured, ...]
    facts: dict[str, Any] = field(default_factory=dict)  # dimension, fingerprint, whatever describes it
    scan: Scan | None = None  # what its training text was scanned for; None where it is not known


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more a model reached than the baseline, drawn together."""

    value: float
    interval: Interval
    p: float  # share of draws on the other side of 0, both ways

    @property
    def significant(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.interval.low > 0 or self.interval.high < 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One score of one model."""

    value: float
    interval: Interval | None
    difference: Difference | None
    others: dict[str, float]
    leaks: str


@dataclass(frozen=True, slots=True)
class Column:
    """One part of a test set: a cell a model."""

    name: str
    measure: str
    rows: int
    cells: tuple[Cell, ...]
    note: str = ""
    shown: tuple[str, ...] = ()  # measures beside the main one that stand under it


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """All parts of one task, and their average where there is one."""

    title: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several models on the same tasks."""

    models: tuple[str, ...]
    baseline: int | None
    tables: tuple[ScoreTable, ...]
    facts: tuple[dict[str, Any], ...]
    resamples: int
    seed: int

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON holds it."""
        return {
            "models": [{"name": name, **facts} for name, facts in zip(self.models, self.facts, strict=True)],
            "baseline": None if self.baseline is None else self.models[self.baseline],
            "resamples": self.resamples,
            "seed": self.seed,
            "tables": [
                {"title": table.title, "columns": [_column(one, self.models) for one in table.columns]} for table in self.tables
            ],
        }


def compare(outcomes: Sequence[Outcome], baseline: str | None = None, resamples: int = RESAMPLES, seed: int = 0) -> Comparison:
    """Set outcomes of the same suite side by side; differences are to `baseline`, or to the first model."""
    models = tuple(one.model for one in outcomes)
    baseline = None if baseline is None else masked(baseline)  # as the models' own names are
    if baseline is not None and baseline not in models:
        raise IsoglossError(f"{baseline}: the baseline is not among the models", hint=f"name one of {', '.join(models)}")
    base = models.index(baseline) if baseline is not None else 0
    tables: dict[str, list[list[Measured]]] = {}
    for parts in zip(*(one.measured for one in outcomes), strict=True):
        tables.setdefault(parts[0].table, []).append(list(parts))
    made, draws = [], Draws(seed, resamples) if resamples else None
    for title, columns in tables.items():
        averaged = [parts for parts in columns if parts[0].averaged]
        if len(averaged) > 1:
            columns = [*columns, _average(title, averaged)]
        made.append(ScoreTable(title, tuple(_compared(parts, outcomes, base, draws) for parts in columns)))
    facts = tuple({**one.facts, **_learnt(one.scan)} for one in outcomes)
    return Comparison(models, base if len(models) > 1 else None, tuple(made), facts, resamples, seed)


def _learnt(scan: Scan | None) -> dict[str, Any]:
    """What a model learnt from and what that was scanned for, as JSON holds it."""
    if scan is None:
        return {"learnt_from": None, "scanned": None}
    return {"learnt_from": list(scan.corpora), "scanned": list(scan.names)}


def _average(title: str, columns: Sequence[Sequence[Measured]]) -> list[Measured]:
    """The mean over a table's columns, for each model."""
    found = []
    for own in zip(*columns, strict=True):
        sample: Sample = Average(tuple(one.sample for one in own))
        shared = [name for name in own[0].others if all(name in one.others for one in own)]
        others = {name: float(np.mean([one.others[name] for one in own])) for name in shared}
        origin = tuple(file for one in own for file in one.origin)
        found.append(Measured(title, AVERAGE, own[0].measure, sample, others, origin, shown=own[0].shown))
    return found


def _compared(parts: Sequence[Measured], outcomes: Sequence[Outcome], base: int, drawing: Draws | None) -> Column:
    samples = [one.sample for one in parts]
    draws = drawing.of(samples) if drawing is not None and can_be_resampled(samples[0]) else None
    cells = []
    for place, one in enumerate(parts):
        difference = None
        if draws is not None and place != base:
            drawn = draws[place] - draws[base]
            tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
            p = min(1.0, 2 * (float(tail) + 1) / (len(drawn) + 1))
            difference = Difference(one.sample.value() - samples[base].value(), interval(drawn), p)
        own = None if draws is None else interval(draws[place])
        cells.append(Cell(one.sample.value(), own, difference, one.others, leak_state(one.origin, outcomes[place].scan)))
    first = parts[0]
    return Column(first.column, first.measure, len(first.sample), tuple(cells), first.note, first.shown)


def _column(column: Column, models: Sequence[str]) -> dict[str, Any]:
    cells = [{"model": model, **_cell(cell)} for model, cell in zip(models, column.cells, strict=True)]
    told = {"name": column.name, "measure": column.measure, "rows": column.rows, "scores": cells}
    return told | ({"note": column.note} if column.note else {})


def _cell(cell: Cell) -> dict[str, Any]:
    told: dict[str, Any] = {"value": cell.value, "interval": cell.interval and list(cell.interval)}
    if cell.difference is not None:
        told["difference"] = {
            "value": cell.difference.value,
            "interval": list(cell.difference.interval),
            "p": cell.difference.p,
            "significant": cell.difference.significant,
        }
    finite = {name: value for name, value in cell.others.items() if np.isfinite(value)}
    return told | {"others": finite, "leaks": cell.leaks}
