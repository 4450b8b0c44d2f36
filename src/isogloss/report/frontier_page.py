"""The page of a search for a model within a budget: score over megabytes and over speed, and what the best one loses.

This module computes coordinates; `templates/frontier.html` has the words. The search is `isogloss.exporting.budget`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from isogloss.report import charts
from isogloss.report.rendering import render, render_page

HIGH = 330  # pixels of a picture
FAR = 1.6  # a budget of that many times the largest candidate is not shown
KINDS = (("dropped", "chosen"), ("train", "on the frontier"), ("quiet", "others"))
LanguageRow = tuple[str, float, float, float]  # name, score of the original, of the chosen one, points lost


@dataclass(frozen=True, slots=True)
class Point:
    """A measured candidate: its size, speed and score (a share), its color, and what it is."""

    megabytes: float
    speed: float
    score: float
    kind: str
    vocabulary: str
    layers: str
    dimension: int
    precision: str

    @property
    def hover(self) -> str:
        """All of it in one line."""
        numbers = f"{self.megabytes:,.1f} MB, {self.speed:,.0f} sentences/s, score {100 * self.score:.1f}"
        return f"{numbers}: {self.vocabulary}, {self.layers}, {self.dimension} dimensions, {self.precision}"


def frontier_page(
    title: str, note: str, warning: str, points: Sequence[Point], budget: tuple[float, str], languages: Sequence[LanguageRow]
) -> str:
    """The whole file."""
    rooms = [
        (kind, by_size(points, budget, room), by_speed(points, room))
        for kind, room in (("wide", charts.WIDE), ("narrow", charts.NARROW))
    ]
    best = next(point for point in points if point.kind == KINDS[0][0])
    return render_page(
        "frontier.html",
        title=title,
        note=note,
        warning=warning,
        best=best,
        rooms=rooms,
        keys=KINDS,
        points=sorted(points, key=lambda point: point.megabytes),
        languages=languages,
    )


def frontier_picture(points: Sequence[Point], budget: tuple[float, str]) -> str:
    """Score over megabytes as an SVG file of its own."""
    return render("frontier.svg", chart=by_size(points, budget, charts.WIDE), width=charts.WIDE, height=HIGH)


def by_size(points: Sequence[Point], budget: tuple[float, str], room: int) -> Markup:
    """Score over megabytes."""
    spots = [(point.megabytes, point.score, point.kind, point.hover) for point in _chosen_last(points)]
    largest = max(point.megabytes for point in points)
    across = charts.Axis.around([0.0, largest, *([budget[0]] if budget[0] < FAR * largest else [])])
    return _chart(spots, across, "score over megabytes", "megabytes of the folder", room, budget)


def by_speed(points: Sequence[Point], room: int) -> Markup:
    """Score over sentences per second."""
    spots = [(point.speed, point.score, point.kind, point.hover) for point in _chosen_last(points)]
    across = charts.Axis.around([0.0, *(point.speed for point in points)])
    return _chart(spots, across, "score over speed", "sentences per second on this machine", room, None)


def _chosen_last(points: Sequence[Point]) -> list[Point]:
    """In the order of drawing: dots that matter more cover others."""
    kinds = [kind for kind, _label in KINDS]
    return sorted(points, key=lambda point: -kinds.index(point.kind))


def _chart(
    spots: Sequence[charts.Dot], across: charts.Axis, name: str, what: str, room: int, mark: tuple[float, str] | None
) -> Markup:
    scores = [score for _x, score, _kind, _hover in spots]
    room_above = max(0.05 * (max(scores) - min(scores)), 0.002)
    low, high = max(min(scores) - room_above, 0.0), min(max(scores) + room_above, 1.0)
    down = charts.Axis(low, high, lambda value, digits: f"{100 * value:.{max(digits - 2, 0)}f}")
    return charts.scatter(spots, across, down, name, what, room, HIGH, mark)
