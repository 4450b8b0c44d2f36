"""The page next to mined or scored pairs: what was searched with which model, estimated precision, and pairs to read.

The estimate is made in `isogloss.mining.calibration`.
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
from isogloss.report.page import NUMBER, PROSE, Column, Section, ShownPair, Table, number, page, percent
from isogloss.report.rendering import render
from isogloss.types import IntArray

ROWS = 12  # of the table of thresholds
SHOWN = 10  # pairs of each kind
HIGH, LOW = 300, 190  # pixels of the upper and of the lower picture
ESTIMATED, BY_GOLD, FOUND = "estimated without gold", "correct by the gold pairs", "gold pairs found"
HOW = (
    "Deliberately mismatched pairs were scored to estimate how many pairs above each threshold are wrong. Gold pairs are not "
    "used for the estimate."
)


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
    figures = [(number(pairs.num_rows), "pairs kept")]
    if curves:
        figures.append((number(sum(int(curve.calibration.pairs.max(initial=0)) for curve in curves)), "candidates"))
    if len(curves) == 1 and math.isfinite(chosen := curves[0].chosen):
        figures.append((f"{chosen:.4f}", "threshold"))
        figures.append((percent(curves[0].calibration.precision_at(chosen)), "estimated precision"))
    sections = [Section("facts", "Files and model", "", [Table([Column(""), Column("", PROSE)], list(facts))])]
    sections += [_precision(place, curve) for place, curve in enumerate(curves)]
    if pairs.num_rows:
        sections.append(_pairs(pairs, languages))
    return page(title, HOW if curves else "Sentence pairs with their scores.", figures, sections)


def _pairs(pairs: pa.Table, languages: tuple[str, str]) -> Section:
    """The best pairs, those just above the threshold, and some in between."""

    def shown(rows: IntArray) -> Iterator[ShownPair]:
        for row in pairs.take(rows.tolist()).to_pylist():
            place = f", {row['source_id']} ↔ {row['target_id']}" if "source_id" in row else ""
            target = row.get("language", languages[1])
            yield ShownPair(row["source"], row["target"], languages[0], target, f"score {row['score']:.4f}{place}")

    order = np.argsort(-pairs.column("score").to_numpy(), kind="stable")
    samples = [("Highest scores", order[:SHOWN])]
    if len(order) > SHOWN:
        drawn = np.sort(np.random.default_rng(0).permutation(len(order))[:SHOWN])
        samples += [("Lowest scores that were kept", order[SHOWN:][-SHOWN:]), ("Random pairs", order[drawn])]
    note = "Read the lowest ones to see whether the threshold is right for you."
    return Section(
        "pairs", "Pairs", note, [render("samples.html", samples=[(kind, list(shown(rows))) for kind, rows in samples])]
    )


def shown_places(calibration: Calibration, chosen: float) -> list[int]:
    """Points of a curve to show as numbers, from the strictest on: evenly spread, and the chosen one."""
    last = len(calibration.thresholds) - 1
    places = {round(last * step / (ROWS - 1)) for step in range(ROWS)} if last >= 0 else set()
    return sorted(places | {place for place in range(last + 1) if calibration.thresholds[place] == chosen})


def _precision(place: int, curve: Curve) -> Section:
    title = f"Precision, {curve.language}" if curve.language else "Precision"
    note = f"About {percent(curve.calibration.without_translation)} of the sentences have no translation here."
    if not math.isfinite(curve.chosen):
        note += " No threshold reaches the precision that was asked for."
    parts: list[Table | Markup] = []
    if len(curve.calibration.thresholds):
        rooms = [("wide", _charts(curve, charts.WIDE)), ("narrow", _charts(curve, charts.NARROW))]
        parts = [render("curves.html", rooms=rooms), _table(curve)]
    return Section(f"precision-{place}", title, note, parts)


def _charts(curve: Curve, room: int) -> list[tuple[str, Markup, Markup]]:
    """Precision over thresholds and, on the same axis, the number of pairs: title, legend and picture of each."""
    points, gold = curve.calibration, curve.gold
    hovers = [
        f"threshold {threshold:.4f}: {amount(int(count), 'pair')}, about {percent(share)} correct"
        for threshold, count, share in zip(points.thresholds, points.pairs, points.precision, strict=True)
    ]
    keys, lines = [("train", ESTIMATED)], [_line("train", points.thresholds, points.precision, hovers)]
    if gold is not None:
        by_gold = [
            f"threshold {threshold:.4f}: by the gold pairs {percent(right)} correct, {percent(found)} found"
            for threshold, right, found in zip(gold.thresholds, gold.precision, gold.recall, strict=True)
        ]
        keys += [("test", BY_GOLD), ("dropped", FOUND)]
        shares = (("test", gold.precision), ("dropped", gold.recall))
        lines = [*(_line(kind, gold.thresholds, share, by_gold) for kind, share in shares), *lines]
    across = charts.Axis.around(points.thresholds.tolist())
    whole = charts.Axis(0, 1, lambda value, _: f"{100 * value:.0f} %")
    mark = (curve.chosen, f"chosen: {curve.chosen:.4f}") if math.isfinite(curve.chosen) else None
    label = "threshold: the lowest score that is kept"
    precision = charts.line_chart(lines, across, whole, "estimated precision at each threshold", label, room, HIGH, mark)
    counts, down = _line("train", points.thresholds, points.pairs, hovers), charts.Axis(0, int(points.pairs.max()))
    pairs = charts.line_chart([counts], across, down, "pairs above each threshold", label, room, LOW, mark)
    return [("Share of correct pairs", charts.legend(keys), precision), ("Pairs", Markup(), pairs)]


def _line(kind: str, thresholds: NDArray[Any], values: NDArray[Any], hovers: Sequence[str]) -> charts.Line:
    """A curve whose thresholds fall, from left to right."""
    return charts.Line(kind, list(zip(thresholds.tolist(), values.tolist(), strict=True))[::-1], hovers[::-1])


def _table(curve: Curve) -> Table:
    points, gold, rows = curve.calibration, curve.gold, []
    for place in shown_places(points, curve.chosen):
        threshold = f"{points.thresholds[place]:.4f}" + (" ←" if points.thresholds[place] == curve.chosen else "")
        row = [threshold, number(int(points.pairs[place])), percent(float(points.precision[place]))]
        if gold is not None:
            at = int((gold.thresholds >= points.thresholds[place]).sum()) - 1
            row += [percent(float(shares[at])) if at >= 0 else "" for shares in (gold.precision, gold.recall)]
        rows.append(row)
    named = [ESTIMATED, BY_GOLD, FOUND] if gold is not None else [ESTIMATED]
    return Table([Column("threshold"), Column("pairs", NUMBER), *(Column(name, NUMBER) for name in named)], rows, "as numbers")
