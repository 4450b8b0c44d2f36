"""The page next to mined or scored pairs: what was searched with which model, estimated precision, and pairs to read.

The estimate is made in `isogloss.mining.calibration`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from isogloss.amounts import amount
from isogloss.mining.calibration import Calibration, GoldCurve
from isogloss.report import svg
from isogloss.report.line_chart import Axis, Line, line_chart
from isogloss.report.markup import Markup
from isogloss.report.page import NARROW, NUMBER, WIDE, Column, Section, ShownPair, Table, number, page, percent, render

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


@dataclass(frozen=True, slots=True, eq=False)
class MinedPage:
    """What the page shows. `facts` are names and values; `pairs` has score, source and target, and `target_language`s."""

    title: str
    facts: Sequence[tuple[str, str]]
    pairs: pa.Table
    languages: tuple[str, str] = ("", "")
    curves: Sequence[Curve] = field(default=())

    def render(self) -> str:
        """The whole file."""
        figures = [(number(self.pairs.num_rows), "pairs kept")]
        if self.curves:
            candidates = sum(int(curve.calibration.pairs.max(initial=0)) for curve in self.curves)
            figures.append((number(candidates), "candidates"))
        if len(self.curves) == 1 and math.isfinite(self.curves[0].chosen):
            figures.append((f"{self.curves[0].chosen:.4f}", "threshold"))
            precision = self.curves[0].calibration.precision_at(self.curves[0].chosen)
            figures.append((percent(precision), "estimated precision"))
        sections = [Section("facts", "Files and model", "", [Table([Column(""), Column("", "prose")], list(self.facts))])]
        sections += [_precision(place, curve) for place, curve in enumerate(self.curves)]
        if self.pairs.num_rows:
            sections.append(self._pairs())
        return page(self.title, HOW if self.curves else "Sentence pairs with their scores.", figures, sections)

    def _pairs(self) -> Section:
        """The best pairs, those just above the threshold, and some in between."""
        order = np.argsort(-self.pairs.column("score").to_numpy(), kind="stable")
        drawn = np.sort(np.random.default_rng(0).permutation(len(order))[:SHOWN])
        samples = [("Highest scores", order[:SHOWN])]
        if len(order) > SHOWN:
            samples += [("Lowest scores that were kept", order[SHOWN:][-SHOWN:]), ("Random pairs", order[drawn])]
        shown = [(title, list(self._shown(rows.tolist()))) for title, rows in samples]
        note = "Read the lowest ones to see whether the threshold is right for you."
        return Section("pairs", "Pairs", note, [render("samples.html", samples=shown)])

    def _shown(self, rows: list[int]) -> Iterator[ShownPair]:
        for row in self.pairs.take(rows).to_pylist():
            place = f", {row['source_id']} ↔ {row['target_id']}" if "source_id" in row else ""
            target = row.get("language", self.languages[1])
            yield ShownPair(row["source"], row["target"], self.languages[0], target, f"score {row['score']:.4f}{place}")


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
        rooms = [("wide", _charts(curve, WIDE)), ("narrow", _charts(curve, NARROW))]
        parts = [render("charts.html", rooms=rooms), _table(curve)]
    return Section(f"precision-{place}", title, note, parts)


def _charts(curve: Curve, room: int) -> list[tuple[str, Markup, Markup]]:
    """Precision over thresholds and, on the same axis, the number of pairs: title, legend and picture of each."""
    points = curve.calibration
    thresholds, shares, counts = (own.tolist()[::-1] for own in (points.thresholds, points.precision, points.pairs))
    hovers = [
        f"threshold {threshold:.4f}: {amount(count, 'pair')}, about {percent(share)} correct"
        for threshold, count, share in zip(thresholds, counts, shares, strict=True)
    ]
    across = Axis.around(thresholds)
    whole = Axis(0, 1, lambda value, _: f"{100 * value:.0f} %")
    mark = (curve.chosen, f"chosen: {curve.chosen:.4f}") if math.isfinite(curve.chosen) else None
    estimated = Line("train", list(zip(thresholds, shares, strict=True)), hovers)
    found = Line("train", list(zip(thresholds, map(float, counts), strict=True)), hovers)
    gold = _gold_lines(curve.gold)
    legend = svg.legend([("train", ESTIMATED), *([("test", BY_GOLD), ("dropped", FOUND)] if gold else [])])
    label = "threshold: the lowest score that is kept"
    precision = line_chart([*gold, estimated], across, whole, "estimated precision at each threshold", label, room, HIGH, mark)
    pairs = line_chart([found], across, Axis(0, max(counts)), "pairs above each threshold", label, room, LOW, mark)
    return [("Share of correct pairs", legend, precision), ("Pairs", Markup(), pairs)]


def _gold_lines(gold: GoldCurve | None) -> list[Line]:
    """Precision and recall by the gold pairs."""
    if gold is None:
        return []
    thresholds, precision, recall = (own.tolist()[::-1] for own in (gold.thresholds, gold.precision, gold.recall))
    hovers = [
        f"threshold {threshold:.4f}: by the gold pairs {percent(right)} correct, {percent(found)} found"
        for threshold, right, found in zip(thresholds, precision, recall, strict=True)
    ]
    lines = (("test", precision), ("dropped", recall))
    return [Line(kind, list(zip(thresholds, shares, strict=True)), hovers) for kind, shares in lines]


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
