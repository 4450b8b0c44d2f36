"""`isogloss corpora show`: summarize a prepared store, on the screen and as an HTML page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.amounts import amount
from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from isogloss.corpora.store import Store
    from isogloss.corpora.summary import Summary
    from isogloss.types import Pair

PAGE = "summary.html"
WIDTH, BAR = 80, 20
EIGHTHS = " ▏▎▍▌▋▊▉"
OVERLAPS, PAIRS_SHOWN, WAYS_SHOWN = 5, 24, 4


def show(
    store: Annotated[Path, Argument(metavar="STORE", help="Folder that isogloss prepare wrote.")],
    html: Annotated[
        Path | None, Option("--html", metavar="FILE", help=f"Path of the HTML page.  [default: STORE/{PAGE}]")
    ] = None,
    samples: Annotated[int, Option("--samples", min=0, metavar="N", help="Random pairs per language.")] = 3,
    json: JsonFlag = False,
) -> None:
    """Summarize a prepared store, and write an HTML page about it.

    Counts, token lengths, overlap and samples; the page has charts of them.

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
    parts = [_heading(opened, summary), _corpora(opened, summary), _languages(summary), _overlap(summary), _samples(summary)]
    text = "\n\n".join("\n".join(lines) for lines in parts if lines)
    output.print(f"{text}\n\nHTML page: {page}")


def _as_data(store: "Store", summary: "Summary", page: Path | None) -> dict[str, Any]:
    corpora = {name: dict(counts) for name, counts in store.manifest["corpora"].items()}
    about = {"path": str(store.folder), "hash": store.hash, "page": None if page is None else str(page)}
    return about | summary.as_dict() | {"corpora": corpora}


def _heading(store: "Store", summary: "Summary") -> list[str]:
    train = sum(cell.train for cell in summary.cells)
    languages, corpora = amount(len(summary.languages), "language"), amount(len(summary.corpora), "corpus", "corpora")
    return [
        f"{store.folder}: {amount(summary.pairs, 'pair')}, {train:,} for training and {summary.pairs - train:,} held out",
        f"{summary.source_language} and {languages}, {corpora}; hash {store.hash}",
    ]


def _corpora(store: "Store", summary: "Summary") -> list[str]:
    """Licence and size of each corpus."""
    names = [corpus or "(no name)" for corpus in summary.corpora]
    wide = min(32, max(6, *map(len, names)))
    lines = [f"{'corpus':<{wide}}  {'train':>11}  {'test':>10}  {'langs':>5}  licence"]
    for corpus, name in zip(summary.corpora, names, strict=True):
        own = [cell for cell in summary.cells if cell.corpus == corpus]
        train, test = sum(cell.train for cell in own), sum(cell.test for cell in own)
        licence = store.manifest["corpora"].get(corpus, {}).get("licence") or "not stated"
        row = f"{_cut(name, wide)}  {train:>11,}  {test:>10,}  {len(own):>5,}  "
        lines.append(row + _cut(licence, WIDTH - len(row)).rstrip())
    return lines


def _languages(summary: "Summary") -> list[str]:
    """Size of each language as a bar, and the lengths of its sentences."""
    wide = max(4, *(len(own.language) for own in summary.languages))
    largest = max(own.pairs for own in summary.languages)
    source = f"{summary.source_language} tokens"
    lines = [
        f"{'':<{wide}}  {'':>11}  {'':>10}  {'':<{BAR}}  {source:>12}  {'its own':>12}",
        f"{'':<{wide}}  {'train':>11}  {'test':>10}  {'':<{BAR}}  {'median':>6} {'95 %':>5}  {'median':>6} {'95 %':>5}",
    ]
    for own in summary.languages:
        lengths = "  ".join(f"{side.median:>6,} {side.most:>5,}" for side in (own.source, own.target))
        bar = _bar(own.pairs / largest)
        lines.append(f"{own.language:<{wide}}  {own.train:>11,}  {own.test:>10,}  {bar:<{BAR}}  {lengths}")
    lines.append("tokens: words, punctuation, characters of unspaced scripts; 95th percentile")
    return lines


def _bar(share: float) -> str:
    """A bar of block characters, precise to an eighth, at least one eighth long."""
    eighths = max(1, round(share * BAR * 8))
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _overlap(summary: "Summary") -> list[str]:
    """The largest overlaps of corpora, and the number of languages per sentence."""
    import textwrap

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
        lines.append(f"{100 * share:>6.1f} % of {one or '(no name)'} is also in {two or '(no name)'}")
    if not largest and len(overlap.corpora) > 1:
        lines.append("no source sentence is in two corpora")
    return lines


def _samples(summary: "Summary") -> list[str]:
    """A few pairs, at least one per language."""
    each = max(1, PAIRS_SHOWN // len(summary.languages))
    wide = max(len(own.language) for own in summary.languages)
    return [_sample(pair, wide) for own in summary.languages for pair in own.samples[:each]]


def _sample(pair: "Pair", wide: int) -> str:
    from rich.cells import cell_len

    room = WIDTH - wide - 2 - len(" ↔ ")
    # A short side leaves its room to the other.
    source, target = cell_len(pair.source), cell_len(pair.target)
    left = min(source, max(room // 2, room - target))
    return f"{pair.language:<{wide}}  {_cut(pair.source, left)} ↔ {_cut(pair.target, min(target, room - left))}"


def _cut(text: str, room: int) -> str:
    """Exactly `room` cells of the screen: padded with spaces, or cut with an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    return set_cell_size(text, room) if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"
