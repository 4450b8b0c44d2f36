"""How a search within a budget is shown: what was tried, what was chosen, and what that loses."""

from isogloss.amounts import listed
from isogloss.cli.screens.progress import output, percent, plain_table, show_json, tell
from isogloss.exporting.budget.frontier import Tried
from isogloss.exporting.budget.megabytes import in_megabytes
from isogloss.exporting.budget.result import Budgeted

BEST, ON_FRONTIER = "←", "*"
CLEAR = 0.05  # points: smaller differences are shown as 0.0


def show_frontier(result: Budgeted, as_json: bool) -> None:
    """Show the result as tables, or as JSON."""
    if as_json:
        show_json(result.as_dict())
        return
    output.print()
    _show_tried(result)
    _tell_lost(result)
    tell(f"\n{in_megabytes(result.size)} of {in_megabytes(result.budget)}: {result.model}")
    tell(f"Everything that was tried: {result.folder / 'frontier.html'}, frontier.svg and frontier.json")


def _show_tried(result: Budgeted) -> None:
    known = result.original.shown.teacher_index is not None
    scores = (">score", ">index", ">transl.") if known else (">score", ">transl.")
    table = plain_table(">MB", ">sent./s", *scores, "vocabulary", ">layers", ">dim.", "", "", gap=1)
    on_frontier = {one.candidate for one in result.frontier}
    hidden = [one for one in result.tried if not one.measured]
    for one in result.tried:
        if one.measured:
            mark = BEST if one is result.best else ON_FRONTIER if one.candidate in on_frontier else ""
            table.add_row(*_row(one, known), mark, style="bold" if one is result.best else "")
    original, size = result.original, result.original.size
    shown = original.shown
    index = [percent(shown.teacher_index)] if known else []
    first = f"{size / 1e6:,.1f}" if size else "–"
    numbers = [f"{original.sentences_per_second:,.0f}", f"{100 * shown.mean:.1f}", *index, percent(shown.retrieval)]
    table.add_row(first, *numbers, "the original, run by torch", "", "", "", "")
    output.print(table)
    tell(f"\n{ON_FRONTIER} no other is as small, as fast and as good; {BEST} the best that fits. {result.note()}")
    if hidden:
        sizes = [in_megabytes(one.bytes) for one in (hidden[0], hidden[-1])]
        predicted = " to ".join(dict.fromkeys(sizes))
        tell(f"{len(hidden)} more do not fit (predicted size: {predicted}) and were not measured.")


def _row(one: Tried, known: bool) -> list[str]:
    candidate, shown = one.candidate, one.shown
    assert shown is not None, "it was measured"
    vocabulary = "whole" if candidate.trim == "off" else candidate.trim
    return [
        f"{one.megabytes:,.1f}",
        f"{one.sentences_per_second:,.0f}",
        f"{100 * shown.mean:.1f}",
        *([percent(shown.teacher_index)] if known else []),
        percent(shown.retrieval),
        f"{vocabulary} ({candidate.rows:,})",
        str(candidate.layers or "–"),
        str(candidate.dimension),
        candidate.precision,
    ]


def _tell_lost(result: Budgeted) -> None:
    """What the best loses, on average and in each language, the largest loss first."""
    average, *languages = result.lost
    worse = sorted((one for one in languages if one.points >= CLEAR), key=lambda one: -one.points)
    better = "loses" if average.points >= 0 else "gains"
    tell(f"\nCompared with the original, it {better} {abs(average.points):.1f} points of the score on average.")
    if worse:
        tell(f"By language: {listed([f'{one.language} {one.points:.1f}' for one in worse])}.")
    if better == "loses" and not worse:
        tell("No language loses anything.")
    if result.warning:
        tell(f"! {result.warning}")
    if result.cut_index:
        tell("Its embeddings are truncated: truncate the vectors in the teacher's index to the same size, and normalize them.")
    if result.best.candidate.trim == "corpus":
        tell("Its vocabulary is trimmed to the run's text: other words are split into smaller tokens.")
