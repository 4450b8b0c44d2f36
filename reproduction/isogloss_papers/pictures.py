"""Pictures of tables that are better drawn: sizes of a data set, decay rates, language bias. Ours whole, the paper's dashed.

Each is one SVG file that needs nothing else: axes and bars are `report`'s, its colours are written into the file.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from isogloss.report.charts import Axis, Line, line_chart
from isogloss_papers.reproduce import Reproduction, Row
from isogloss_papers.scores import Figure

ROOM, HIGH, KEY = 720, 320, 44
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0")
INK, FAINT = "#57606a", "#d0d7de"  # read on white and on black
PALE = 0.45  # of the paper's bars, and of intervals
TEXT = Markup('<text x="{:.4g}" y="{}">{}</text>')
LABEL = Markup('<text x="{:.4g}" y="{}" text-anchor="end">{}</text>')
VALUE = Markup('<text x="{:.4g}" y="{}" font-size="10">{}</text>')
BAR = Markup('<g><title>{}</title><rect fill="{}" opacity="{:.4g}" x="{:.4g}" y="{}" width="{:.4g}" height="11"/></g>')
INTERVAL = Markup('<line stroke="{}" data-kind="interval" x1="{:.4g}" x2="{:.4g}" y1="{y}" y2="{y}"/>')
ZERO = Markup('<line x1="{x:.4g}" x2="{x:.4g}" y1="{}" y2="{}" stroke="{}"/>')
KEY_BOX = Markup('<rect x="{:.4g}" y="{}" width="12" height="12" fill="{}"/>')
CHART = Markup('<svg viewBox="0 0 {w} {h}" role="img" aria-label="{name}" width="{w}" height="{h}">{content}</svg>')


def picture(table: Reproduction) -> str:
    """The picture of a table as an SVG file; empty where it has none, or there is nothing to draw."""
    draw = {"sizes": _sizes, "decay": _decay, "bias": _bias}.get(table.picture)
    return draw(table) if draw is not None and any(any(row.ours) for row in table.rows) else ""


def _sizes(table: Reproduction) -> str:
    """Scores over the number of pairs, on a logarithmic axis; the whole set stands at the pairs that it has."""
    placed = [row for row in table.rows if row.at is not None or row.published_pairs]
    lines = []
    for column, name in enumerate(table.columns):
        theirs = [(_log(_paper_pairs(row, name)), row.published[column]) for row in placed]
        ours = [(_log(_own_pairs(row, name)), _value(row, column)) for row in placed]
        bars = [(_log(_own_pairs(row, name)), row.ours[column]) for row in placed]
        lines.append((name, COLOURS[column], _known(ours), _known(theirs), _intervals(bars)))
    return _drawn(table, lines, "pairs of training sentences", lambda value, _: _short(10**value) if _is_whole(value) else "")


def _log(count: float | None) -> float | None:
    return None if not count else math.log10(count)


def _paper_pairs(row: Row, column: str) -> float | None:
    return row.at if row.at is not None else _said(row.published_pairs, column)


def _own_pairs(row: Row, column: str) -> float | None:
    return _said(row.pairs, column)


def _said(text: str, column: str) -> float | None:
    """The number that stands after a column's language in `de 483k, ar 774k` or `de 58,806, ar 23,000`."""
    wanted = column.rpartition("-")[2].lower()
    for part in text.split(", "):
        language, _, count = part.partition(" ")
        if language == wanted:
            unit = {"k": 1e3, "M": 1e6}.get(count[-1:], 1.0)
            return float(count.rstrip("kM").replace(",", "")) * unit
    return None


def _decay(table: Reproduction) -> str:
    """Scores from the teacher that moves fastest to the one that stands still; the axis counts the nines of τ."""
    placed = [row for row in table.rows if row.at is not None]
    spots = {row.label: float(place) for place, row in enumerate(placed)}
    lines = []
    for column, name in enumerate(table.columns):
        ours = [(spots[row.label], _value(row, column)) for row in placed]
        theirs = [(spots[row.label], row.published[column]) for row in placed]
        bars = [(spots[row.label], row.ours[column]) for row in placed]
        lines.append((name, COLOURS[column], _known(ours), _known(theirs), _intervals(bars)))
    names = list(spots)

    def form(value: float, _digits: int) -> str:
        return names[round(value)] if _is_whole(value) and 0 <= round(value) < len(names) else ""

    return _drawn(table, lines, "the paper's τ; in the lab (1 − τ) × steps is the same", form, beside=0.3)


def _is_whole(value: float) -> bool:
    return abs(value - round(value)) < 1e-6


def _value(row: Row, column: int) -> float | None:
    one = row.ours[column]
    return None if one is None else one.value


def _known(points: Sequence[tuple[float | None, float | None]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if x is not None and y is not None]


def _intervals(points: Sequence[tuple[float | None, Figure | None]]) -> list[list[tuple[float, float]]]:
    """From the low to the high end of each of our figures, where it stands."""
    return [[(x, one.low), (x, one.high)] for x, one in points if x is not None and one is not None]


Points = list[tuple[float, float]]
Drawn = tuple[str, str, Points, Points, list[Points]]


def _drawn(
    table: Reproduction, lines: Sequence[Drawn], what: str, form: Callable[[float, int], str], beside: float = 0.0
) -> str:
    """Lines of ours and of the paper over one axis, with some room beside the first and the last point."""
    points = [point for _, _, ours, theirs, bars in lines for some in (ours, theirs, *bars) for point in some]
    wide, tall = Axis.around(x for x, _ in points), Axis.around(y for _, y in points)
    across = Axis(wide.low - beside, wide.high + beside, form)
    room = max((tall.high - tall.low) * 0.05, 0.5)
    down = Axis(tall.low - room, tall.high + room)
    drawn = [Line(f"bar-{place}", bar) for place, (_, _, _, _, bars) in enumerate(lines) for bar in bars]
    drawn += [Line(f"line-{place}", ours) for place, (_, _, ours, _, _) in enumerate(lines)]
    drawn += [Line(f"dash-{place}", theirs) for place, (_, _, _, theirs, _) in enumerate(lines)]
    chart = line_chart(drawn, across, down, table.title, what, ROOM, HIGH, None)
    keys = [(name, colour) for name, colour, *_ in lines]
    return _file(chart, keys, "whole lines: ours, with 95 % intervals; dashed: the paper")


def _bias(table: Reproduction) -> str:
    """What language bias costs each system: ours, and the paper's paler beside it."""
    column = table.columns.index("Difference")
    rows = [row for row in table.rows if any(row.ours) or row.published[column] is not None]
    ends = [end for row in rows for bar in _bars(row, column) for end in (bar.value, bar.low, bar.high)]
    lowest, highest = min([0.0, *ends]), max([0.0, *ends])
    left, right, high, top = 260, ROOM - 60, 34, 14
    scale = (right - left) / max(highest - lowest, 1e-9)
    zero = left - lowest * scale
    pieces = []
    for place, row in enumerate(rows):
        y = top + place * high
        pieces.append(LABEL.format(left - 10, y + 17, row.label))
        pieces += [piece for bar in _bars(row, column) for piece in bar.drawn(row.label, zero, scale, y)]
    bottom = top + len(rows) * high
    pieces.append(ZERO.format(top, bottom, INK, x=zero))
    chart = CHART.format(w=ROOM, h=bottom + 10, name=table.title, content=Markup().join(pieces))
    told = "full: ours, with 95 % intervals; pale: the paper"
    return _file(chart, [("actual minus expected score", COLOURS[0])], told, bottom + 10)


@dataclass(frozen=True, slots=True)
class _Bar:
    """A value as a bar from zero, so far below the top of its row; an interval where it has one."""

    value: float
    low: float
    high: float
    shift: int
    opacity: float

    def drawn(self, name: str, zero: float, scale: float, top: float) -> list[Markup]:
        y, size = top + self.shift, max(abs(self.value) * scale, 1.0)
        left = min(zero, zero + self.value * scale)
        pieces = [BAR.format(f"{name}: {self.value:+.2f}", COLOURS[0], self.opacity, left, y, size)]
        if self.low < self.high:
            pieces.append(INTERVAL.format(INK, zero + self.low * scale, zero + self.high * scale, y=y + 5.5))
        beside = zero + max(self.value, self.high, 0) * scale + 5
        said = f"{self.value:+.2f}".replace("-", "−")
        return [*pieces, VALUE.format(beside, y + 10, said)]


def _bars(row: Row, column: int) -> list[_Bar]:
    ours, theirs = row.ours[column], row.published[column]
    bars = [] if ours is None else [_Bar(ours.value, ours.low, ours.high, 2, 1.0)]
    return bars if theirs is None else [*bars, _Bar(theirs, theirs, theirs, 15, PALE)]


def _file(chart: Markup, keys: Sequence[tuple[str, str]], told: str, high: int = HIGH) -> str:
    """A chart with its legend as a file of its own: colours are written out, since there is no page with a style sheet."""
    shades = {"var(--ink)": INK, "var(--quiet)": INK, "var(--rule)": FAINT}
    for place, colour in enumerate(COLOURS):
        shades[f"var(--line-{place})"] = colour
        shades[f"var(--bar-{place})"] = f'{colour}" stroke-opacity="{PALE}'
        shades[f"var(--dash-{place})"] = f'{colour}" stroke-dasharray="5 4" stroke-opacity="0.7'
    drawn = str(chart)
    for variable, shade in shades.items():
        drawn = drawn.replace(variable, shade)
    pieces, x = [], 10.0
    for name, colour in keys:
        pieces.append(KEY_BOX.format(x, high + 6, colour))
        pieces.append(TEXT.format(x + 17, high + 16, name))
        x += 34 + 7 * len(name)
    pieces.append(TEXT.format(10, high + 36, told))
    box, style = f"0 0 {ROOM} {high + KEY}", f'font-family="sans-serif" font-size="12" fill="{INK}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {style}>{drawn}{"".join(pieces)}</svg>\n'


def _short(count: float) -> str:
    """1,000 as 1k, two million as 2M."""
    for unit, mark in ((1e6, "M"), (1e3, "k"), (1.0, "")):
        if count >= unit * 0.999:
            return f"{count / unit:.3g}{mark}"
    return f"{count:.3g}"
