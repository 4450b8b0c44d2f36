"""What `isogloss mine` and `isogloss score` share: checks before the work, the files they write, and what they print."""

import re
from collections.abc import Sequence
from pathlib import Path

from isogloss.amounts import amount
from isogloss.cli.screens.progress import output, percent, plain_table, show_json
from isogloss.errors import IsoglossError
from isogloss.mining.calibration import Calibration
from isogloss.mining.mine import Mined
from isogloss.mining.output import refuse_unknown_form
from isogloss.mining.score import Scored
from isogloss.mining.vectors import remove_work
from isogloss.models.encoders.open import refuse_missing
from isogloss.report.mined_page import Curve, mined_page, shown_places
from isogloss.shown import masked
from isogloss.storage import make_folder, refuse_overwriting, write_text

BAR = 30
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
COUNTS = {
    "read": "read",
    "empty": "empty",
    "too_long": "too long",
    "duplicate": "duplicate",
    "wrong_language": "in another language",
    "on_both_sides": "same on both sides",
    "kept": "searched",
}


def as_bytes(text: str) -> int:
    """`500M` or `2GiB` as a number of bytes; 0 for an empty text."""
    if not text.strip():
        return 0
    size = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if size is None:
        raise IsoglossError(f"--memory {text!r} is not a size", hint="write it like 500M or 2G")
    return int(float(size[1]) * UNITS[size[2].upper()])


def refuse_bad_names(out: Path, inputs: Sequence[str], model: str) -> None:
    """Raise before the work if the output cannot be written or there is no such model."""
    refuse_unknown_form(out)
    refuse_overwriting(out, inputs)
    make_folder(out.parent)
    refuse_missing([model])


def work_folder(out: Path) -> Path:
    """Where unfinished work is kept until the pairs are written."""
    return out.with_name(f"{out.name}.work")


def finish(found: Mined | Scored, out: Path, inputs: Sequence[str], model: str, as_json: bool) -> None:
    """Write the pairs and the page, remove the work folder, and print a summary."""
    found.write(out)
    model = masked(model)  # an address may contain a key
    page = out.with_name(f"{out.name}.html")
    write_text(page, _page(found, out, inputs, model))
    remove_work(work_folder(out))
    if as_json:
        show_json({"path": str(out), "page": str(page), "model": model, "files": list(inputs), **found.summary()})
        return
    if isinstance(found, Mined):
        _show_mined(found, out)
    else:
        _show_scored(found, out)
    output.print(f"report → {page}")


def _page(found: Mined | Scored, out: Path, inputs: Sequence[str], model: str) -> str:
    """The HTML page about the pairs."""
    facts = [("model", model), *_files(found, inputs), ("pairs", str(out))]
    if isinstance(found, Scored):
        curves = [Curve(language, curve, found.thresholds[language]) for language, curve in found.calibrations.items()]
        return mined_page(out.name, facts, found.pairs, ("", ""), curves)
    if found.search is not None:
        facts.append(("search", f"{found.search.kind} ({found.search.why})"))
    curves = [] if found.calibration is None else [Curve("", found.calibration, found.threshold, found.gold_curve)]
    return mined_page(out.name, facts, found.pairs, found.languages, curves)


def _files(found: Mined | Scored, inputs: Sequence[str]) -> list[tuple[str, str]]:
    """The input files, and how many sentences of each were searched."""
    if isinstance(found, Scored):
        return [("pairs read", f"{', '.join(inputs)}: {amount(found.read, 'pair')}")]
    return [
        (side, f"{name}: {amount(account.read, 'sentence')} read, {account.kept:,} searched")
        for side, name, account in zip(("source", "target"), inputs, found.accounts, strict=True)
    ]


def _show_mined(mined: Mined, out: Path) -> None:
    table = plain_table("", ">source", ">target")
    for field, text in COUNTS.items():
        table.add_row(text, *(f"{getattr(account, field):,}" for account in mined.accounts))
    output.print(table)
    if mined.calibration is not None:
        _show_curve(mined.calibration, mined.threshold)
    output.print(f"\n{amount(len(mined), 'pair')} of {amount(mined.candidates, 'candidate')} → {out} ({_threshold(mined)})")


def _threshold(mined: Mined) -> str:
    """The threshold and the precision to expect; or why nothing is left."""
    if len(mined):
        text = f"threshold {mined.threshold:.4f}"
        if mined.gold is not None:
            return text + ", precision {} %, recall {} %, F1 {} % by the gold pairs".format(*map(percent, mined.gold))
        if mined.calibration is not None:
            text += f", estimated precision {percent(mined.calibration.precision_at(mined.threshold))} %"
        return text
    if mined.gold is not None:
        return "none of the candidates is a gold pair"
    if mined.calibration is not None:
        return "no threshold reaches that precision; lower --precision, or set --threshold yourself"
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
    output.print(f"\nEstimated precision; about {absent} % of the sentences have no translation here.", highlight=False)
    table = plain_table(">threshold", ">pairs", ">correct, %", "")
    for place in shown_places(calibration, chosen):
        share = float(calibration.precision[place])
        mark = " ←" if calibration.thresholds[place] == chosen else ""
        numbers = f"{calibration.thresholds[place]:.4f}", f"{calibration.pairs[place]:,}", percent(share)
        table.add_row(*numbers, "█" * round(BAR * share) + mark)
    output.print(table)
