"""What the command line shows: bars while work goes on, tables when it is done.

Names of files and corpora, sentences and answers of servers are shown as text and nothing else: on these consoles no string is
markup (what is to be bold is a `Text`), control characters are escaped, keys in addresses are masked.
"""

import json
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
SHORT = 0.5  # seconds, after which a rate says something
TITLES = {
    "pairs": "reading pairs",
    "numbering": "numbering sentences",
    "models": "loading models",
    "tokens": "tokenizing",
    "teacher": "teacher vectors",
    "teacher, held out": "teacher, held out",
    "lower layers": "frozen layers, once",
    "untouched student": "untouched student",
    "distilled student": "measuring",
    "distill": "distilling",
    "train": "training",
    "vocabulary": "learning pieces",
    "translate": "translating",
    "embed": "embedding",
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


@dataclass(slots=True)
class Clock:
    """How fast a stage goes, and how long it still takes: counted from where it began in this process."""

    began: float
    offset: int  # what was done already when it began
    last: Step

    @classmethod
    def start(cls, step: Step, now: float) -> "Clock":
        """A stage that is seen for the first time, or that begins again."""
        return cls(now, 0 if step.finished else step.done, step)

    def begins_again(self, step: Step) -> bool:
        """Whether this step belongs to another round: the counts of two rounds, or of two units, have no difference."""
        other_unit = bool(step.unit) and bool(self.last.unit) and step.unit != self.last.unit
        return step.done < self.last.done or (self.last.finished and not step.finished) or other_unit

    def rate(self, now: float) -> str:
        """Such as "312 sentences/s"; nothing before there is something to count."""
        counted, elapsed = self.last.done - self.offset, now - self.began
        if elapsed <= SHORT or counted <= 0 or self.last.unit in ("", "models"):
            return ""
        rate = counted / elapsed
        return f"{rate:,.0f} {self.last.unit}/s" if rate >= 10 else f"{rate:.2g} {self.last.unit}/s"

    def left(self, now: float) -> str:
        """Such as "26 min left"; nothing before it can be estimated."""
        counted, elapsed = self.last.done - self.offset, now - self.began
        if elapsed <= SHORT or counted <= 0 or self.last.finished:
            return ""
        return f"{duration(max(1.0, elapsed * (self.last.total - self.last.done) / counted))} left"


class Bars:
    """One bar a stage, on a terminal; elsewhere one line a stage, so that logs stay readable."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self.clocks: dict[str, Clock] = {}
        self.tasks: dict[str, TaskID] = {}
        self.said: dict[str, float] = {}
        self.closed: set[str] = set()
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
        if clock is None or clock.begins_again(step):
            self.clocks[step.stage] = clock = Clock.start(step, now)
            self.said[step.stage] = now
            self.closed.discard(step.stage)
        clock.last = step
        if self.live:
            self._bar(step, clock, now)
        else:
            self._line(step, clock, now)

    def _bar(self, step: Step, clock: Clock, now: float) -> None:
        if step.stage not in self.tasks:
            title = clean(TITLES.get(step.stage, step.stage))
            self.tasks[step.stage] = self.progress.add_task(title, total=step.total, state="")
        counted = f"{step.done:,}/{step.total:,}"
        rate = "" if step.finished and step.note else clock.rate(now)
        state = Text("  ".join(part for part in (counted, rate, clock.left(now), clean(step.note)) if part))
        state.truncate(max(1, errors.width - TITLE - self.bar - 2), overflow="ellipsis")  # or rich would cut other columns
        self.progress.update(self.tasks[step.stage], completed=step.done, total=step.total, state=state.plain)

    def _line(self, step: Step, clock: Clock, now: float) -> None:
        due = now - self.said[step.stage] > PLAIN_LINE_SECONDS
        if step.stage in self.closed or not (step.finished or due):
            return
        self.said[step.stage] = now
        title = TITLES.get(step.stage, step.stage)
        took = duration(now - clock.began) if now - clock.began > 1 else ""
        counted = amount(step.total, step.unit.removesuffix("s"), step.unit)
        parts = [f"{step.done:,} of {counted}", clock.rate(now), took, clock.left(now), step.note]
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


def tell(text: str) -> None:
    """A sentence of a result: words are not cut on a terminal, and lines stay whole in a file."""
    output.print(text, soft_wrap=not output.is_terminal)


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
        f"{amount(counts.pop(), 'held-out sentence')} per language"
        if len(counts) == 1
        else amount(report.average().queries, "held-out sentence")
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
