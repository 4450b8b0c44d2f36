"""The picture of mining_growth.py: seconds over sentences a side, exact and approximate, both axes in powers: one SVG file."""

import math
from collections.abc import Sequence
from typing import Any

from growth_picture import COLOURS, FAINT, INK, short, text

WIDTH, HEIGHT, LEFT, TOP, WIDE, TALL = 640, 400, 70, 40, 540, 290
NAMES = {"exact": "exact", "approximate": "approximate (cells)", "hnsw": "faiss HNSW", "ivf-pq": "faiss IVF-PQ"}


def draw(sizes: Sequence[dict[str, Any]]) -> str:
    """A line for each way of searching; beside the points what they took."""
    rows = [row["rows"] for row in sizes]
    seconds = [row[kind]["total"] for row in sizes for kind in NAMES if kind in row]
    across = math.log10(min(rows) / 1.6), math.log10(max(rows) * 1.6)
    down = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))

    def x(value: float) -> float:
        return LEFT + WIDE * (math.log10(value) - across[0]) / (across[1] - across[0])

    def y(value: float) -> float:
        return TOP + TALL * (1 - (math.log10(value) - down[0]) / max(down[1] - down[0], 1))

    parts = [text(LEFT, TOP - 16, "seconds, both directions, two cores", "start")]
    for power in range(down[0], down[1] + 1):
        parts.append(f'<path d="M{LEFT} {y(10**power):.1f}h{WIDE}" stroke="{FAINT}"/>')
        parts.append(text(LEFT - 8, y(10**power) + 4, f"{10**power:g}", "end"))
    parts += [text(x(row), TOP + TALL + 20, f"{short(row)} × {short(row)}") for row in rows]
    for place, kind in enumerate(NAMES):
        points = [(x(row["rows"]), y(row[kind]["total"]), row[kind]["total"]) for row in sizes if kind in row]
        line = " ".join(f"{one:.1f},{other:.1f}" for one, other, _ in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLOURS[place]}" stroke-width="2"/>')
        for one, other, value in points:
            parts.append(f'<circle cx="{one:.1f}" cy="{other:.1f}" r="4" fill="{COLOURS[place]}"/>')
            side, anchor = (-8, "end") if kind in ("exact", "hnsw") else (9, "start")
            parts.append(
                text(
                    one + side,
                    other + (-5 if side < 0 else 14),
                    f"{value:,.0f} s" if value >= 9.5 else f"{value:.1f} s",
                    anchor,
                )
            )
        if points:
            parts.append(f'<rect x="{LEFT + 140 * place}" y="{HEIGHT - 28}" width="12" height="12" fill="{COLOURS[place]}"/>')
            parts.append(text(LEFT + 140 * place + 18, HEIGHT - 18, NAMES[kind], "start"))
    style = f'font-family="sans-serif" font-size="12" fill="{INK}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>\n' + "\n".join(parts) + "\n</svg>\n"
    )
