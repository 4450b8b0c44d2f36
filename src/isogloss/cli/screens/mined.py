"""What `isogloss mine` and `isogloss score` share: checks before the work, the files they write, and what they print."""

import re
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from isogloss.amounts import amount
from isogloss.cli.screens.progress import output, percent, plain_table, show_json
from isogloss.errors import IsoglossError
from isogloss.mining.mine import Mined
from isogloss.mining.output import refuse_unknown_form
from isogloss.mining.score import Scored
from isogloss.mining.vectors import remove_work
from isogloss.models.encoders.open import refuse_missing
from isogloss.report.mined_page import Curve, mined_page, threshold_rows
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
    facts = [("model", model), *_files(found, inputs), ("pairs", str(out))]
    if isinstance(found, Mined) and found.search is not None:
        facts.append(("search", f"{found.search.kind} ({found.search.why})"))
    curves, languages = _curves(found), found.languages if isinstance(found, Mined) else ("", "")
    write_text(page, mined_page(out.name, facts, found.pairs, languages, curves))
    remove_work(work_folder(out))
    if as_json:
        show_json({"path": str(out), "page": str(page), "model": model, "files": list(inputs), **found.summary()})
        return
    if isinstance(found, Mined):
        output.print(_counts(found))
    for curve in curves:
        _show_curve(curve)
    output.print(f"\n{_summary(found, out)}")
    output.print(f"report → {page}")


def _curves(found: Mined | Scored) -> list[Curve]:
    """The estimated precision, of scored pairs for each language."""
    if isinstance(found, Scored):
        return [Curve(language, curve, found.thresholds[language]) for language, curve in found.calibrations.items()]
    return [] if found.calibration is None else [Curve("", found.calibration, found.threshold, found.gold_curve)]


def _files(found: Mined | Scored, inputs: Sequence[str]) -> list[tuple[str, str]]:
    """The input files, and how many sentences of each were searched."""
    if isinstance(found, Scored):
        return [("pairs read", f"{', '.join(inputs)}: {amount(found.read, 'pair')}")]
    return [
        (side, f"{name}: {amount(account.read, 'sentence')} read, {account.kept:,} searched")
        for side, name, account in zip(("source", "target"), inputs, found.accounts, strict=True)
    ]


def _counts(mined: Mined) -> Table:
    """How many sentences of each file were read, left out and searched."""
    table = plain_table("", ">source", ">target")
    for field, text in COUNTS.items():
        table.add_row(text, *(f"{getattr(account, field):,}" for account in mined.accounts))
    return table


def _summary(found: Mined | Scored, out: Path) -> str:
    """How many pairs were kept, and at which threshold or with which scores."""
    if isinstance(found, Mined):
        return f"{amount(len(found), 'pair')} of {amount(found.candidates, 'candidate')} → {out} ({_threshold(found)})"
    quantiles = found.summary()["score_quantiles"]
    spread = f"; half of the scores are between {quantiles[1]:.3f} and {quantiles[3]:.3f}" if quantiles else ""
    return f"{len(found):,} of {amount(found.read, 'pair')} → {out}{spread}"


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


def _show_curve(curve: Curve) -> None:
    """The estimated precision at some thresholds, as numbers and as bars; the chosen one is marked."""
    if curve.language:
        output.print(f"\n{curve.language}")
    absent = percent(curve.calibration.without_translation)
    output.print(f"\nEstimated precision; about {absent} % of the sentences have no translation here.")
    table = plain_table(">threshold", ">pairs", ">correct, %", "")
    for threshold, pairs, share, _ in threshold_rows(curve):
        bar = "█" * round(BAR * share) + (" ←" if threshold == curve.chosen else "")
        table.add_row(f"{threshold:.4f}", f"{pairs:,}", percent(share), bar)
    output.print(table)
