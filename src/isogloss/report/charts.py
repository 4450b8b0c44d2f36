"""Charts as `svg` elements: heat map, bar, histogram, the steps of a waterfall, and lines over axes.

This module computes coordinates; `templates/charts.html` draws them. Colors are classes or variables (`heat-1` to `heat-9`,
`train`, `dropped`, …) of the page's style sheet, so one picture works in light and dark mode. Bars and histograms stretch to
the available width and have no text: labels are HTML next to them, which can wrap on a phone. Numbers are in `title`
elements, shown on hover.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self
from unicodedata import east_asian_width

from markupsafe import Markup

from isogloss.report.rendering import render_macro

LEVELS = 9
BROAD, SLIM = "mwMW@%—…", "fijlrtI.,:;|'!()[] -"
NARROWEST, WIDEST = 11, 34  # pixels of a cell of a heat map
TICK = 14.0  # the mark of a value on a bar that is WIDTH wide
WIDTH, HEIGHT, LEAST = 1000, 100, 3.0  # of pictures that are stretched; a bar above zero is never narrower than LEAST
WIDE, NARROW, LOW = 1170, 374, 16  # pixels for a picture on a screen and on a phone, and for a row on a phone
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 22, 40  # pixels around the frame of a line chart
TICK_ROOM, TICK_ROOM_DOWN = 84, 44  # pixels that a label may take, across and down
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


_draw = partial(render_macro, "charts.html")


@dataclass(frozen=True, slots=True)
class Scale:
    """Which of the nine colors a number has: each bound is the largest number of its color, the last one has no limit.

    With fewer bounds the strong colors are used, so that the largest numbers always stand out.
    """

    bounds: tuple[float, ...]
    form: Callable[[float], str]

    @classmethod
    def counts(cls, largest: float) -> Self:
        """Bounds 1, 3, 10, 30, …: the highest eight below the largest count."""
        steps = [step * 10**power for power in range(16) for step in (1, 3)]
        return cls(tuple(step for step in steps if step < largest)[1 - LEVELS :], lambda count: f"{count:,.0f}")

    @classmethod
    def shares(cls, bounds: Sequence[float]) -> Self:
        """Shares between 0 and 1."""
        return cls(tuple(bounds), lambda share: f"{100 * share:g} %")

    def level(self, number: float) -> int:
        """The color of a number: 1 is the faintest, 9 the strongest."""
        return LEVELS - len(self.bounds) + bisect_left(self.bounds, number)

    def legend(self, smallest: float) -> Markup:
        """A legend of the colors that occur."""
        labels = [f"≤ {self.form(bound)}" for bound in self.bounds]
        labels.append(f"> {self.form(self.bounds[-1])}" if self.bounds else "all")
        levels = range(LEVELS - len(self.bounds), LEVELS + 1)
        keys = [(level, label) for level, label in zip(levels, labels, strict=True) if level >= self.level(smallest)]
        return legend([(f"heat-{level}", label) for level, label in keys])


def legend(keys: Sequence[tuple[str, str]]) -> Markup:
    """A legend of classes and labels."""
    return _draw("legend", keys=keys)


@dataclass(frozen=True, slots=True)
class Spot:
    """One filled cell of a heat map: its place, color level, hover text and label."""

    row: int
    column: int
    level: int
    hover: str
    text: str = ""


def heat_map(
    rows: Sequence[str], columns: Sequence[str], spots: Iterable[Spot], name: str, room: int, high: int = 18
) -> Markup:
    """Rows by columns in `room` pixels; column labels are rotated unless all of them fit above their cells.

    Cells have a minimum width, so that labels stay readable: with many columns the picture is wider than `room` and scrolls.
    """
    left = max(map(_width, rows), default=0.0) + 7
    wide = max(NARROWEST, min(WIDEST, (room - left) / max(len(columns), 1)))
    longest = max(map(_width, columns), default=0.0)
    flat = longest + 4 <= wide
    top = 16 if flat else longest + 8
    size = {"width": math.ceil(left + wide * len(columns)) + 1, "height": math.ceil(top + high * len(rows)) + 1}
    place = {"left": left, "top": top, "wide": wide, "high": high, "flat": flat}
    return _draw("heat_map", rows=rows, columns=columns, spots=spots, name=name, **place, **size)


def heat_maps(
    rows: Sequence[str], columns: Sequence[str], spots: Sequence[Spot], name: str, high: int = 18, turn: bool = True
) -> Markup:
    """A heat map twice, of which the style sheet shows one: for screens, and for phones, where cells have no numbers.

    On phones rows become columns, unless `turn` is false.
    """
    wide = heat_map(rows, columns, spots, name, WIDE, high)
    bare = [replace(spot, text="") for spot in spots]
    if turn:
        rows, columns, bare = columns, rows, [replace(spot, row=spot.column, column=spot.row) for spot in bare]
    narrow = heat_map(rows, columns, bare, name, NARROW, LOW)
    return Markup('<div class="scroll wide">{}</div><div class="scroll narrow">{}</div>').format(wide, narrow)


def _width(text: str) -> float:
    """An upper estimate of a label's width in pixels, at the style sheet's 11 px."""
    return sum(
        4.2 if letter in SLIM else 9.8 if letter in BROAD else 11.5 if east_asian_width(letter) in "WF" else 6.9
        for letter in text
    )


def bar(parts: Sequence[tuple[float, str]], whole: float, hover: str = "") -> Markup:
    """A bar of colored parts, each a number and a class; `whole` is the number that fills the width."""
    drawn, start = [], 0.0
    for number, kind in parts:
        width = WIDTH * number / whole if whole else 0.0
        if number > 0:
            drawn.append((kind, start, max(width, LEAST)))
        start += width
    return _draw("bar", parts=drawn, hover=hover, width=WIDTH, height=HEIGHT)


def interval_bar(value: float, low: float, high: float, limit: float | None, hover: str) -> Markup:
    """A share between 0 and 1 with its interval, and the least share that is asked for."""
    parts = [("floor", 0.0, float(WIDTH)), ("train", WIDTH * low, max(WIDTH * (high - low), LEAST))]
    parts.append(("value", WIDTH * value - TICK / 2, TICK))
    if limit is not None:
        parts.append(("limit", WIDTH * limit - TICK / 4, TICK / 2))
    return _draw("bar", parts=parts, hover=hover, width=WIDTH, height=HEIGHT)


def step(start: float, stop: float, lowest: float, highest: float, kind: str, hover: str) -> Markup:
    """A bar of a waterfall: from `start` to `stop` on an axis from `lowest` to `highest`.

    A bar that starts below `lowest` is drawn with a break.
    """
    scale = WIDTH / max(highest - lowest, 1e-9)
    left, right = ((max(value, lowest) - lowest) * scale for value in (start, stop))
    parts = [(kind, left, max(right - left, LEAST))]
    if start < lowest:
        parts += [("tear", 24, 6), ("tear", 40, 6)]
    return _draw("bar", parts=parts, hover=hover, width=WIDTH, height=HEIGHT)


def histogram(counts: Sequence[int], hovers: Sequence[str]) -> Markup:
    """Columns side by side with hover texts; the tallest has the full height."""
    tallest = max(counts, default=0)
    heights = [max(HEIGHT * count / tallest, LEAST) if count else 0.0 for count in counts]
    columns = list(zip(heights, hovers, strict=True))
    return _draw("histogram", columns=columns, wide=WIDTH / max(len(counts), 1), width=WIDTH, height=HEIGHT)


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right, their color in the style sheet (`train`, `test`), and hover texts."""

    kind: str
    points: Sequence[tuple[float, float]]
    hovers: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Axis:
    """The ends of an axis, and how its numbers are formatted."""

    low: float
    high: float
    form: Callable[[float, int], str] = lambda value, digits: f"{value:,.{digits}f}"

    @classmethod
    def around(cls, values: Iterable[float]) -> "Axis":
        """An axis over these values; a single value gets a margin."""
        known = list(values)
        low, high = min(known, default=0.0), max(known, default=1.0)
        room = 0.0 if high > low else max(abs(low) * 0.05, 1e-3)
        return cls(low - room, high + room)

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Round numbers with their labels, at most `most` steps."""
        rough = (self.high - self.low) / max(most, 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(one * power for one in STEPS if one * power >= rough * (1 - 1e-9))
        digits = next(count for count in range(20) if abs(round(step, count) - step) < 1e-6 * step)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(number * step, self.form(number * step, digits)) for number in range(first, last + 1)]


def line_chart(
    lines: Sequence[Line], across: Axis, down: Axis, name: str, what: str, room: int, high: int, mark: tuple[float, str] | None
) -> Markup:
    """A chart `room` pixels wide. `what` labels the horizontal axis; `mark` is a value on it and its label.

    Labels are outside the frame, so they cover neither lines nor each other.
    """
    frame = _Frame(across, down, room, high)
    return _draw(
        "line_chart",
        lines=[(line.kind, [(frame.x(one), frame.y(other)) for one, other in line.points], line.hovers) for line in lines],
        name=name,
        label=what,
        **frame.drawn(mark),
    )


Dot = tuple[float, float, str, str]  # across, down, its color in the style sheet (`train`, `quiet`), and its hover text


def scatter(
    dots: Sequence[Dot], across: Axis, down: Axis, name: str, what: str, room: int, high: int, mark: tuple[float, str] | None
) -> Markup:
    """Dots in the frame of a line chart; later ones cover earlier ones."""
    frame = _Frame(across, down, room, high)
    return _draw(
        "scatter",
        dots=[(frame.x(one), frame.y(other), kind, hover) for one, other, kind, hover in dots],
        name=name,
        label=what,
        **frame.drawn(mark),
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """The frame of a chart with two axes, in pixels."""

    across: Axis
    down: Axis
    room: int
    high: int

    @property
    def _corner(self) -> tuple[int, int]:
        return self.room - RIGHT, self.high - BOTTOM

    def x(self, value: float) -> float:
        """Where a value is across."""
        return LEFT + (self._corner[0] - LEFT) * (value - self.across.low) / (self.across.high - self.across.low)

    def y(self, value: float) -> float:
        """Where a value is down."""
        return self._corner[1] - (self._corner[1] - TOP) * (value - self.down.low) / (self.down.high - self.down.low)

    def drawn(self, mark: tuple[float, str] | None) -> dict[str, object]:
        """Ticks, frame, size and the mark, as the templates take them."""
        right, bottom = self._corner
        marked = None
        if mark is not None and self.across.low <= mark[0] <= self.across.high:
            share = (self.x(mark[0]) - LEFT) / (right - LEFT)  # the label is on the side that has space
            marked = (self.x(mark[0]), mark[1], "start" if share < 1 / 3 else "end" if share > 2 / 3 else "middle")
        return {
            "across": [(self.x(value), text) for value, text in self.across.ticks(max(2, (right - LEFT) // TICK_ROOM))],
            "down": [(self.y(value), text) for value, text in self.down.ticks(max(2, (bottom - TOP) // TICK_ROOM_DOWN))],
            "frame": (LEFT, TOP, right, bottom),
            "mark": marked,
            "width": self.room,
            "height": self.high,
        }
