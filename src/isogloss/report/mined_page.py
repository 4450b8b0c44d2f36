"""The page next to mined or scored pairs: what was searched with which model, estimated precision, and pairs to read.

This module computes numbers and charts; `templates/mined.html` has the words. The estimate is made in
`isogloss.mining.calibration`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from numpy.typing import NDArray

from isogloss.amounts import amount
from isogloss.mining.calibration import Calibration
from isogloss.mining.calibration import Curve as GoldCurve
from isogloss.report import charts
from isogloss.report.rendering import percent, render_page

ROWS = 12  # of the table of thresholds
SHOWN = 10  # pairs of each kind
HIGH, LOW = 300, 190  # pixels of the upper and of the lower picture


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The estimated precision of one language's pairs, the chosen threshold (∞ if none was good enough), and gold if given."""

    language: str
    calibration: Calibration
    chosen: float
    gold: GoldCurve | None = None


def mined_page(
    title: str, facts: Sequence[tuple[str, str]], pairs: pa.Table, languages: tuple[str, str], curves: Sequence[Curve]
) -> str:
    """The whole file. `facts` are names and values; `pairs` has score, source, target and perhaps ids and a language."""
    return render_page(
        "mined.html",
        title=title,
        facts=facts,
        kept=pairs.num_rows,
        candidates=sum(int(curve.calibration.pairs.max(initial=0)) for curve in curves),
        samples=_samples(pairs),
        languages=languages,
        curves=[(curve, math.isfinite(curve.chosen), list(_rooms(curve)), list(threshold_rows(curve))) for curve in curves],
    )


def _samples(pairs: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """The best pairs, those just above the threshold, and some in between."""
    order = np.argsort(-pairs.column("score").to_numpy(), kind="stable")
    chosen = {"Highest scores": order[:SHOWN]}
    if len(order) > SHOWN:
        drawn = np.sort(np.random.default_rng(0).permutation(len(order))[:SHOWN])
        chosen |= {"Lowest scores that were kept": order[SHOWN:][-SHOWN:], "Random pairs": order[drawn]}
    return {kind: pairs.take(pa.array(rows)).to_pylist() for kind, rows in chosen.items()}


def shown_places(calibration: Calibration, chosen: float) -> list[int]:
    """Points of a curve to show as numbers, from the strictest on: evenly spread, and the chosen one."""
    last = len(calibration.thresholds) - 1
    places = {round(last * step / (ROWS - 1)) for step in range(ROWS)} if last >= 0 else set()
    return sorted(places | {place for place in range(last + 1) if calibration.thresholds[place] == chosen})


def _rooms(curve: Curve) -> Iterator[tuple[str, Markup, Markup]]:
    """For a screen and for a phone: precision over thresholds and, on the same axis, the number of pairs."""
    points, gold = curve.calibration, curve.gold
    if not len(points.thresholds):
        return
    hovers = [
        f"threshold {threshold:.4f}: {amount(int(count), 'pair')}, about {percent(share)} correct"
        for threshold, count, share in zip(points.thresholds, points.pairs, points.precision, strict=True)
    ]
    lines = [_line("train", points.thresholds, points.precision, hovers)]
    if gold is not None:
        by_gold = [
            f"threshold {threshold:.4f}: by the gold pairs {percent(right)} correct, {percent(found)} found"
            for threshold, right, found in zip(gold.thresholds, gold.precision, gold.recall, strict=True)
        ]
        shares = (("test", gold.precision), ("dropped", gold.recall))
        lines = [*(_line(kind, gold.thresholds, share, by_gold) for kind, share in shares), *lines]
    across = charts.Axis.around(points.thresholds.tolist())
    whole = charts.Axis(0, 1, lambda value, _: f"{100 * value:.0f} %")
    counts, down = _line("train", points.thresholds, points.pairs, hovers), charts.Axis(0, int(points.pairs.max()))
    mark = (curve.chosen, f"chosen: {curve.chosen:.4f}") if math.isfinite(curve.chosen) else None
    label = "threshold: the lowest score that is kept"
    for kind, room in (("wide", charts.WIDE), ("narrow", charts.NARROW)):
        precision = charts.line_chart(lines, across, whole, "estimated precision at each threshold", label, room, HIGH, mark)
        pairs = charts.line_chart([counts], across, down, "pairs above each threshold", label, room, LOW, mark)
        yield kind, precision, pairs


def _line(kind: str, thresholds: NDArray[Any], values: NDArray[Any], hovers: Sequence[str]) -> charts.Line:
    """A curve whose thresholds fall, from left to right."""
    return charts.Line(kind, list(zip(thresholds.tolist(), values.tolist(), strict=True))[::-1], hovers[::-1])


def threshold_rows(curve: Curve) -> Iterator[tuple[float, int, float, list[float | None]]]:
    """Some thresholds with pairs and precision; with gold pairs also precision and recall by them, as far as known."""
    points, gold = curve.calibration, curve.gold
    for place in shown_places(points, curve.chosen):
        threshold, by_gold = float(points.thresholds[place]), []
        if gold is not None:
            at = int((gold.thresholds >= threshold).sum()) - 1
            by_gold = [float(share[at]) if at >= 0 else None for share in (gold.precision, gold.recall)]
        yield threshold, int(points.pairs[place]), float(points.precision[place]), by_gold
