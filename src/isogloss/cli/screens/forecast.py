"""What `isogloss forecast` prints: a table of scores by number of pairs, and a sentence per language."""

from math import isinf

from isogloss.amounts import amount, duration, listed
from isogloss.cli.screens.progress import output, percent, plain_table, tell
from isogloss.evaluation.forecasting import FAR, Estimate, Forecast, LanguageForecast

UNLIKELY = 0.025  # a share of curves that is not worth a sentence
NOT_EXPLAINED = 2.0  # times their standard errors that scores are away from the curve


def show(found: Forecast) -> None:
    """The forecasts, on 80 columns."""
    sizes = [f"{one.limit:,}" for one in found.runs]
    tell(f"{found.settings.score} in %, with 95 % intervals, forecast from runs; pairs per language: {listed(sizes)}\n")
    if found.languages:
        first = next(iter(found.languages.values()))
        table = plain_table("", ">measured", *(f">{_short(size)}\npairs" for size in first.at), gap=1)
        for language, own in found.languages.items():
            table.add_row(language, percent(own.points.scores[-1]), *(_cell(one) for one in own.at.values()))
        output.print(table)
        tell("")
    for language, own in found.languages.items():
        tell(f"{language}: {_sentence(own, found.settings.wanted)}")
    for language, reason in found.unknown.items():
        tell(f"{language}: no forecast: {reason}.")
    tell(f"\nRuns and numbers: {found.folder}")


def _sentence(own: LanguageForecast, wanted: float) -> str:
    notes = [_verdict(own, wanted)]
    if own.is_far:
        notes.append(f"That is more than {FAR}-fold the largest run: no more than a guess; run larger parts (--sizes).")
    if own.misfit > NOT_EXPLAINED:
        notes.append("The scores are not on a curve of this form; the interval is wider for it.")
    return " ".join(notes)


def _verdict(own: LanguageForecast, wanted: float) -> str:
    goal = f"{wanted:g} %"
    if not own.is_reachable:
        level = f"the curve levels off at {_cell(own.level)}"
        if own.enough < UNLIKELY:
            return f"{goal} is not reachable by more pairs of this kind ({level})."
        chance = f"{own.enough:.0%} of the likely curves reach it"
        return f"{goal} may not be reachable by more pairs of this kind ({level}; {chance})."
    needed, there = amount(_rounded(own.needed.value), "pair"), amount(own.available, "pair")
    if own.needed.value <= own.points.sizes.max() and own.points.scores[-1] >= wanted / 100:
        return f"{goal} is reached with about {needed}, of {there}."
    spent = "" if own.seconds is None else f", a run of about {duration(own.seconds)} here"
    doubt = "" if own.enough > 1 - UNLIKELY else f" {1 - own.enough:.0%} of the likely curves never reach it."
    return f"{goal} needs about {needed} ({_span(own.needed)}; you have {own.available:,}){spent}.{doubt}"


def _cell(one: Estimate) -> str:
    return f"{percent(one.value)} ({100 * one.low:.0f}–{100 * one.high:.0f})"


def _span(needed: Estimate) -> str:
    """The interval of a number of pairs, which may have no upper end."""
    if isinf(needed.high):
        lowest = needed.value if isinf(needed.low) else needed.low
        return f"{_rounded(lowest):,} or more, perhaps no number is enough"
    return f"{_rounded(needed.low):,} to {_rounded(needed.high):,}"


def _rounded(pairs: float) -> int:
    """Two digits: a forecast is not more precise."""
    return int(float(f"{pairs:.2g}"))


def _short(size: int) -> str:
    """`12k` and `3.5M`, for headings."""
    for unit, name in ((10**6, "M"), (10**3, "k")):
        if size >= 10 * unit or (size >= unit and size % (unit // 10) == 0):
            return f"{size / unit:.3g}{name}"
    return str(size)
