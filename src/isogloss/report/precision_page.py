"""A page beside mined or scored pairs: the precision that is estimated at each threshold, and how many pairs each leaves.

What is estimated, and how, is in `isogloss.mining.calibration`; this only draws it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from isogloss.amounts import amount
from isogloss.mining.calibration import Calibration, GoldCurve
from isogloss.report import svg
from isogloss.report.line_chart import Axis, Line, line_chart
from isogloss.report.markup import Markup, join, tag
from isogloss.report.page import NARROW, NUMBER, WIDE, Column, Section, folded, number, page, percent, table

ROWS = 12
HIGH, LOW = 300, 190  # pixels of the upper and of the lower picture
LEAD = (
    "Pairs that are wrong on purpose say how often a wrong pair reaches a score, and so how many of the pairs above a "
    "threshold are probably right. No gold pair was looked at for that."
)
ESTIMATED, BY_GOLD, FOUND = "estimated without gold", "right by the gold pairs", "gold pairs that are found"


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Pairs with a curve of their own: of which language, the curve, the chosen threshold, and what gold says."""

    name: str
    calibration: Calibration
    chosen: float  # ∞ where no threshold was good enough
    gold: GoldCurve | None = None


def precision_page(title: str, judged: Sequence[Judged], taken: int) -> str:
    """The whole file; `taken` pairs are in it, of all that were judged."""
    candidates = sum(int(one.calibration.pairs.max(initial=0)) for one in judged)
    figures = [(number(taken), "pairs taken"), (number(candidates), "candidates")]
    if len(judged) == 1 and math.isfinite(judged[0].chosen):
        figures.append((f"{judged[0].chosen:.4f}", "threshold"))
        figures.append((percent(judged[0].calibration.precision_at(judged[0].chosen)), "estimated to be right"))
    return page(title, LEAD, figures, [_section(place, one) for place, one in enumerate(judged)])


def shown_places(calibration: Calibration, chosen: float) -> list[int]:
    """Some points of a curve to be read as numbers, from the strictest on: evenly spread, and the chosen one."""
    last = len(calibration.thresholds) - 1
    places = {round(last * step / (ROWS - 1)) for step in range(ROWS)} if last >= 0 else set()
    return sorted(places | {place for place in range(last + 1) if calibration.thresholds[place] == chosen})


def _section(place: int, judged: Judged) -> Section:
    title = f"Precision, {judged.name}" if judged.name else "Precision"
    absent = percent(judged.calibration.without_translation)
    note = f"About {absent} of the sentences have no translation here."
    if not math.isfinite(judged.chosen):
        note += " No threshold seems to be as precise as was asked for."
    curve = judged.calibration
    if not len(curve.thresholds):
        return Section(f"precision-{place}", title, note, Markup(""))
    pictures = [
        tag("div", join(_charts(judged, room)), class_=f"scroll {kind}") for room, kind in ((WIDE, "wide"), (NARROW, "narrow"))
    ]
    numbers = folded("as numbers", _table(judged))
    return Section(f"precision-{place}", title, note, join([*pictures, numbers]))


def _charts(judged: Judged, room: int) -> list[Markup]:
    """Precision over thresholds, and under it, on the same axis, the number of pairs."""
    curve = judged.calibration
    thresholds, shares = curve.thresholds.tolist()[::-1], curve.precision.tolist()[::-1]
    counts = curve.pairs.tolist()[::-1]
    hovers = [
        f"threshold {one:.4f}: {amount(count, 'pair')}, about {percent(share)} right"
        for one, count, share in zip(thresholds, counts, shares, strict=True)
    ]
    across = Axis.around(thresholds)
    whole = Axis(0, 1, lambda value, _: f"{100 * value:.0f} %")
    mark = (judged.chosen, f"chosen: {judged.chosen:.4f}") if math.isfinite(judged.chosen) else None
    estimated = Line("train", list(zip(thresholds, shares, strict=True)), hovers)
    found = Line("train", list(zip(thresholds, map(float, counts), strict=True)), hovers)
    golden = _golden(judged.gold)
    what = "threshold: the least score that is taken"
    return [
        tag("h3", "Share of pairs that are right"),
        svg.legend([("train", ESTIMATED), *([("test", BY_GOLD), ("dropped", FOUND)] if golden else [])]),
        line_chart([*golden, estimated], across, whole, "estimated precision at each threshold", what, room, HIGH, mark),
        tag("h3", "Pairs"),
        line_chart([found], across, Axis(0, max(counts)), "pairs from each threshold on", what, room, LOW, mark),
    ]


def _golden(gold: GoldCurve | None) -> list[Line]:
    """What the gold pairs say, as lines: precision, and recall."""
    if gold is None:
        return []
    thresholds = gold.thresholds.tolist()[::-1]
    told = [
        f"threshold {one:.4f}: by the gold pairs {percent(right)} right, {percent(found)} found"
        for one, right, found in zip(thresholds, gold.precision.tolist()[::-1], gold.recall.tolist()[::-1], strict=True)
    ]
    lines = (("test", gold.precision), ("dropped", gold.recall))
    return [Line(kind, list(zip(thresholds, shares.tolist()[::-1], strict=True)), told) for kind, shares in lines]


def _table(judged: Judged) -> Markup:
    curve, rows = judged.calibration, []
    gold = judged.gold
    for place in shown_places(curve, judged.chosen):
        threshold = f"{curve.thresholds[place]:.4f}" + (" ←" if curve.thresholds[place] == judged.chosen else "")
        row = [threshold, number(int(curve.pairs[place])), percent(float(curve.precision[place]))]
        if gold is not None:
            at = int((gold.thresholds >= curve.thresholds[place]).sum()) - 1
            row += [percent(float(shares[at])) if at >= 0 else "" for shares in (gold.precision, gold.recall)]
        rows.append(row)
    named = [ESTIMATED, BY_GOLD, FOUND] if gold is not None else [ESTIMATED]
    return table([Column("threshold"), Column("pairs", NUMBER), *(Column(name, NUMBER) for name in named)], rows)
