"""What the command line shows: bars while work goes on, tables when it is done.

Names of files and corpora, sentences and answers of servers are shown as plain text: on these consoles no string is markup
(bold text is a `Text`), control characters are escaped, and keys in addresses are masked.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column, Table
from rich.text import Text

from isogloss.amounts import amount, duration
from isogloss.progress import OnProgress, Step
from isogloss.shown import json_printable, masked, masked_values, printable
from isogloss.types import LanguageScores, Report

PLAIN_LINE_SECONDS = 15.0
TITLE = 20  # columns of a stage's name
WIDE, WIDE_BAR, NARROW_BAR = 110, 30, 10  # columns of the screen, and of a bar on it
SHORT = 0.5  # seconds; a rate over less time is not shown
TITLES = {
    "pairs": "reading pairs",
    "models": "loading models",
    "tokens": "tokenizing",
    "teacher": "teacher vectors",
    "lower layers": "frozen layers, once",
    "distilled student": "measuring",
    "distill": "distilling",
    "train": "training",
    "vocabulary": "learning pieces",
    "translate": "translating",
    "embed": "embedding",
    "index": "building the index",
    "queries": "embedding queries",
}


class PlainConsole(Console):
    """A console on which every string, in a table too, is only text."""

    def __init__(self, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=True, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401 - as rich has them
        """Text from a string: rich calls this for every string that it shows."""
        return super().render_str(safe_text(text), **options)


def safe_text(text: str) -> str:
    """Text that is safe to print on a terminal."""
    return masked(printable(text, layout=True))


errors = PlainConsole(stderr=True)
output = PlainConsole()


@dataclass(slots=True)
class Clock:
    """The speed of a stage and the time it still takes, counted from its start in this process."""

    began: float
    offset: int  # what was already done at the start
    last: Step

    @classmethod
    def start(cls, step: Step, now: float) -> "Clock":
        """The clock of a stage that is new, or that starts again."""
        return cls(now, 0 if step.finished else step.done, step)

    def starts_again(self, step: Step) -> bool:
        """Whether this step belongs to another round, or counts in another unit."""
        other_unit = bool(step.unit) and bool(self.last.unit) and step.unit != self.last.unit
        return step.done < self.last.done or (self.last.finished and not step.finished) or other_unit

    def rate_and_rest(self, now: float) -> list[str]:
        """The speed and the remaining time, "312 sentences/s" and "26 min left", as far as they can be estimated."""
        step, counted, elapsed = self.last, self.last.done - self.offset, now - self.began
        if elapsed <= SHORT or counted <= 0:
            return []
        rate = counted / elapsed
        speed = [] if step.unit in ("", "models") else [f"{rate:{',.0f' if rate >= 10 else '.2g'}} {step.unit}/s"]
        return speed if step.finished else [*speed, f"{duration(max(1.0, (step.total - step.done) / rate))} left"]


class Bars:
    """One bar per stage on a terminal; elsewhere one line per stage, so that logs stay readable."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.clocks: dict[str, Clock] = {}
        self.tasks: dict[str, TaskID] = {}
        self.printed: dict[str, float] = {}  # when the last line of a stage was printed; infinite once it is finished
        self.live = errors.is_terminal
        self.bar = WIDE_BAR if errors.width >= WIDE else NARROW_BAR
        self.progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(width=TITLE, no_wrap=True)),
            BarColumn(self.bar, table_column=Column(width=self.bar)),
            TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
            console=errors,
        )

    def __call__(self, step: Step) -> None:
        """Show one step."""
        now = self.now()
        clock = self.clocks.get(step.stage)
        if clock is None or clock.starts_again(step):
            self.clocks[step.stage] = clock = Clock.start(step, now)
            self.printed[step.stage] = now
        clock.last = step
        if self.live:
            self._bar(step, clock, now)
        else:
            self._line(step, clock, now)

    def _bar(self, step: Step, clock: Clock, now: float) -> None:
        if step.stage not in self.tasks:
            title = safe_text(TITLES.get(step.stage, step.stage))
            self.tasks[step.stage] = self.progress.add_task(title, total=step.total, state="")
        rate_and_rest = [] if step.finished and step.note else clock.rate_and_rest(now)
        parts = [f"{step.done:,}/{step.total:,}", *rate_and_rest, safe_text(step.note)]
        state = Text("  ".join(part for part in parts if part))
        state.truncate(max(1, errors.width - TITLE - self.bar - 2), overflow="ellipsis")  # or rich would cut other columns
        self.progress.update(self.tasks[step.stage], completed=step.done, total=step.total, state=state.plain)

    def _line(self, step: Step, clock: Clock, now: float) -> None:
        due = now - self.printed[step.stage]
        if due < 0 or not (step.finished or due > PLAIN_LINE_SECONDS):
            return
        self.printed[step.stage] = math.inf if step.finished else now
        counted = f"{step.done:,} of {amount(step.total, step.unit.removesuffix('s'), step.unit)}"
        if now - clock.began > 1:
            counted += f" in {duration(now - clock.began)}"
        parts = [counted, *clock.rate_and_rest(now), step.note]
        errors.print(f"{TITLES.get(step.stage, step.stage):<20} " + ", ".join(part for part in parts if part))


@contextmanager
def progress() -> Iterator[OnProgress]:
    """Bars for the length of a block."""
    bars = Bars()
    if bars.live:
        with bars.progress:
            yield bars
    else:
        yield bars


def tell(text: str) -> None:
    """A sentence of a result: wrapped at words on a terminal, one line in a file."""
    output.print(text, soft_wrap=not output.is_terminal)


def say(text: str) -> None:
    """A line for the person at the screen (standard error, so that pipes get only results)."""
    errors.print(text)


def show_json(value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """A result for a machine, on standard output."""
    text = json.dumps(masked_values(value), ensure_ascii=False, indent=2, allow_nan=False)
    sys.stdout.write(json_printable(text) + "\n")


def percent(value: float | None) -> str:
    """A share as a percentage; a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}".replace("100.0", "100")


def two_places(value: float | None) -> str:
    """A cosine; a dash for None."""
    return "–" if value is None else f"{value:.2f}"


def plain_table(*columns: str, title: str = "", gap: int = 2) -> Table:
    """A table without lines; columns of numbers, whose names start with ">", are aligned to the right."""
    table = Table(
        title=title or None, title_justify="left", title_style="", header_style="bold", box=None, padding=(0, gap, 0, 0)
    )
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", no_wrap=True)
    return table


Measure = tuple[str, str, Callable[[float | None], str]]
MEASURES: tuple[Measure, ...] = (
    ("teacher_index", "search the\nteacher's index", percent),
    ("to_source", "translation\n→ source", percent),
    ("from_source", "source\n→ translation", percent),
    ("cosine", "cosine to\nthe teacher", two_places),
)
CELL = 5  # "92.4" and a space; a cosine below zero needs one more


def held_out_title(report: Report) -> str:
    """The title of scores on held-out sentences, with their number: with few, small differences mean nothing."""
    counts = {score.queries for score in report.scores}
    held = (
        f"{amount(counts.pop(), 'held-out sentence')} per language"
        if len(counts) == 1
        else amount(report.average().queries, "held-out sentence")
    )
    return f"{held}, searched among {report.candidates} (accuracy at 1, %)"


def score_table(reports: Sequence[Report], title: str = "") -> Table:
    """One row per language, one column per measure; a cell has one number per model, in the order of the title."""
    names = ", ".join(report.model for report in reports)
    caption = f"{title}\n{'in each column: ' if len(reports) > 1 else ''}{names}"
    everything = [score for report in reports for score in report.scores]
    shown = [one for one in MEASURES if any(getattr(score, one[0]) is not None for score in everything)]  # no teacher: two
    rows = [_cells([report.scores[place] for report in reports], shown) for place in range(len(reports[0].scores))]
    rows.append(_cells([report.average() for report in reports], shown))
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    table = plain_table("", *(f">{name}" for _, name, _ in shown), title=caption, gap=1)
    for column, width in zip(table.columns, widths, strict=True):
        column.min_width = width  # numbers are never cut, however many there are
    for place, cells in enumerate(rows):
        table.add_row(*cells, style="bold" if place == len(rows) - 1 else "")
    return table


def _cells(scores: Sequence[LanguageScores], shown: Sequence[Measure]) -> list[str]:
    cells = [scores[0].language]
    for attribute, _, form in shown:
        width = CELL + (attribute == "cosine")
        cells.append("".join(f"{form(getattr(score, attribute)):>{width}}" for score in scores))
    return cells
