"""What the command line shows: bars while work goes on, tables when it is done.

Names of files and corpora, sentences and answers of servers are shown as text and nothing else: on these consoles no string is
markup (what is to be bold is a `Text`), control characters are escaped, keys in addresses are masked.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from isogloss.progress import OnProgress, Step
from isogloss.shown import json_printable, masked, masked_values, printable
from isogloss.types import LanguageScores, Report

PLAIN_LINE_SECONDS = 15.0
TITLES = {
    "pairs": "reading pairs",
    "numbering": "numbering sentences",
    "models": "loading models",
    "tokens": "tokenising",
    "teacher": "teacher vectors",
    "teacher, held out": "teacher, held out",
    "lower layers": "frozen layers, once",
    "untouched student": "untouched student",
    "trained student": "measuring",
    "distilled student": "measuring",
    "distil": "distilling",
    "train": "training",
    "vocabulary": "learning pieces",
    "laser": "translating",
    "embed": "embedding",
    "model": "embedding",
}


class PlainConsole(Console):
    """A console on which every string, in a table too, is only text."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as rich has them
        """Text from a string: the one way that rich takes for all it is given."""
        return super().render_str(clean(text), **options)


def clean(text: str) -> str:
    """Text as a terminal may have it."""
    return masked(printable(text, layout=True))


errors = PlainConsole(stderr=True)
output = PlainConsole()


class Bars:
    """One bar a stage, on a terminal; elsewhere one line a stage, so that logs stay readable."""

    def __init__(self) -> None:
        self.started: dict[str, float] = {}
        self.offset: dict[str, int] = {}
        self.tasks: dict[str, TaskID] = {}
        self.said: dict[str, float] = {}
        self.closed: set[str] = set()
        self.live = errors.is_terminal
        self.progress = Progress(
            TextColumn("{task.description:<20}", markup=False),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>16}", markup=False),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=errors,
        )

    def __call__(self, step: Step) -> None:
        """Show one step."""
        now = time.monotonic()
        if step.stage not in self.started:
            self.started[step.stage], self.offset[step.stage] = now, 0 if step.finished else step.done
        elapsed = now - self.started[step.stage]
        counted = step.done - self.offset[step.stage]
        timed = elapsed > 0.5 and counted and step.unit != "models"
        rate = f"{counted / elapsed:,.0f} {step.unit}/s" if timed else ""
        if self.live:
            self._bar(step, rate)
        else:
            self._line(step, rate, elapsed, now)

    def _bar(self, step: Step, rate: str) -> None:
        if step.stage not in self.tasks:
            title = clean(TITLES.get(step.stage, step.stage))
            self.tasks[step.stage] = self.progress.add_task(title, total=step.total, rate="", note="")
        self.progress.update(self.tasks[step.stage], completed=step.done, total=step.total, rate=rate, note=clean(step.note))

    def _line(self, step: Step, rate: str, elapsed: float, now: float) -> None:
        due = now - self.said.get(step.stage, self.started[step.stage]) > PLAIN_LINE_SECONDS
        if step.stage in self.closed or not (step.finished or due):
            return
        self.said[step.stage] = now
        title = TITLES.get(step.stage, step.stage)
        took = f"{elapsed:.0f} s" if elapsed > 1 else ""
        counted = step.done - self.offset[step.stage]
        if counted and not step.finished:
            took += f", {elapsed * (step.total - step.done) / counted:.0f} s left"
        parts = [f"{step.done:,} of {step.total:,} {step.unit}", rate, took, step.note]
        errors.print(f"{title:<20} " + ", ".join(part for part in parts if part))
        if step.finished:
            self.closed.add(step.stage)


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Bars for the length of a block."""
    bars = Bars()
    if bars.live:
        with bars.progress:
            yield bars
    else:
        yield bars


def say(text: str) -> None:
    """A line for the person at the screen (standard error, so that pipes get only results)."""
    errors.print(text)


def show_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """A result for a machine, on standard output."""
    text = json.dumps(masked_values(value), ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write(json_printable(text) + "\n")


def percent(value: float | None) -> str:
    """A share as a percentage, a dash where there is none."""
    return "–" if value is None else f"{100 * value:.1f}".replace("100.0", "100")


def two_places(value: float | None) -> str:
    """A cosine, a dash where there is none."""
    return "–" if value is None else f"{value:.2f}"


Measure = tuple[str, str, Callable[[float | None], str]]
MEASURES: tuple[Measure, ...] = (
    ("teacher_index", "search the\nteacher's index", percent),
    ("to_source", "translation\n→ source", percent),
    ("from_source", "source\n→ translation", percent),
    ("cosine", "cosine to\nthe teacher", two_places),
)
CELL = 5  # "92.4" and a space; a cosine below zero needs one more


def what_was_asked(report: Report) -> str:
    """The title of scores on held-out sentences, with their number: of few, small differences mean nothing."""
    counts = {score.queries for score in report.scores}
    held = (
        f"{counts.pop()} held-out sentences a language"
        if len(counts) == 1
        else f"{report.average().queries} held-out sentences"
    )
    return f"{held}, searched among {report.candidates} (accuracy at 1, %)"


def score_table(reports: Sequence[Report], title: str = "") -> Table:
    """One row a language, one column a measure; a cell has one number a model, in the order the first line names them."""
    names = ", ".join(report.model for report in reports)
    caption = f"{title}\nin each column: {names}" if len(reports) > 1 else f"{title}\n{names}"
    table = Table(title=caption, title_justify="left", title_style="", header_style="bold", box=None, padding=(0, 1, 0, 0))
    everything = [score for report in reports for score in report.scores]
    shown = [one for one in MEASURES if any(getattr(score, one[0]) is not None for score in everything)]  # no teacher: two
    rows = [_cells([report.scores[place] for report in reports], shown) for place in range(len(reports[0].scores))]
    rows.append(_cells([report.average() for report in reports], shown))
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    table.add_column("", no_wrap=True, min_width=widths[0])
    for (_, name, _), width in zip(shown, widths[1:], strict=True):
        table.add_column(name, justify="right", no_wrap=True, min_width=width)  # numbers are never cut, however many there are
    for place, cells in enumerate(rows):
        table.add_row(*cells, style="bold" if place == len(rows) - 1 else "")
    return table


def _cells(scores: Sequence[LanguageScores], shown: Sequence[Measure]) -> list[str]:
    cells = [scores[0].language]
    for attribute, _, form in shown:
        width = CELL + (attribute == "cosine")
        cells.append("".join(f"{form(getattr(score, attribute)):>{width}}" for score in scores))
    return cells
