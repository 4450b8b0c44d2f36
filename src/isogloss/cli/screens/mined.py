"""What `isogloss mine` and `isogloss score` have in common: what is refused, what is written, and how it is shown.

Beside the pairs lies a page with the estimated precision at each threshold, where there is an estimate (`report`).
"""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from isogloss.amounts import amount
from isogloss.cli.screens.progress import output, percent, show_json
from isogloss.errors import IsoglossError
from isogloss.mining.calibration import Calibration
from isogloss.mining.mine import Mined
from isogloss.mining.output import refuse_unknown_form
from isogloss.mining.score import Scored
from isogloss.mining.vectors import remove_work
from isogloss.models.encoders.open import refuse_missing
from isogloss.report.precision_page import Judged, precision_page, shown_places
from isogloss.storage import make_folder, refuse_overwriting, write_text

BAR = 30
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
REASONS = {
    "read": "read",
    "empty": "empty",
    "too_long": "too long",
    "duplicate": "duplicate",
    "wrong_language": "in another language",
    "on_both_sides": "same on both sides",
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


def refuse_bad_names(out: Path, inputs: Sequence[str], model: str) -> None:
    """Say before the work what cannot be written, and that there is no such model."""
    refuse_unknown_form(out)
    refuse_overwriting(out, inputs)
    make_folder(out.parent)
    refuse_missing([model])


def work_folder(out: Path) -> Path:
    """Where unfinished work is kept until the pairs are written."""
    return out.with_name(f"{out.name}.work")


def finish(found: Mined | Scored, out: Path, as_json: bool) -> None:
    """Write the pairs and, where their precision was estimated, the page; forget the work; show what came of it."""
    found.write(out)
    shown = out.with_name(f"{out.name}.html")
    judged = _judged(found)
    if judged:
        write_text(shown, precision_page(out.name, judged, len(found)))
    remove_work(work_folder(out))
    if as_json:
        show_json({"path": str(out), "page": str(shown) if judged else None, **found.summary()})
        return
    if isinstance(found, Mined):
        _show_mined(found, out)
    else:
        _show_scored(found, out)
    if judged:
        output.print(f"precision at each threshold → {shown}")


def _judged(found: Mined | Scored) -> list[Judged]:
    """The curves there are, with the thresholds that were chosen on them."""
    if isinstance(found, Scored):
        return [Judged(language, curve, found.thresholds[language]) for language, curve in found.calibrations.items()]
    return [] if found.calibration is None else [Judged("", found.calibration, found.threshold, found.gold_curve)]


def _show_mined(mined: Mined, out: Path) -> None:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("", "source", "target"):
        table.add_column(name, justify="right" if name else "left")
    for field, text in REASONS.items():
        table.add_row(text, *(f"{getattr(account, field):,}" for account in mined.accounts))
    output.print(table)
    if mined.calibration is not None:
        _show_curve(mined.calibration, mined.threshold)
    found = f"\n{amount(len(mined), 'pair')} of {amount(mined.candidates, 'candidate')} → {out}"
    output.print(f"{found} ({_why(mined)})")


def _why(mined: Mined) -> str:
    """What the threshold is, and what it is worth; or why nothing is left."""
    if len(mined):
        told = [f"threshold {mined.threshold:.4f}"]
        if mined.gold is not None:
            told.append("precision {} %, recall {} %, F1 {} % by the gold pairs".format(*map(percent, mined.gold)))
        elif mined.calibration is not None:
            told.append(f"about {percent(mined.calibration.precision_at(mined.threshold))} % right")
        return ", ".join(told)
    if mined.gold is not None:
        return "none of the candidates is a gold pair"
    if mined.calibration is not None:
        return "no threshold seems to be as precise as that; lower --precision, or set --threshold yourself"
    return f"none reaches the threshold {mined.threshold:.4f}"


def _show_scored(scored: Scored, out: Path) -> None:
    for language, calibration in scored.calibrations.items():
        output.print(f"\n{language}")
        _show_curve(calibration, scored.thresholds[language])
    quantiles = scored.summary()["score_quantiles"]
    spread = f"; half of the scores are between {quantiles[1]:.3f} and {quantiles[3]:.3f}" if quantiles else ""
    output.print(f"\n{len(scored):,} of {amount(scored.read, 'pair')} → {out}{spread}")


def _show_curve(calibration: Calibration, chosen: float) -> None:
    """The estimated precision at some thresholds, as numbers and as bars; the chosen one is marked."""
    absent = percent(calibration.without_translation)
    output.print(f"\nEstimated from wrong pairs; about {absent} % of the sentences have no translation here.", highlight=False)
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("threshold", "pairs", "right, %"):
        table.add_column(name, justify="right")
    table.add_column("")
    for place in shown_places(calibration, chosen):
        share = float(calibration.precision[place])
        mark = " ←" if calibration.thresholds[place] == chosen else ""
        numbers = f"{calibration.thresholds[place]:.4f}", f"{calibration.pairs[place]:,}", percent(share)
        table.add_row(*numbers, "█" * round(BAR * share) + mark)
    output.print(table)
