"""The page of a store, as `isogloss corpora show` writes it: sizes, languages, cleaning, overlap, balance and samples."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup

from isogloss.amounts import amount
from isogloss.corpora.preparation.manifest import Line, grouped
from isogloss.corpora.store import Store
from isogloss.corpora.summary import BINS, LanguageSummary, Lengths, Summary
from isogloss.report import charts
from isogloss.report.cleaning_sections import cleaning_sections
from isogloss.report.page import (
    NUMBER,
    PICTURE,
    Column,
    Section,
    ShownPair,
    Table,
    named,
    number,
    page,
    percent,
    totals,
)
from isogloss.report.rendering import render
from isogloss.report.sharing_sections import sharing_sections

MAX_CHARACTERS = 300  # of a side in a sample


def corpora_page(store: Store, summary: Summary) -> str:
    """The whole file."""
    manifest = store.manifest
    sections = [
        _sizes(summary),
        _corpora(summary, manifest),
        _languages(summary),
        *cleaning_sections(manifest),
        *sharing_sections(summary),
        _samples(summary),
    ]
    lead = (
        f"A prepared isogloss store: pairs of {summary.source_language} and "
        f"{amount(len(summary.languages), 'other language')}. Content hash {store.hash}."
    )
    figures = [
        (number(summary.pairs), "pairs"),
        (number(sum(cell.train for cell in summary.cells)), "to train on"),
        (number(sum(cell.test for cell in summary.cells)), "held out"),
        (number(len(summary.languages)), "language" if len(summary.languages) == 1 else "languages"),
        (number(len(summary.corpora)), "corpus" if len(summary.corpora) == 1 else "corpora"),
        (("about " if summary.overlap.one_in > 1 else "") + number(summary.overlap.sentences), "distinct source sentences"),
        (percent(1 - summary.pairs / max(manifest["rows_in"], 1)), f"of {amount(manifest['rows_in'], 'pair')} left out"),
    ]
    return page(store.folder.resolve().name, lead, figures, sections)


def _sizes(summary: Summary) -> Section:
    """Languages by corpora, as a picture and as numbers."""
    corpora, languages = (_by_size(summary.cells, name) for name in ("corpus", "language"))
    scale, spots = charts.Scale.counts(max(cell.pairs for cell in summary.cells)), []
    for cell in summary.cells:
        corpus, language = corpora.index(cell.corpus), languages.index(cell.language)
        hover = f"{named(cell.corpus)}, {cell.language}: {amount(cell.pairs, 'pair')}, {number(cell.test)} of them held out"
        spots.append(charts.Spot(corpus, language, scale.level(cell.pairs), hover))
    pairs = {(cell.language, cell.corpus): number(cell.pairs) for cell in summary.cells}
    rows = [[own.language, *(pairs.get((own.language, corpus), "") for corpus in corpora)] for own in summary.languages]
    columns = [Column("language"), *(Column(named(corpus), NUMBER) for corpus in corpora)]
    parts: list[Table | Markup] = [
        scale.legend(min(cell.pairs for cell in summary.cells)),
        charts.heat_maps(list(map(named, corpora)), languages, spots, "pairs of each corpus in each language"),
        Table(columns, rows, folded="as numbers"),
    ]
    note = "Pairs per corpus and language, the largest first. Each color stands for about three times as many."
    return Section("sizes", "Sizes", note, parts)


def _by_size(cells: Sequence[Line], name: str) -> list[str]:
    sizes = totals(cells, name, "pairs")
    return sorted(sizes, key=lambda key: (-sizes[key], key))


SPLITS = (("train", "train"), ("test", "held out"))


def _splits(train: int, test: int, whole: int) -> list[str]:
    """A bar, and the numbers beside it."""
    bar = charts.bar([(train, "train"), (test, "test")], whole, f"{number(train)} to train on, {number(test)} held out")
    return [bar, number(train), number(test)]


def _corpora(summary: Summary, manifest: dict[str, Any]) -> Section:
    """Size, license and version of each corpus, and how much of it was left out."""
    largest = max(counts["train"] + counts["test"] for counts in manifest["corpora"].values())
    lines = {line.corpus: line for line in grouped((Line(**line) for line in manifest["waterfall"]), "corpus")}
    rows = [
        [
            named(corpus),
            *_splits(counts["train"], counts["test"], largest),
            number(sum(cell.corpus == corpus for cell in summary.cells)),
            percent(1 - (counts["train"] + counts["test"]) / max(counts["rows_in"], 1)),
            lines[corpus].worst,
            counts["licence"] or "not stated",
            counts["version"] or "not stated",
            "dictionary" if counts["dictionary"] else "sentences",
        ]
        for corpus, counts in manifest["corpora"].items()
    ]
    columns = [Column("corpus"), Column("pairs", PICTURE), Column("train", NUMBER), Column("held out", NUMBER)]
    columns += [Column("languages", NUMBER), Column("left out", NUMBER), Column("most by")]
    columns += [Column("license"), Column("version"), Column("kind")]
    note = "Where the pairs come from and under which license. “Not stated”: the files came without one; ask their publisher."
    return Section("corpora", "Corpora", note, [charts.legend(SPLITS), Table(columns, rows)])


def _languages(summary: Summary) -> Section:
    """Size and token lengths of each language."""
    largest = max(language.pairs for language in summary.languages)
    first = 1 if not any(own.source.histogram[0] + own.target.histogram[0] for own in summary.languages) else 0
    rows = []
    for own in summary.languages:
        lengths = _lengths(own.source, own, first) + _lengths(own.target, own, first)
        rows.append([own.language, *_splits(own.train, own.test, largest), *lengths])
    sides = [Column("median", NUMBER), Column("95\u00a0%", NUMBER), Column("longest", NUMBER)]
    columns = [Column("language"), Column("pairs", PICTURE), Column("train", NUMBER), Column("held out", NUMBER)]
    columns += [Column(f"{summary.source_language} tokens", PICTURE), *sides, Column("its own tokens", PICTURE), *sides]
    note = (
        "Tokens are words, punctuation marks, and characters of scripts without spaces; a model's own tokenizer counts more. "
        "95 %: this share of sentences is that long or shorter. The columns of a histogram begin at "
        f"{', '.join(map(str, BINS[first:]))} tokens; hover over one for its count."
    )
    return Section("languages", "Languages and lengths", note, [charts.legend(SPLITS), Table(columns, rows)])


def _lengths(lengths: Lengths, language: LanguageSummary, first: int) -> list[str]:
    counts = lengths.histogram[first:]
    ends = [f"{start}–{stop - 1}" if stop > start + 1 else str(start) for start, stop in pairwise(BINS)]
    ends.append(f"{BINS[-1]} or more")
    hovers = [
        f"{language.language}, {end} tokens: {number(count)} ({percent(count / language.pairs)})"
        for end, count in zip(ends[first:], counts, strict=True)
    ]
    return [charts.histogram(counts, hovers), number(lengths.median), number(lengths.most), number(lengths.longest)]


def _samples(summary: Summary) -> Section:
    """A few pairs of each language, to read."""
    samples = []
    for own in summary.languages:
        codes = summary.source_language, own.language
        pairs = [ShownPair(_cut(p.source), _cut(p.target), *codes, f"{named(p.corpus)}, {p.split}") for p in own.samples]
        samples.append((own.language, pairs))
    note = "Pairs drawn at random, the same ones every time."
    return Section("samples", "Samples", note, [render("samples.html", samples=samples)])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else text[: MAX_CHARACTERS - 1] + "…"
