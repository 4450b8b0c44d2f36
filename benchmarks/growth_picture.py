"""The picture of cost_growth.py: time a pair and memory beside each other over the number of pairs, as one SVG file."""

import math
from collections.abc import Sequence
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, PANEL, TALL = 900, 380, 60, 48, 330, 250
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2")
INK, FAINT = "#57606a", "#d0d7de"  # read on white and on black


def draw(rows: Sequence[dict[str, Any]], stages: Sequence[str]) -> str:
    """Bars of stages, one on the other, and two lines for memory; from zero, so that flat looks flat."""
    times = [[row["microseconds_a_pair"][stage] for stage in stages] for row in rows]
    memory = [[row["peak_mib"], row["peak_resident_mib"]] for row in rows]
    names = [short(row["pairs"]) for row in rows]
    parts = [*_bars(names, times, 0), *_lines(names, memory, PANEL + 2 * LEFT)]
    for place, stage in enumerate(stages):
        parts += _key(LEFT + 112 * (place % 3), TOP + TALL + 46 + 20 * (place // 3), COLOURS[place], stage)
    for place, told in enumerate(("the process itself", "with mapped files")):
        parts += _key(PANEL + 3 * LEFT + 160 * place, TOP + TALL + 46, COLOURS[place], told)
    style = f'font-family="sans-serif" font-size="12" fill="{INK}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _bars(names: Sequence[str], times: Sequence[Sequence[float]], left: int) -> list[str]:
    top = _round_up(max(sum(one) for one in times))
    parts = _frame(names, top, left, "microseconds a pair")
    for place, values in enumerate(times):
        below = 0.0
        for colour, value in zip(COLOURS, values, strict=False):
            high = TALL * value / top
            y = TOP + TALL - TALL * below / top - high
            x = _middle(place, len(times), left) - 24
            parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="48" height="{high:.1f}" fill="{colour}"/>')
            below += value
        parts.append(text(_middle(place, len(times), left), TOP + TALL - TALL * below / top - 5, f"{below:.0f}"))
    return parts


def _lines(names: Sequence[str], memory: Sequence[Sequence[float]], left: int) -> list[str]:
    top = _round_up(max(max(one) for one in memory))
    parts = _frame(names, top, left, "MiB at the most")
    for kind, colour in enumerate(COLOURS[:2]):
        at = [(_middle(place, len(memory), left), TOP + TALL * (1 - values[kind] / top)) for place, values in enumerate(memory)]
        parts.append(
            f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in at)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        for (x, y), values in zip(at, memory, strict=True):
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
            parts.append(text(x, y + (18 if kind == 0 else -9), f"{values[kind]:,.0f}"))
    return parts


def _frame(names: Sequence[str], top: float, left: int, title: str) -> list[str]:
    parts = [text(left + LEFT, TOP - 22, title, "start")]
    for number in range(5):
        y = TOP + TALL - TALL * number / 4
        parts.append(f'<path d="M{left + LEFT} {y}h{PANEL}" stroke="{FAINT}"/>')
        parts.append(text(left + LEFT - 6, y + 4, f"{top * number / 4:,.0f}", "end"))
    return parts + [
        text(_middle(place, len(names), left), TOP + TALL + 20, f"{name} pairs") for place, name in enumerate(names)
    ]


def _middle(place: int, count: int, left: int) -> float:
    return left + LEFT + PANEL * (place + 0.5) / count


def _key(x: int, y: int, colour: str, told: str) -> list[str]:
    return [f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>', text(x + 18, y, told, "start")]


def text(x: float, y: float, told: str, anchor: str = "middle") -> str:
    """Words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(told)}</text>'


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 6, 8 times a power of ten: a quarter of it is easy to read."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(step * power for step in (1, 2, 4, 6, 8, 10) if step * power >= value)


def short(pairs: int) -> str:
    """A round number in few letters."""
    return f"{pairs / 10**6:g}M" if pairs >= 10**6 else f"{pairs / 1000:g}k"
