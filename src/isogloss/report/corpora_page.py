"""The page of a store, as `isogloss corpora show` writes it: how much there is of what, how it came to be, how it reads."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.corpora.preparation.drop_counts import Line, grouped
from isogloss.corpora.store import Store
from isogloss.corpora.summary import BINS, Cell, LanguageSummary, Lengths, Summary
from isogloss.report import svg
from isogloss.report.cleaning_sections import cleaning_sections
from isogloss.report.markup import Markup, join, tag
from isogloss.report.page import (
    NUMBER,
    PICTURE,
    Column,
    Section,
    folded,
    foreign,
    heat_maps,
    named,
    number,
    page,
    percent,
    table,
)
from isogloss.report.sharing_sections import sharing_sections
from isogloss.storage import write_text

SHOWN = 300  # characters of a side in a sample


def write_corpora_page(store: Store, summary: Summary, path: Path) -> None:
    """Write the page to a file."""
    write_text(path, corpora_page(store, summary))


def corpora_page(store: Store, summary: Summary) -> str:
    """The page as text."""
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
        f"A prepared store of isogloss: pairs of {summary.source_language} and "
        f"{amount(len(summary.languages), 'other language')}. Content hash {store.hash}."
    )
    figures = [
        (number(summary.pairs), "pairs"),
        (number(sum(cell.train for cell in summary.cells)), "to train on"),
        (number(sum(cell.test for cell in summary.cells)), "held out"),
        (number(len(summary.languages)), "language" if len(summary.languages) == 1 else "languages"),
        (number(len(summary.corpora)), "corpus" if len(summary.corpora) == 1 else "corpora"),
        (("about " if summary.overlap.one_in > 1 else "") + number(summary.overlap.sentences), "different source sentences"),
        (percent(1 - summary.pairs / max(manifest["rows_in"], 1)), f"of {amount(manifest['rows_in'], 'pair')} left out"),
    ]
    return page(store.folder.resolve().name, lead, figures, sections)


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _sizes(summary: Summary) -> Section:
    """Languages by corpora, as a picture and as numbers."""
    corpora, languages = (_by_size(summary.cells, name) for name in ("corpus", "language"))
    scale, spots = svg.Scale.counts(max(cell.pairs for cell in summary.cells)), []
    for cell in summary.cells:
        corpus, language = corpora.index(cell.corpus), languages.index(cell.language)
        hover = f"{named(cell.corpus)}, {cell.language}: {amount(cell.pairs, 'pair')}, {number(cell.test)} of them held out"
        spots.append(svg.Spot(corpus, language, scale.level(cell.pairs), hover))
    body = [
        scale.legend(min(cell.pairs for cell in summary.cells)),
        heat_maps(list(map(named, corpora)), languages, spots, "pairs of each corpus in each language"),
        folded("the same as numbers", _numbers(summary, corpora)),
    ]
    note = "Pairs of each corpus in each language, the largest first; each colour stands for about three times as many."
    return Section("sizes", "Sizes", note, join(body))


def _numbers(summary: Summary, corpora: Sequence[str]) -> Markup:
    pairs = {(cell.language, cell.corpus): number(cell.pairs) for cell in summary.cells}
    rows = [[own.language, *(pairs.get((own.language, corpus), "") for corpus in corpora)] for own in summary.languages]
    return table([Column("language"), *(Column(named(corpus), NUMBER) for corpus in corpora)], rows)


def _by_size(cells: Sequence[Cell], name: str) -> list[str]:
    sizes: dict[str, int] = {}
    for cell in cells:
        sizes[getattr(cell, name)] = sizes.get(getattr(cell, name), 0) + cell.pairs
    return sorted(sizes, key=lambda key: (-sizes[key], key))


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _splits(train: int, test: int, whole: int) -> Markup:
    return svg.bar([(train, "train"), (test, "test")], whole, f"{number(train)} to train on, {number(test)} held out")


def _split_legend() -> Markup:
    return svg.legend([("train", "train"), ("test", "held out")])


def _corpora(summary: Summary, manifest: dict[str, Any]) -> Section:
    """Licence, version and account of each corpus."""
    largest = max(counts["train"] + counts["test"] for counts in manifest["corpora"].values())
    lines = {line.corpus: line for line in grouped((Line(**line) for line in manifest["waterfall"]), "corpus")}
    rows = []
    for corpus, counts in manifest["corpora"].items():
        kept = counts["train"] + counts["test"]
        languages = sum(cell.corpus == corpus for cell in summary.cells)
        rows.append(
            [
                named(corpus),
                _splits(counts["train"], counts["test"], largest),
                number(counts["train"]),
                number(counts["test"]),
                number(languages),
                percent(1 - kept / max(counts["rows_in"], 1)),
                lines[corpus].worst,
                counts["licence"] or "not stated",
                counts["version"] or "not stated",
                "dictionary" if counts["dictionary"] else "sentences",
            ]
        )
    columns = [Column("corpus"), Column("pairs", PICTURE), Column("train", NUMBER), Column("held out", NUMBER)]
    columns += [Column("languages", NUMBER), Column("left out", NUMBER), Column("most by")]
    columns += [Column("licence"), Column("version"), Column("kind")]
    note = (
        "Where the pairs come from and on what terms. “Not stated”: the files came without a licence; ask where you got them."
    )
    return Section("corpora", "Corpora", note, join([_split_legend(), table(columns, rows)]))


def _languages(summary: Summary) -> Section:
    """Size and token lengths of each language."""
    largest = max(language.pairs for language in summary.languages)
    first = 1 if not any(own.source.histogram[0] + own.target.histogram[0] for own in summary.languages) else 0
    rows = [
        [
            own.language,
            _splits(own.train, own.test, largest),
            number(own.train),
            number(own.test),
            *_lengths(own.source, own, first),
            *_lengths(own.target, own, first),
        ]
        for own in summary.languages
    ]
    sides = [Column("median", NUMBER), Column("95\u00a0%", NUMBER), Column("longest", NUMBER)]
    columns = [Column("language"), Column("pairs", PICTURE), Column("train", NUMBER), Column("held out", NUMBER)]
    columns += [Column(f"{summary.source_language} tokens", PICTURE), *sides, Column("its own tokens", PICTURE), *sides]
    note = (
        "Tokens are words, punctuation marks, and characters of scripts that are written without spaces; a model's own "
        "tokenizer counts more. 95 %: so many sentences are that long or shorter. The columns of a histogram begin at "
        f"{', '.join(map(str, BINS[first:]))} tokens; point at one for its count."
    )
    return Section("languages", "Languages and lengths", note, join([_split_legend(), table(columns, rows)]))


def _lengths(lengths: Lengths, language: LanguageSummary, first: int) -> list[str]:
    counts = lengths.histogram[first:]
    ends = [f"{start}–{stop - 1}" if stop > start + 1 else str(start) for start, stop in pairwise(BINS)]
    ends.append(f"{BINS[-1]} or more")
    hovers = [
        f"{language.language}, {end} tokens: {number(count)} ({percent(count / language.pairs)})"
        for end, count in zip(ends[first:], counts, strict=True)
    ]
    return [svg.histogram(counts, hovers), number(lengths.median), number(lengths.most), number(lengths.longest)]


# ── samples ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _samples(summary: Summary) -> Section:
    """A few pairs of each language, to read."""
    blocks = []
    for own in summary.languages:
        pairs = [
            tag(
                "li",
                foreign(_cut(pair.source), summary.source_language),
                foreign(_cut(pair.target), own.language),
                tag("span", f"{named(pair.corpus)}, {pair.split}", class_="where"),
            )
            for pair in own.samples
        ]
        blocks.append(tag("div", tag("h3", own.language), tag("ul", *pairs, class_="pairs")))
    note = "Pairs drawn at random, the same ones every time."
    return Section("samples", "Samples", note, tag("div", *blocks, class_="samples"))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
