"""Pictures of tables that are better drawn: sizes of a data set, decay rates, language bias. Ours whole, the paper's dashed.

Each is one SVG file that needs nothing else: axes and bars are `report`'s, its colours are written into the file.
"""

import math
from collections.abc import Callable, Sequence

from isogloss.papers.reproduce import Reproduction, Row
from isogloss.report.line_chart import Axis, Line, line_chart
from isogloss.report.markup import Markup, tag

ROOM, HIGH, KEY = 720, 320, 44
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0")
INK, FAINT = "#57606a", "#d0d7de"  # read on white and on black
PALE = 0.45  # of the paper's bars


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
        lines.append((name, COLOURS[column], _known(ours), _known(theirs)))
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
        lines.append((name, COLOURS[column], _known(ours), _known(theirs)))
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


Drawn = tuple[str, str, list[tuple[float, float]], list[tuple[float, float]]]


def _drawn(
    table: Reproduction, lines: Sequence[Drawn], what: str, form: Callable[[float, int], str], beside: float = 0.0
) -> str:
    """Lines of ours and of the paper over one axis, with some room beside the first and the last point."""
    points = [point for _, _, ours, theirs in lines for point in (*ours, *theirs)]
    wide, tall = Axis.around(x for x, _ in points), Axis.around(y for _, y in points)
    across = Axis(wide.low - beside, wide.high + beside, form)
    room = max((tall.high - tall.low) * 0.05, 0.5)
    down = Axis(tall.low - room, tall.high + room)
    drawn = [Line(f"line-{place}", ours) for place, (_, _, ours, _) in enumerate(lines)]
    drawn += [Line(f"dash-{place}", theirs) for place, (_, _, _, theirs) in enumerate(lines)]
    chart = line_chart(drawn, across, down, table.title, what, ROOM, HIGH, None)
    return _file(chart, [(name, colour) for name, colour, _, _ in lines], "whole lines: ours; dashed: the paper")


def _bias(table: Reproduction) -> str:
    """What language bias costs each system: ours, and the paper's paler beside it."""
    column = table.columns.index("Difference")
    rows = [row for row in table.rows if any(row.ours) or row.published[column] is not None]
    values = [value for row in rows for value in (_value(row, column), row.published[column]) if value is not None]
    lowest, highest = min([0.0, *values]), max([0.0, *values])
    left, right, high, top = 260, ROOM - 60, 34, 14
    scale = (right - left) / max(highest - lowest, 1e-9)
    zero = left - lowest * scale
    pieces = []
    for place, row in enumerate(rows):
        y = top + place * high
        pieces.append(tag("text", row.label, x=left - 10, y=y + 17, text_anchor="end"))
        for shift, value, pale in ((2, _value(row, column), 1.0), (15, row.published[column], PALE)):
            if value is not None:
                x, wide = min(zero, zero + value * scale), max(abs(value) * scale, 1.0)
                hover = tag("title", f"{row.label}: {value:+.2f}")
                pieces.append(
                    tag("g", hover, tag("rect", x=x, y=y + shift, width=wide, height=11, fill=COLOURS[0], opacity=pale))
                )
                end = zero + max(value, 0) * scale + 5
                pieces.append(tag("text", f"{value:+.2f}".replace("-", "−"), x=end, y=y + shift + 10, style="font-size:10px"))
    bottom = top + len(rows) * high
    pieces.append(tag("line", x1=zero, x2=zero, y1=top, y2=bottom, stroke=INK))
    size = {"width": ROOM, "height": bottom + 10}
    chart = tag("svg", *pieces, viewBox=f"0 0 {ROOM} {bottom + 10}", role="img", aria_label=table.title, **size)
    return _file(chart, [("actual minus expected score", COLOURS[0])], "full: ours; pale: the paper", bottom + 10)


def _file(chart: Markup, keys: Sequence[tuple[str, str]], told: str, high: int = HIGH) -> str:
    """A chart with its legend as a file of its own: colours are written out, since there is no page with a style sheet."""
    shades = {"var(--ink)": INK, "var(--quiet)": INK, "var(--rule)": FAINT}
    for place, colour in enumerate(COLOURS):
        shades[f"var(--line-{place})"] = colour
        shades[f"var(--dash-{place})"] = f"{colour};stroke-dasharray:5 4;stroke-opacity:0.7"
    drawn = str(chart)
    for variable, shade in shades.items():
        drawn = drawn.replace(variable, shade)
    pieces, x = [], 10.0
    for name, colour in keys:
        pieces.append(tag("rect", x=x, y=high + 6, width=12, height=12, fill=colour))
        pieces.append(tag("text", name, x=x + 17, y=high + 16))
        x += 34 + 7 * len(name)
    pieces.append(tag("text", told, x=10, y=high + 36))
    box, style = f"0 0 {ROOM} {high + KEY}", f'font-family="sans-serif" font-size="12" fill="{INK}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" {style}>{drawn}{"".join(pieces)}</svg>\n'


def _short(count: float) -> str:
    """1,000 as 1k, two million as 2M."""
    for unit, mark in ((1e6, "M"), (1e3, "k"), (1.0, "")):
        if count >= unit * 0.999:
            return f"{count / unit:.3g}{mark}"
    return f"{count:.3g}"
