"""The page of a store, as `isogloss corpora show` writes it: sizes, languages, cleaning, overlap, balance and samples.

This module computes numbers and charts; `templates/corpora.html` has the words and the tables.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from isogloss.amounts import amount
from isogloss.config import BalanceSettings, CleaningSettings
from isogloss.corpora.overlap import Overlap
from isogloss.corpora.preparation.auto_thresholds import UNCHANGED
from isogloss.corpora.preparation.manifest import Line, grouped, waterfall
from isogloss.corpora.preparation.pair_selection import IN_TEST_SPLIT
from isogloss.corpora.store import Store, checked_in_words, unread
from isogloss.corpora.summary import BINS, LanguageSummary, Lengths, Summary
from isogloss.report import charts
from isogloss.report.rendering import named, number, percent, render_page

MARGIN, LEAST = 0.12, 0.02  # how far the waterfall's axis goes below what was kept (of what went), and its least share of all
DROPPED_SHARES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
OVERLAP_SHARES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)
LARGEST = 10  # overlaps
WAYS = (1, 2, 3, 4, 5, 10, 20, 50, 100)  # where groups of N-way sentences begin
MANY_WAYS = 12  # up to here every number has its own bar


def corpora_page(store: Store, summary: Summary) -> str:
    """The whole file."""
    manifest, thresholds = store.manifest, store.manifest["thresholds"]
    lines = grouped(waterfall(manifest), "corpus")
    by_corpus, by_language = (_totals(summary.cells, name, "pairs") for name in ("corpus", "language"))
    return render_page(
        "corpora.html",
        title=store.folder.resolve().name,
        hash=store.hash,
        charts=charts,
        manifest=manifest,
        summary=summary,
        sizes=_sizes(summary, _largest_first(by_corpus), _largest_first(by_language)),
        lines={line.corpus: line for line in lines},
        languages_of=Counter(cell.corpus for cell in summary.cells),
        largest_corpus=max(by_corpus.values()),
        largest_language=max(by_language.values()),
        lengths=_lengths(summary),
        waterfall=_waterfall(manifest),
        unread=unread(manifest),
        rules=_rules(manifest, lines),
        leak_scan=checked_in_words(manifest["leak_scan"]),
        leaks=_leaks(manifest),
        meanings={name: field.description or "" for name, field in CleaningSettings.model_fields.items()},
        moved=[one for one in thresholds if not one["reason"].startswith(UNCHANGED)],
        stayed=[one for one in thresholds if one["reason"].startswith(UNCHANGED)],
        overlap=_overlap(summary.overlap),
        largest_overlaps=summary.overlap.largest(LARGEST),
        ways=_ways(summary.overlap.ways),
        plans={name: _plans(summary, name) for name in ("corpus", "language")},
        temperature=BalanceSettings().temperature,
    )


def _totals(rows: Iterable[object], name: str, count: str) -> dict[str, float]:
    """The sum of the attribute `count` for each value of the attribute `name`."""
    found: dict[str, float] = defaultdict(int)
    for row in rows:
        found[getattr(row, name)] += getattr(row, count)
    return found


def _largest_first(sizes: Mapping[str, float]) -> list[str]:
    return sorted(sizes, key=lambda key: (-sizes[key], key))


def _sizes(summary: Summary, corpora: list[str], languages: list[str]) -> dict[str, Any]:
    """Languages by corpora, as a picture and as numbers."""
    pairs = {(cell.language, cell.corpus): cell.pairs for cell in summary.cells}
    scale, spots = charts.Scale.counts(max(pairs.values())), []
    for cell in summary.cells:
        hover = f"{named(cell.corpus)}, {cell.language}: {amount(cell.pairs, 'pair')}, {number(cell.test)} of them held out"
        place = corpora.index(cell.corpus), languages.index(cell.language)
        spots.append(charts.Spot(*place, scale.level(cell.pairs), hover))
    picture = charts.heat_maps(list(map(named, corpora)), languages, spots, "pairs of each corpus in each language")
    return {"corpora": corpora, "pairs": pairs, "legend": scale.legend(min(pairs.values())), "picture": picture}


def _lengths(summary: Summary) -> dict[str, Any]:
    """The bins of the histograms of lengths, and the histograms of both sides of each language."""
    first = 0 if any(own.source.histogram[0] + own.target.histogram[0] for own in summary.languages) else 1
    ends = [f"{start}–{stop - 1}" if stop > start + 1 else str(start) for start, stop in pairwise(BINS)]
    ends.append(f"{BINS[-1]} or more")

    def histogram(side: Lengths, language: LanguageSummary) -> Markup:
        hovers = [
            f"{language.language}, {end} tokens: {number(count)} ({percent(count / language.pairs)})"
            for end, count in zip(ends, side.histogram, strict=True)
        ]
        return charts.histogram(side.histogram[first:], hovers[first:])

    sides = {own.language: [(side, histogram(side, own)) for side in (own.source, own.target)] for own in summary.languages}
    return {"bins": BINS[first:], "sides": sides}


def _waterfall(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Where the axis begins, and the bars: what they stand for, kind, start, stop and examples."""
    rows_in, rows_out = manifest["rows_in"], manifest["rows_out"]
    shown = max((1 + MARGIN) * (rows_in - rows_out), LEAST * rows_in)
    left = rows_in
    steps: list[tuple[str, str, int, int, list[Any]]] = [("pairs read", "total", 0, rows_in, [])]
    for drop in manifest["dropped"]:
        if drop["count"]:
            steps.append((drop["rule"], "dropped", left - drop["count"], left, drop["examples"]))
            left -= drop["count"]
    steps.append(("pairs kept", "total", 0, rows_out, []))
    return {"lowest": rows_in - shown if rows_in > 2 * shown else 0.0, "steps": steps}


def _rules(manifest: Mapping[str, Any], lines: Sequence[Line]) -> list[Markup]:
    """Rules by corpora: the share of a corpus that each rule dropped, as a legend and a picture; empty for one corpus."""
    rules = [drop["rule"] for drop in manifest["dropped"] if drop["count"]]
    if not rules or len(lines) < 2:
        return []
    scale, spots, shares = charts.Scale.shares(DROPPED_SHARES), [], []
    for column, line in enumerate(lines):
        for rule, count in line.dropped.items():
            shares.append(share := count / line.rows_in)
            hover = f"{rule}, {named(line.corpus)}: {amount(count, 'pair')}, {percent(share)} of its pairs"
            text = f"{100 * share:.{0 if share >= 0.0995 else 1}f}" if share >= 0.0005 else ""  # small ones are only colored
            spots.append(charts.Spot(rules.index(rule), column, scale.level(share), hover, text))
    name = "share of each corpus that each rule dropped"
    return [scale.legend(min(shares)), charts.heat_maps(rules, [named(line.corpus) for line in lines], spots, name, 20)]


def _leaks(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """How many pairs the leak scan removed, and the folders of the evaluation sets with the numbers of texts in their files."""
    guarded = next((drop["count"] for drop in manifest["dropped"] if drop["rule"] == IN_TEST_SPLIT), 0)
    folders: dict[str, list[int]] = defaultdict(list)
    for one in manifest["leak_scan"]["sets"]:
        folders[one["name"].rpartition("/")[0] or one["name"]].append(one["texts"])
    return {"removed": manifest["leak_scan"]["removed"] | {IN_TEST_SPLIT: guarded}, "folders": sorted(folders.items())}


def _overlap(overlap: Overlap) -> list[Markup]:
    """Corpora by corpora, as a legend and a picture; empty if no sentence is in two."""
    names, corpora = list(map(named, overlap.corpora)), overlap.corpora
    spots, scale = [], charts.Scale.shares(OVERLAP_SHARES)
    for one, row in enumerate(overlap.shared):
        for two, count in enumerate(row):
            if one != two and count:
                share = overlap.share(corpora[one], corpora[two])
                text = f"{100 * share:.0f}" if share >= 0.005 else ""
                hover = f"{percent(share)} of the source sentences of {names[one]} are in {names[two]} too ({number(count)})"
                spots.append(charts.Spot(one, two, scale.level(share), hover, text))
    what = "share of the source sentences of each corpus that each other corpus has too"
    return [scale.legend(0.0), charts.heat_maps(names, names, spots, what, 20, turn=False)] if spots else []


def _ways(ways: Sequence[int]) -> list[tuple[str, int]]:
    """Each number of languages that occurs with its sentences, grouped if there are many."""
    if len(ways) <= MANY_WAYS:
        return [(str(languages), count) for languages, count in enumerate(ways, start=1) if count]
    groups = []
    for start, stop in pairwise((*(way for way in WAYS if way <= len(ways)), len(ways) + 1)):
        label = str(start) if start == stop - 1 else f"{start}–{stop - 1}"
        groups.append((label, sum(ways[start - 1 : stop - 1])))
    return groups


def _plans(summary: Summary, name: str) -> list[tuple[str, int, list[tuple[float, float]]]]:
    """For each corpus or language its training pairs, and with each balance scheme its share of an epoch and its passes."""
    drawn = [_totals(plan.shares, name, "per_epoch") for plan in summary.plans]
    return [
        (key, int(pairs), [(one[key] / max(sum(one.values()), 1), one[key] / max(pairs, 1)) for one in drawn])
        for key, pairs in sorted(_totals(summary.cells, name, "train").items())
    ]
