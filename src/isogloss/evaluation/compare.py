"""Scores of models, and their comparison: tables with confidence intervals, and differences to a baseline.

A difference is significant if the 95 % interval of the paired differences (`bootstrap`) does not contain 0. One in twenty
comparisons is significant by chance.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from isogloss.errors import IsoglossError
from isogloss.evaluation.bootstrap import RESAMPLES, Draws, Interval, Sample, average, interval
from isogloss.evaluation.leak_report import Scan, SetFile, leak_state
from isogloss.shown import masked

MEAN_REMOVED = " − means"  # after the name of a model with language means subtracted
AVERAGE = "Avg."


@dataclass(frozen=True, slots=True)
class TaskScore:
    """The score of one model on one subset of a test set, and further metrics."""

    table: str  # the title of its table
    column: str  # a language, a language pair, or a group
    measure: str  # what `sample` is
    sample: Sample
    others: dict[str, float] = field(default_factory=dict)
    origin: tuple[SetFile, ...] = ()  # the files of the test set
    averaged: bool = True  # whether it is part of the table's average
    shown: tuple[str, ...] = ()  # which of the others are shown below it
    note: str = ""
    further: dict[str, Sample] = field(default_factory=dict)  # other metrics with intervals and differences of their own


@dataclass(frozen=True, slots=True)
class Outcome:
    """The scores of one model on a suite."""

    model: str
    measured: tuple[TaskScore, ...]
    facts: dict[str, Any] = field(default_factory=dict)  # dimension, fingerprint and so on
    scan: Scan | None = None  # what its training text was scanned for; None if unknown


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better a model is than the baseline, on the same resamples."""

    value: float
    interval: Interval
    p: float  # two-sided
    significant: bool  # whether the interval excludes 0


@dataclass(frozen=True, slots=True)
class Score:
    """The value of one metric for one model, and how it differs from the baseline's."""

    value: float
    interval: Interval | None
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class Cell(Score):
    """One score of one model, and further metrics of the same test set."""

    others: dict[str, float]
    leaks: str
    further: dict[str, Score] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Column:
    """One subset of a test set, with a cell per model."""

    name: str
    measure: str
    rows: int
    cells: tuple[Cell, ...]
    note: str = ""
    shown: tuple[str, ...] = ()  # further metrics that are shown below the main one


@dataclass(frozen=True, slots=True)
class ScoreTable:
    """All columns of one task, and their average if there is one."""

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
        """Everything, for JSON."""
        return {
            "models": [{"name": name, **facts} for name, facts in zip(self.models, self.facts, strict=True)],
            "baseline": None if self.baseline is None else self.models[self.baseline],
            "resamples": self.resamples,
            "seed": self.seed,
            "tables": [{"title": table.title, "columns": list(map(self._column, table.columns))} for table in self.tables],
        }

    def _column(self, column: Column) -> dict[str, Any]:
        values = asdict(column)
        scores = [{"model": model} | cell for model, cell in zip(self.models, values.pop("cells"), strict=True)]
        return values | {"scores": scores}


def compare(outcomes: Sequence[Outcome], baseline: str | None = None, resamples: int = RESAMPLES, seed: int = 0) -> Comparison:
    """Compare outcomes of the same suite; differences are to `baseline`, or to the first model."""
    models = tuple(one.model for one in outcomes)
    baseline = None if baseline is None else masked(baseline)  # as in the names of models
    if baseline is not None and baseline not in models:
        raise IsoglossError(f"{baseline}: the baseline is not among the models", hint=f"name one of {', '.join(models)}")
    base = models.index(baseline) if baseline is not None else 0
    tables: dict[str, list[list[TaskScore]]] = {}
    for parts in zip(*(one.measured for one in outcomes), strict=True):
        tables.setdefault(parts[0].table, []).append(list(parts))
    made, draws = [], Draws(seed, resamples) if resamples else None
    for title, columns in tables.items():
        averaged = [parts for parts in columns if parts[0].averaged]
        if len(averaged) > 1:
            columns = [*columns, [mean_of(own, AVERAGE) for own in zip(*averaged, strict=True)]]
        made.append(ScoreTable(title, tuple(_compared(parts, outcomes, base, draws) for parts in columns)))
    facts = tuple({**one.facts, **_training(one.scan)} for one in outcomes)
    return Comparison(models, base if len(models) > 1 else None, tuple(made), facts, resamples, seed)


def _training(scan: Scan | None) -> dict[str, Any]:
    """What a model was trained on, and what that was scanned for."""
    if scan is None:
        return {"learnt_from": None, "scanned": None}
    return {"learnt_from": list(scan.corpora), "scanned": list(scan.names)}


def mean_of(parts: Sequence[TaskScore], column: str) -> TaskScore:
    """The mean over several columns of a table, as another column."""
    shared = [name for name in parts[0].others if all(name in one.others for one in parts)]
    others = {name: float(np.mean([one.others[name] for one in parts])) for name in shared}
    further = [name for name in parts[0].further if all(name in one.further for one in parts)]
    return replace(
        parts[0],
        column=column,
        sample=average([one.sample for one in parts]),
        others=others,
        origin=tuple(file for one in parts for file in one.origin),
        note="",
        further={name: average([one.further[name] for one in parts]) for name in further},
    )


def _compared(parts: Sequence[TaskScore], outcomes: Sequence[Outcome], base: int, drawing: Draws | None) -> Column:
    scores = _scores([one.sample for one in parts], base, drawing)
    further = {name: _scores([one.further[name] for one in parts], base, drawing) for name in parts[0].further}
    cells = []
    for place, (one, score) in enumerate(zip(parts, scores, strict=True)):
        others = {name: value for name, value in one.others.items() if np.isfinite(value)}
        leaks = leak_state(one.origin, outcomes[place].scan)
        more = {name: own[place] for name, own in further.items()}
        cells.append(Cell(score.value, score.interval, score.difference, others, leaks, more))
    first = parts[0]
    return Column(first.column, first.measure, len(first.sample), tuple(cells), first.note, first.shown)


def _scores(samples: Sequence[Sample], base: int, drawing: Draws | None) -> list[Score]:
    """The scores of all models by one metric."""
    draws = drawing.of(samples) if drawing is not None and samples[0].can_be_resampled else None
    scores = []
    for place, sample in enumerate(samples):
        difference = None
        if draws is not None and place != base:
            drawn = draws[place] - draws[base]
            tail = min((drawn <= 0).sum(), (drawn >= 0).sum())
            p = min(1.0, 2 * (float(tail) + 1) / (len(drawn) + 1))
            span = interval(drawn)
            difference = Difference(sample.value() - samples[base].value(), span, p, span.low > 0 or span.high < 0)
        scores.append(Score(sample.value(), None if draws is None else interval(draws[place]), difference))
    return scores
