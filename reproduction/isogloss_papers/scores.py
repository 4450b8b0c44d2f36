"""What a system reaches in a table's columns, each with its 95 % interval; kept, so that a table can be put together in parts.

A column is the mean of parts of test sets. Their rows are drawn with replacement (`evaluation.bootstrap`); a direction of
Tatoeba, of which only the share is known, is drawn as what that is: n rows, each right with probability p.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import RESAMPLES, Draws, Interval, average, interval
from isogloss.shapes import as_type
from isogloss.storage import content_hash, read_json, write_json
from isogloss_papers.published import Column, PublishedTable

if TYPE_CHECKING:
    from isogloss.evaluation.compare import TaskScore
    from isogloss.evaluation.suites import Suite
    from isogloss.models.encoder import Encoder
    from isogloss.progress import OnProgress
    from isogloss_papers.workshop import Made


@dataclass(frozen=True, slots=True)
class Figure:
    """One score × 100 with its interval, and from how many rows."""

    value: float
    low: float
    high: float
    rows: int


Figures = dict[str, Figure]  # by column


class Gauge:
    """Measures systems by the columns of one table."""

    def __init__(self, table: PublishedTable, scale: str, suite: "Suite", folder: Path, resamples: int = RESAMPLES) -> None:
        self.table, self.scale, self.suite, self.folder = table, scale, suite, folder
        self.draws = Draws(0, resamples)
        self.resamples = resamples

    def figures(self, made: "Made", device: str, on_progress: "OnProgress") -> dict[str, Figures]:
        """By measure (the main one is ""): a figure a column. Kept under the system's key and what it is measured on."""
        place = self.folder / self.table.name / f"{made.name}-{self._key(made)[:12]}.json"
        if (before := _measured_before(place)) is not None:
            return before
        found = self._measured(made.open(device), on_progress)
        write_json(place, {kind: {column: asdict(one) for column, one in own.items()} for kind, own in found.items()})
        return found

    def _key(self, made: "Made") -> str:
        rows = [f"{language} {len(texts)}" for language, texts in self.suite.texts()]
        return content_hash(made.key, self.scale, self.table.suites[self.scale], str(self.resamples), *rows)

    def _measured(self, encoder: "Encoder", on_progress: "OnProgress") -> dict[str, Figures]:
        from isogloss.evaluation.suites import measure
        from isogloss.storage import cache_folder

        (outcome,) = measure(encoder, self.suite, cache_folder(), on_progress=on_progress)
        known = _by_column(outcome.measured)
        kinds = dict.fromkeys(["", *(row.measure for row in self.table.rows if row.measure)])
        return {
            kind: {
                column.name: self._figure([known[part] for part in column.parts(self.scale)], kind)
                for column in self.table.columns
                if column.parts(self.scale)
            }
            for kind in kinds
        }

    def _figure(self, parts: "list[TaskScore]", kind: str) -> Figure:
        rows = sum(len(one.sample) for one in parts)
        if kind:
            values = [one.others[kind] for one in parts]
            low, high = _share_interval(values, [len(one.sample) for one in parts], self.resamples)
            return _hundredfold(float(np.mean(values)), Interval(low, high), rows)
        sample = average([one.sample for one in parts])
        if not self.resamples:
            return _hundredfold(sample.value(), Interval(sample.value(), sample.value()), rows)
        return _hundredfold(sample.value(), interval(self.draws.of([sample])[0]), rows)


def _by_column(measured: "Iterable[TaskScore]") -> "dict[str, TaskScore]":
    found: dict[str, TaskScore] = {}
    for one in measured:
        if one.column in found:
            raise DataError(f"{one.column} is in two test sets of the table", hint="name its parts in `suites`")
        found[one.column] = one
    return found


def _share_interval(shares: list[float], rows: list[int], resamples: int) -> Interval:
    """Drawing n rows of which a share p is right, with replacement, gives binomial numbers of right ones."""
    if not resamples:
        return Interval(float(np.mean(shares)), float(np.mean(shares)))
    generator = np.random.default_rng(0)
    drawn = [generator.binomial(n, min(max(p, 0.0), 1.0), resamples) / n for p, n in zip(shares, rows, strict=True)]
    return interval(np.mean(drawn, axis=0))


def _hundredfold(value: float, span: Interval, rows: int) -> Figure:
    return Figure(round(100 * value, 3), round(100 * span.low, 3), round(100 * span.high, 3), rows)


def columns_for(table: PublishedTable, scale: str, language: str) -> list[Column]:
    """The columns that a system of a language has a say in."""
    return [one for one in table.columns if one.parts(scale) and (not one.language or one.language == language)]


def _measured_before(place: Path) -> dict[str, Figures] | None:
    """What is kept; None where nothing is, or something else."""
    try:
        return as_type(read_json(place), dict[str, Figures])
    except (OSError, ValueError):
        return None
