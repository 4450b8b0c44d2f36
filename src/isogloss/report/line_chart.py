"""Line charts with axes and a marked value; `svg` has the charts without axes.

Colors come from the page's style sheet. Labels are outside the frame, so they cover neither lines nor each other.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from isogloss.report.markup import Attribute, Markup, tag

LEFT, RIGHT, TOP, BOTTOM = 58, 14, 22, 40  # pixels around the frame
TICK_ROOM, TICK_ROOM_DOWN = 84, 44  # pixels that a label may take, across and down
STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
SMALL: dict[str, Attribute] = {"font_size": 11, "fill": "var(--quiet)"}  # attributes: the page's policy allows no inline styles


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

    def share(self, value: float) -> float:
        """The position of a value: 0 at the low end, 1 at the high end."""
        return (value - self.low) / (self.high - self.low)

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
    """A chart `room` pixels wide. `what` labels the horizontal axis; `mark` is a value on it and its label."""
    wide, tall = room - LEFT - RIGHT, high - TOP - BOTTOM

    def x(value: float) -> float:
        return LEFT + wide * across.share(value)

    def y(value: float) -> float:
        return TOP + tall * (1 - down.share(value))

    pieces = [_level(y(value), text, room) for value, text in down.ticks(max(2, tall // TICK_ROOM_DOWN))]
    pieces += [_below(x(value), text, high) for value, text in across.ticks(max(2, wide // TICK_ROOM))]
    pieces.append(tag("text", what, x=LEFT + wide / 2, y=high - 5, text_anchor="middle", **SMALL))
    if mark is not None and across.low <= mark[0] <= across.high:
        pieces += _marked(x(mark[0]), mark[1], LEFT + wide / 3, LEFT + wide * 2 / 3, high)
    for line in lines:
        places = [(x(one), y(other)) for one, other in line.points]
        pieces.append(_drawn(places, line.kind))
        pieces += [_touched(place, hover) for place, hover in zip(places, line.hovers, strict=False)]
    box = f"0 0 {room} {high}"
    return tag("svg", *pieces, viewBox=box, width=room, height=high, role="img", aria_label=name)


def _drawn(places: Sequence[tuple[float, float]], kind: str) -> Markup:
    way = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) if places else ""
    return tag("path", d=way, fill="none", stroke=f"var(--{kind})", stroke_width=2, stroke_linejoin="round", data_kind=kind)


def _touched(place: tuple[float, float], hover: str) -> Markup:
    return tag("g", tag("title", hover), tag("circle", class_="touch", cx=place[0], cy=place[1], r=5))


def _level(y: float, text: str, room: int) -> Markup:
    rule = tag("line", x1=LEFT, x2=room - RIGHT, y1=y, y2=y, stroke="var(--rule)")
    return tag("g", rule, tag("text", text, x=LEFT - 6, y=y + 3.5, text_anchor="end", **SMALL))


def _below(x: float, text: str, high: int) -> Markup:
    bottom = high - BOTTOM
    tick = tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, stroke="var(--quiet)")
    return tag("g", tick, tag("text", text, x=x, y=bottom + 16, text_anchor="middle", **SMALL))


def _marked(x: float, text: str, third: float, last_third: float, high: int) -> list[Markup]:
    """A vertical line with its label above, aligned to the side with space."""
    anchor = "start" if x < third else "end" if x > last_third else "middle"
    look: dict[str, Attribute] = {"stroke": "var(--ink)", "stroke_dasharray": "4 3", "data_kind": "mark"}
    line = tag("line", x1=x, x2=x, y1=TOP - 4, y2=high - BOTTOM, **look)
    return [line, tag("text", text, x=x, y=TOP - 9, text_anchor=anchor, font_size=11, fill="var(--ink)")]
