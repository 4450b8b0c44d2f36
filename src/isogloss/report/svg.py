"""The pictures: a heat map, a bar, a histogram, the steps of a waterfall; each an `svg` element that needs nothing else.

Colours are classes (`heat-1` to `heat-9`, `train`, `dropped`, …) that the page's style sheet fills in, so one picture
serves light and dark. Bars and histograms stretch to the room they get and hold no text: labels stand beside them as
HTML, which a phone can wrap. Numbers are in `title` elements, which browsers show under the pointer.
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


# ── colours ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Scale:
    """Which of the nine colours a number has: each bound is the largest number of its colour, the last colour is open.

    With fewer bounds the strong colours are used, so that what is largest always stands out.
    """

    bounds: tuple[float, ...]
    form: Callable[[float], str]

    @classmethod
    def counts(cls, largest: float) -> Self:
        """For counts: 1, 3, 10, 30 and so on, the highest eight below the largest."""
        steps = [step * 10**power for power in range(16) for step in (1, 3)]
        return cls(tuple(step for step in steps if step < largest)[1 - LEVELS :], lambda count: f"{count:,.0f}")

    @classmethod
    def shares(cls, bounds: Sequence[float]) -> Self:
        """For shares between 0 and 1."""
        return cls(tuple(bounds), lambda share: f"{100 * share:g} %")

    def level(self, number: float) -> int:
        """The colour of a number: 1 is the faintest, 9 the strongest."""
        return LEVELS - len(self.bounds) + bisect_left(self.bounds, number)

    def legend(self, smallest: float) -> Markup:
        """What the colours stand for, from that of the smallest number on."""
        labels = [f"≤ {self.form(bound)}" for bound in self.bounds]
        labels.append(f"> {self.form(self.bounds[-1])}" if self.bounds else "all")
        levels = range(LEVELS - len(self.bounds), LEVELS + 1)
        keys = [(level, label) for level, label in zip(levels, labels, strict=True) if level >= self.level(smallest)]
        return legend((f"heat-{level}", label) for level, label in keys)


def legend(keys: Iterable[tuple[str, str]]) -> Markup:
    """What colours stand for: each a class and a label."""
    boxes = (tag("span", tag("i", class_=kind), label, class_="key") for kind, label in keys)
    return tag("p", join(boxes), class_="legend")


# ── heat map ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Spot:
    """One filled cell of a heat map: where, its colour, what the pointer shows, what stands in it."""

    row: int
    column: int
    level: int
    hover: str
    text: str = ""


def heat_map(
    rows: Sequence[str], columns: Sequence[str], spots: Iterable[Spot], name: str, room: int, high: int = 18
) -> Markup:
    """Rows by columns, in `room` pixels; column labels lie flat where all of them fit over their cells, and else stand.

    It keeps its size, so that labels stay readable: with very many columns it is wider than the room, and must scroll.
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
        *(_row_label(text, left, y + high / 2) for text, y in zip(rows, down, strict=True)),
        *(_column_label(text, x + wide / 2, top, flat) for text, x in zip(columns, across, strict=True)),
        *(_spot(spot, across[spot.column], down[spot.row], wide, high) for spot in spots),
    ]
    size = {"width": math.ceil(right) + 1, "height": math.ceil(bottom) + 1}
    box = f"0 0 {size['width']} {size['height']}"
    return tag("svg", *pieces, class_="heat", viewBox=box, role="img", aria_label=name, **size)


def _width(text: str) -> float:
    """About how many pixels a label takes at the size the style sheet gives it (11 px); rather too many than too few."""
    return sum(map(_letter_width, text))


def _letter_width(letter: str) -> float:
    if letter in SLIM:
        return 4.2
    return 9.8 if letter in BROAD else 11.5 if east_asian_width(letter) in "WF" else 6.9


def _row_label(text: str, left: float, middle: float) -> Markup:
    return tag("text", text, x=left - 5, y=middle + 3.5, text_anchor="end")


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


# ── pictures that stretch ───────────────────────────────────────────────────────────────────────────────────────────────


def bar(parts: Sequence[tuple[float, str]], whole: float, hover: str = "") -> Markup:
    """A bar of coloured parts from the left, each a number and a class, beside the whole that fills the room."""
    pieces, start = [tag("title", hover)] if hover else [], 0.0
    for number, kind in parts:
        width = WIDTH * number / whole if whole else 0.0
        if number > 0:
            pieces.append(tag("rect", class_=kind, x=start, y=0, width=max(width, LEAST), height=HEIGHT))
        start += width
    return _stretched("bar", pieces)


def step(start: float, stop: float, lowest: float, highest: float, kind: str, hover: str) -> Markup:
    """A bar of a waterfall: from `start` to `stop` on an axis from `lowest` to `highest`.

    Where it comes from below an axis that does not begin at 0, it is drawn torn.
    """
    scale = WIDTH / max(highest - lowest, 1e-9)
    left, right = ((max(value, lowest) - lowest) * scale for value in (start, stop))
    pieces = [tag("title", hover), tag("rect", class_=kind, x=left, y=0, width=max(right - left, LEAST), height=HEIGHT)]
    if start < lowest:
        pieces += [tag("rect", class_="tear", x=x, y=0, width=6, height=HEIGHT) for x in (24, 40)]
    return _stretched("bar", pieces)


def histogram(counts: Sequence[int], hovers: Sequence[str]) -> Markup:
    """Columns side by side, the tallest as high as the room; the pointer shows what each stands for."""
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
