"""Charts as `svg` elements: heat map, bar, histogram, and the steps of a waterfall.

Colors are classes (`heat-1` to `heat-9`, `train`, `dropped`, …) from the page's style sheet, so one picture works in light and
dark mode. Bars and histograms stretch to the available width and have no text: labels are HTML next to them, which can wrap on
a phone. Numbers are in `title` elements, shown on hover.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self
from unicodedata import east_asian_width

from isogloss.report.markup import Markup, join, tag

LEVELS = 9
BROAD, SLIM = "mwMW@%—…", "fijlrtI.,:;|'!()[] -"
GAP, NARROWEST, WIDEST = 1, 11, 34
WIDTH, HEIGHT, LEAST = 1000, 100, 3.0  # of pictures that are stretched; a bar that is there is never narrower than LEAST


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
        return legend((f"heat-{level}", label) for level, label in keys)


def legend(keys: Iterable[tuple[str, str]]) -> Markup:
    """A legend of classes and labels."""
    boxes = (tag("span", tag("i", class_=kind), label, class_="key") for kind, label in keys)
    return tag("p", join(boxes), class_="legend")


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
    across = [left + wide * place for place in range(len(columns))]
    down = [top + high * place for place in range(len(rows))]
    right, bottom = left + wide * len(columns), top + high * len(rows)
    pieces = [
        *(tag("rect", class_="stripe", x=left, y=y, width=right - left - GAP, height=high - GAP) for y in down),
        *(tag("text", text, x=left - 5, y=y + high / 2 + 3.5, text_anchor="end") for text, y in zip(rows, down, strict=True)),
        *(_column_label(text, x + wide / 2, top, flat) for text, x in zip(columns, across, strict=True)),
        *(_spot(spot, across[spot.column], down[spot.row], wide, high) for spot in spots),
    ]
    size = {"width": math.ceil(right) + 1, "height": math.ceil(bottom) + 1}
    box = f"0 0 {size['width']} {size['height']}"
    return tag("svg", *pieces, class_="heat", viewBox=box, role="img", aria_label=name, **size)


def _width(text: str) -> float:
    """An upper estimate of a label's width in pixels, at the style sheet's 11 px."""
    return sum(
        4.2 if letter in SLIM else 9.8 if letter in BROAD else 11.5 if east_asian_width(letter) in "WF" else 6.9
        for letter in text
    )


def _column_label(text: str, middle: float, top: float, flat: bool) -> Markup:
    if flat:
        return tag("text", text, x=middle, y=top - 5, text_anchor="middle")
    return tag("text", text, transform=f"translate({middle + 3.5:.1f} {top - 5:.1f}) rotate(-90)")


def _spot(spot: Spot, x: float, y: float, wide: float, high: float) -> Markup:
    shown = [tag("title", spot.hover)]
    shown.append(tag("rect", class_=f"heat-{spot.level}", x=x, y=y, width=wide - GAP, height=high - GAP))
    if spot.text:
        ink = "on-strong" if spot.level > LEVELS // 2 else "on-faint"
        shown.append(tag("text", spot.text, class_=ink, x=x + wide / 2 - 0.5, y=y + high / 2 + 3, text_anchor="middle"))
    return tag("g", *shown)


def bar(parts: Sequence[tuple[float, str]], whole: float, hover: str = "") -> Markup:
    """A bar of colored parts, each a number and a class; `whole` is the number that fills the width."""
    pieces, start = [tag("title", hover)] if hover else [], 0.0
    for number, kind in parts:
        width = WIDTH * number / whole if whole else 0.0
        if number > 0:
            pieces.append(tag("rect", class_=kind, x=start, y=0, width=max(width, LEAST), height=HEIGHT))
        start += width
    return _stretched("bar", pieces)


def step(start: float, stop: float, lowest: float, highest: float, kind: str, hover: str) -> Markup:
    """A bar of a waterfall: from `start` to `stop` on an axis from `lowest` to `highest`.

    A bar that starts below `lowest` is drawn with a break.
    """
    scale = WIDTH / max(highest - lowest, 1e-9)
    left, right = ((max(value, lowest) - lowest) * scale for value in (start, stop))
    pieces = [tag("title", hover), tag("rect", class_=kind, x=left, y=0, width=max(right - left, LEAST), height=HEIGHT)]
    if start < lowest:
        pieces += [tag("rect", class_="tear", x=x, y=0, width=6, height=HEIGHT) for x in (24, 40)]
    return _stretched("bar", pieces)


def histogram(counts: Sequence[int], hovers: Sequence[str]) -> Markup:
    """Columns side by side with hover texts; the tallest has the full height."""
    wide, tallest = WIDTH / max(len(counts), 1), max(counts, default=0)
    pieces = [tag("rect", class_="floor", x=0, y=HEIGHT - 3, width=WIDTH, height=3)]
    for place, (count, hover) in enumerate(zip(counts, hovers, strict=True)):
        high = max(HEIGHT * count / tallest, LEAST) if count else 0.0
        column = tag("rect", class_="column", x=place * wide, y=HEIGHT - high, width=wide * 0.86, height=high)
        touch = tag("rect", class_="touch", x=place * wide, y=0, width=wide, height=HEIGHT)
        pieces.append(tag("g", tag("title", hover), column, touch))
    return _stretched("histogram", pieces)


def _stretched(kind: str, pieces: Sequence[str]) -> Markup:
    return tag("svg", *pieces, class_=kind, viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none", aria_hidden="true")
