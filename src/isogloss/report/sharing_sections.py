"""The sections of a store's page about overlap between corpora, N-way sentences, and balancing."""

from collections.abc import Sequence

from markupsafe import Markup

from isogloss.config import BalanceSettings
from isogloss.corpora.overlap import Overlap
from isogloss.corpora.summary import Summary
from isogloss.report import charts
from isogloss.report.page import NUMBER, PICTURE, Column, Section, Table, code, named, number, percent, totals

LARGEST = 10
SHARES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
WAYS = (1, 2, 3, 4, 5, 10, 20, 50, 100)  # where groups of N-way sentences begin
MANY_WAYS = 12  # up to here every number has its own bar
SCHEMES = {
    "everything": "every pair once",
    "corpora": "the same from each corpus",
    "languages": f"languages evened out (temperature {BalanceSettings().temperature:g})",
    "datasets": "the same from each corpus of each language",
}


def sharing_sections(summary: Summary) -> list[Section]:
    """Overlap between corpora, N-way structure, plans of balancing."""
    sections = [_overlap(summary.overlap)] if len(summary.overlap.corpora) > 1 else []
    return [*sections, _ways(summary.overlap), _balance(summary)]


def _sampled(overlap: Overlap) -> str:
    if overlap.one_in == 1:
        return ""
    return f" Estimated from one source sentence in {overlap.one_in}, the same ones everywhere."


def _overlap(overlap: Overlap) -> Section:
    """Corpora by corpora as a picture, and the largest overlaps as a table."""
    names = [named(corpus) for corpus in overlap.corpora]
    pairs = [(one, two) for one in range(len(names)) for two in range(len(names)) if one != two and overlap.shared[one][two]]
    if not pairs:
        return Section("overlap", "Overlap", "No source sentence is in two corpora." + _sampled(overlap), [])
    spots, scale = [], charts.Scale.shares(SHARES)
    for one, two in pairs:
        share = overlap.share(overlap.corpora[one], overlap.corpora[two])
        count = number(overlap.shared[one][two])
        hover = f"{percent(share)} of the source sentences of {names[one]} are in {names[two]} too ({count})"
        spots.append(charts.Spot(one, two, scale.level(share), hover, f"{100 * share:.0f}" if share >= 0.005 else ""))
    what = "share of the source sentences of each corpus that each other corpus has too"
    rows = [[named(one), named(two), percent(share)] for one, two, share in overlap.largest(LARGEST)]
    largest = Table([Column("of the sentences of"), Column("are also in"), Column("share", NUMBER)], rows)
    note = "How much of the corpus in a row is also in the corpus in a column, in percent of its distinct source sentences."
    parts: list[Table | Markup] = [scale.legend(0.0), charts.heat_maps(names, names, spots, what, 20, turn=False), largest]
    return Section("overlap", "Overlap", note + _sampled(overlap), parts)


def _ways(overlap: Overlap) -> Section:
    """How many languages a source sentence is translated into."""
    groups = _grouped(overlap.ways)
    largest = max((count for _, count in groups), default=1)
    rows = [
        [label, charts.bar([(count, "train")], largest), number(count), percent(count / max(overlap.sentences, 1))]
        for label, count in groups
    ]
    columns = [Column("languages"), Column("", PICTURE), Column("source sentences", NUMBER), Column("share", NUMBER)]
    note = "How many languages a source sentence is translated into: sentences with several are N-way parallel."
    return Section("ways", "N-way sentences", note + _sampled(overlap), [Table(columns, rows)])


def _grouped(ways: Sequence[int]) -> list[tuple[str, int]]:
    """Each number of languages that occurs, grouped if there are many."""
    if len(ways) <= MANY_WAYS:
        return [(str(languages), count) for languages, count in enumerate(ways, start=1) if count]
    groups = []
    for start, stop in zip(WAYS, (*WAYS[1:], len(ways) + 1), strict=True):
        last = min(stop - 1, len(ways))
        if start <= last:
            groups.append((str(start) if start == last else f"{start}–{last}", sum(ways[start - 1 : last])))
    return groups


def _balance(summary: Summary) -> Section:
    """What an epoch would consist of with each scheme, by corpus and by language."""
    note = (
        "What an epoch would consist of with each balance scheme: the share of the epoch, and how often each pair is seen "
        "(× 2: twice per epoch, × 0.5: every second epoch)."
    )
    by_language = [_plans(summary, "language", "by language")] if len(summary.languages) > 1 else []
    return Section("balance", "Balance", note, [_plans(summary, "corpus"), *by_language])


def _plans(summary: Summary, name: str, folded: str = "") -> Table:
    trained = totals(summary.cells, name, "train")
    columns = [Column(name), Column("to train on", NUMBER)]
    columns += [Column(Markup("{}<br/>{}").format(code(one.scheme), SCHEMES[one.scheme]), NUMBER) for one in summary.plans]
    drawn = [totals(plan.shares, name, "per_epoch") for plan in summary.plans]
    rows = []
    for key, pairs in sorted(trained.items()):
        cells = [named(key), number(int(pairs))]
        for one in drawn:
            share, passes = one.get(key, 0.0) / max(sum(one.values()), 1), one.get(key, 0.0) / max(pairs, 1)
            cells.append(Markup("{} <small>× {}</small>").format(percent(share), f"{passes:.3g}"))
        rows.append(cells)
    return Table(columns, rows, folded)
