"""`isogloss corpora show`: summarize a prepared store, on the screen and as an HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.amounts import amount
from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from rich.table import Table

    from isogloss.corpora.store import Store
    from isogloss.corpora.summary import Summary

PAGE = "summary.html"
WIDTH, BAR, NAME = 80, 20, 32
OVERLAPS, PAIRS_SHOWN, WAYS_SHOWN = 5, 24, 4


def show(
    store: Annotated[Path, Argument(metavar="STORE", help="Folder written by isogloss prepare.")],
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", help=f"Path of the HTML report.  [default: STORE/{PAGE}]")
    ] = None,
    samples: Annotated[int, Option("--samples", min=0, metavar="N", help="Number of random pairs to show per language.")] = 3,
    json: JsonFlag = False,
) -> None:
    """Summarize a prepared store and write an HTML report.

    Shows counts, token lengths, overlap and samples; the report adds charts.

    isogloss corpora show pairs
    """
    from isogloss.cli.screens.progress import output, progress, show_json
    from isogloss.corpora.store import MANIFEST, open_store
    from isogloss.corpora.summary import summarize
    from isogloss.report.corpora_page import corpora_page
    from isogloss.storage import refuse_folder, refuse_overwriting, write_text

    opened = open_store(store)
    page = html if html is not None else None if json else opened.folder / PAGE
    if page is not None:
        refuse_folder(page)
        refuse_overwriting(page, [opened.folder / MANIFEST, *opened.folder.glob("*/*.parquet")])
    with progress() as bars:
        summary = summarize(opened, samples, bars)
    if page is not None:
        write_text(page, corpora_page(opened, summary))
    if json:
        show_json(_as_data(opened, summary, page))
        return
    output.print(*_heading(opened, summary), "", _corpora(opened, summary), "", _languages(summary), "", sep="\n")
    output.print(*_overlap(summary), "", sep="\n")
    if samples:
        output.print(_samples(summary), "")
    output.print(f"HTML page: {page}")


def _as_data(store: "Store", summary: "Summary", page: Path | None) -> dict[str, Any]:
    about = {"path": str(store.folder), "hash": store.hash, "page": None if page is None else str(page)}
    return about | summary.as_dict() | {"corpora": store.manifest["corpora"]}


def _heading(store: "Store", summary: "Summary") -> list[str]:
    train = sum(cell.train for cell in summary.cells)
    languages, corpora = amount(len(summary.languages), "language"), amount(len(summary.corpora), "corpus", "corpora")
    return [
        f"{store.folder}: {amount(summary.pairs, 'pair')}, {train:,} for training and {summary.pairs - train:,} held out",
        f"{summary.source_language} and {languages}, {corpora}; hash {store.hash}",
    ]


def _corpora(store: "Store", summary: "Summary") -> "Table":
    """Size and license of each corpus."""
    from isogloss.cli.screens.progress import plain_table
    from isogloss.report.rendering import named

    table = plain_table("corpus", ">train", ">test", ">langs", "license")
    table.columns[0].max_width, table.columns[-1].no_wrap = NAME, False
    for corpus in summary.corpora:
        own = [cell for cell in summary.cells if cell.corpus == corpus]
        counts = sum(cell.train for cell in own), sum(cell.test for cell in own), len(own)
        license = store.manifest["corpora"].get(corpus, {}).get("license") or "not stated"
        table.add_row(named(corpus), *(f"{count:,}" for count in counts), license)
    return table


def _languages(summary: "Summary") -> "Table":
    """Size of each language as a bar, and the lengths of its sentences."""
    from rich.bar import Bar

    from isogloss.cli.screens.progress import plain_table

    sides = f">{summary.source_language} tokens\nmedian", ">\n95 %", ">own tokens\nmedian", ">\n95 %"
    table = plain_table("\nlanguage", ">\ntrain", ">\ntest", "", *sides)
    table.caption = "tokens: words, punctuation, characters of unspaced scripts; 95th percentile"
    table.caption_style, table.caption_justify = "", "left"
    largest = max(own.pairs for own in summary.languages)
    for own in summary.languages:
        bar = Bar(1, 0, max(own.pairs / largest, 1 / (8 * BAR)), width=BAR)  # at least an eighth of a character
        lengths = own.source.median, own.source.most, own.target.median, own.target.most
        table.add_row(own.language, f"{own.train:,}", f"{own.test:,}", bar, *(f"{length:,}" for length in lengths))
    return table


def _overlap(summary: "Summary") -> list[str]:
    """The largest overlaps of corpora, and the number of languages per sentence."""
    import textwrap

    from isogloss.report.rendering import named

    overlap = summary.overlap
    about = "about " if overlap.one_in > 1 else ""
    lines = [f"{about}{amount(overlap.sentences, 'different source sentence')}"]
    if overlap.one_in > 1:
        lines[0] += f" (estimated from one in {overlap.one_in})"
    shown = [(count, number) for count, number in enumerate(overlap.ways, start=1) if number]
    rest = sum(number for _, number in shown[WAYS_SHOWN:])
    ways = [f"{number:,} in {count}" for count, number in shown[:WAYS_SHOWN]] + ([f"{rest:,} in more"] if rest else [])
    lines += textwrap.wrap(f"languages per sentence: {', '.join(ways)}", WIDTH, subsequent_indent="  ")
    largest = overlap.largest(OVERLAPS)
    for one, two, share in largest:
        lines.append(f"{100 * share:>6.1f} % of {named(one)} is also in {named(two)}")
    if not largest and len(overlap.corpora) > 1:
        lines.append("no source sentence is in two corpora")
    return lines


def _samples(summary: "Summary") -> "Table":
    """A few pairs, at least one per language; long sentences are cut."""
    from rich.table import Table

    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(no_wrap=True)
    for ratio in (1, None, 1):
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=ratio)
    each = max(1, PAIRS_SHOWN // len(summary.languages))
    for own in summary.languages:
        for pair in own.samples[:each]:
            table.add_row(pair.language, pair.source, "↔", pair.target)
    return table
