"""How mined and scored pairs are shown: what was left out, what was found, and how precise it probably is."""

import re
from pathlib import Path

from rich.table import Table

from isogloss.cli.screen import output, percent, show_json
from isogloss.corpora.amounts import amount
from isogloss.errors import IsoglossError
from isogloss.mining.mine import Mined
from isogloss.mining.scoring import Scored
from isogloss.mining.thresholds import Calibration

ROWS, BAR = 12, 30
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
REASONS = {
    "read": "read",
    "empty": "empty",
    "duplicate": "came before",
    "wrong_language": "in another language",
    "on_both_sides": "alike on both sides",
    "kept": "searched",
}


def as_bytes(text: str) -> int:
    """`500M` or `2GiB` as a number of bytes; 0 for nothing."""
    if not text.strip():
        return 0
    told = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if told is None:
        raise IsoglossError(f"--memory {text!r} is not understood", hint="write it like 500M or 2G")
    return int(float(told[1]) * UNITS[told[2].upper()])


def show_mined(mined: Mined, out: Path, as_json: bool) -> None:
    """Show what was mined as tables, or as JSON."""
    if as_json:
        show_json({"path": str(out), **mined.summary()})
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("", "source", "target"):
        table.add_column(name, justify="right" if name else "left")
    for field, text in REASONS.items():
        table.add_row(text, *(f"{getattr(account, field):,}" for account in mined.accounts))
    output.print(table)
    if mined.calibration is not None:
        _show_curve(mined.calibration, mined.threshold)
    found = f"\n{amount(len(mined), 'pair')} of {amount(mined.candidates, 'candidate')} → {out}"
    output.print(f"{found} ({_why(mined)})", highlight=False, markup=False)


def _why(mined: Mined) -> str:
    """What the threshold is, and what it is worth; or why nothing is left."""
    if len(mined):
        told = [f"threshold {mined.threshold:.4f}"]
        if mined.gold is not None:
            told.append("precision {} %, recall {} %, F1 {} % by the gold pairs".format(*map(percent, mined.gold)))
        if mined.calibration is not None:
            told.append(f"about {percent(mined.calibration.precision_at(mined.threshold))} % right")
        return ", ".join(told)
    if mined.gold is not None:
        return "none of the candidates is a gold pair"
    if mined.calibration is not None:
        return "no threshold seems to be as precise as that; lower --precision, or set --threshold yourself"
    return f"none reaches the threshold {mined.threshold:.4f}"


def show_scored(scored: Scored, out: Path, as_json: bool) -> None:
    """Show what was scored as tables, or as JSON."""
    if as_json:
        show_json({"path": str(out), **scored.summary()})
        return
    for language, calibration in scored.calibrations.items():
        output.print(f"\n{language}", highlight=False, markup=False)
        _show_curve(calibration, scored.thresholds[language])
    quantiles = scored.summary()["score_quantiles"]
    spread = f"; half of the scores are between {quantiles[1]:.3f} and {quantiles[3]:.3f}" if quantiles else ""
    output.print(f"\n{len(scored):,} of {amount(scored.read, 'pair')} → {out}{spread}", highlight=False, markup=False)


def _show_curve(calibration: Calibration, chosen: float) -> None:
    """The estimated precision at some thresholds, as numbers and as bars; the chosen one is marked."""
    absent = percent(calibration.without_translation)
    output.print(f"\nEstimated from wrong pairs; about {absent} % of the sentences have no translation here.", highlight=False)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("threshold", "pairs", "right, %"):
        table.add_column(name, justify="right")
    table.add_column("")
    last = len(calibration.thresholds) - 1
    places = {round(last * step / (ROWS - 1)) for step in range(ROWS)} if last >= 0 else set()
    places |= {place for place in range(last + 1) if calibration.thresholds[place] == chosen}
    for place in sorted(places):
        share = float(calibration.precision[place])
        mark = " ←" if calibration.thresholds[place] == chosen else ""
        numbers = f"{calibration.thresholds[place]:.4f}", f"{calibration.pairs[place]:,}", percent(share)
        table.add_row(*numbers, "█" * round(BAR * share) + mark)
    output.print(table)
