"""`isogloss reproduce`: make the systems of a table of the papers, measure them, and show the paper's figures beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.table import Table

    from isogloss_papers.reproduce import Reproduction

LEAST_TITLE = 14  # cells of the screen for a system's title, over several lines if need be
MOST_LABEL, WHOSE = 30, 7  # for the name of a row, and for "paper" or "ours" with what is around it


def reproduce(
    table: Annotated[
        str, Argument(metavar="TABLE", help="rg-table-1 … rg-table-8, hk-table-1 … hk-table-4; several with commas; or all.")
    ] = "",
    scale: Annotated[
        str, Option(metavar="paper|lab", help="Train with the papers' models, corpora and steps, or at a small scale.")
    ] = "lab",
    data: Annotated[
        Path, Option("--data", metavar="FOLDER", help="Folder with test sets in eval/ and training data in train/.")
    ] = Path("."),
    out: Annotated[Path, Option("--out", metavar="FOLDER", help="Folder for systems, pairs, scores and tables.")] = Path(
        "reproduced"
    ),
    rows: Annotated[str, Option("--rows", metavar="SYSTEM,…", help="Only these systems (see --list).")] = "",
    models: Annotated[
        Path | None,
        Option("--models", metavar="FOLDER", help="Folder of local models: a subfolder replaces the hub model of that name."),
    ] = None,
    device: Annotated[str, Option(metavar="auto|cpu|cuda|mps", help="Device to run on.")] = "auto",
    set_: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="VERB.KEY=VALUE",
            help="Override a setting of a method, such as distil.training.epochs=2; repeatable.",
        ),
    ] = None,
    resamples: Annotated[int, Option(metavar="N", min=0, help="Bootstrap resamples; 0: no intervals.")] = 10_000,
    list_: Annotated[bool, Option("--list", help="List tables and systems, or those of TABLE, and exit.")] = False,
    json: JsonFlag = False,
    markdown: Annotated[bool, Option("--markdown", help="Print the table as Markdown.")] = False,
) -> None:
    """Reproduce tables of the papers.

    Trains and measures the systems of a table and prints the paper's numbers beside ours.

    isogloss reproduce rg-table-2 --data data --out reproduced

    isogloss reproduce all --data data --out reproduced

    isogloss reproduce --list
    """
    from isogloss.cli.options import as_languages, one_of

    one_of("screen", {"--json": json, "--markdown": markdown})
    one_of("tables", {"--list": list_, "--markdown": markdown})
    if list_:
        return _list(table, json)
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import progress
    from isogloss.errors import DataError
    from isogloss_papers.reproduce import reproduce as run_reproduction

    wanted = _tables(table, as_languages(rows))
    alone, results, failed = len(wanted) == 1, [], {}
    for name, chosen in wanted.items():
        strict = None if alone else False
        try:
            with progress() as bars:
                result = run_reproduction(
                    name, scale, data, out, chosen, models, device, set_ or (), resamples, strict=strict, on_progress=bars
                )
        except DataError as error:  # such as a missing test set: other tables can still be made
            if alone:
                raise
            failed[name] = error.message
            continue
        _write(result, out)
        results.append(result)
        if not json:
            _show_in_markdown(result) if markdown else _show(result, out)
    _end(results, alone, out, json)
    if failed:
        reasons = "; ".join(f"{name}: {message}" for name, message in failed.items())
        raise DataError(
            f"{len(failed)} of {amount(len(wanted), 'table')} could not be made: {reasons}",
            hint="check --data; the other tables are finished",
        )


def _end(results: "list[Reproduction]", alone: bool, out: Path, json: bool) -> None:
    """Print the JSON of all tables, and write and name their common page."""
    from isogloss.cli.screens.progress import output, show_json

    if json:
        show_json(results[0].as_dict() if alone else {one.table: one.as_dict() for one in results})
    if not alone and results:
        place = _write_page(results, out)
        if not json:
            output.print(f"All of them on one page: {place}")


def _tables(asked: str, rows: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The chosen tables with their chosen rows; of several tables, those without any of the rows are left out."""
    from isogloss.cli.options import as_languages
    from isogloss.errors import IsoglossError
    from isogloss_papers.published import published, table_names
    from isogloss_papers.recipe import CONTROLS

    names = table_names() if asked == "all" else list(dict.fromkeys(as_languages(asked)))
    if not names:
        raise IsoglossError("no table is named", hint="isogloss reproduce --list shows them")
    has = {name: {*published(name).systems, *CONTROLS} for name in names}  # raises for an unknown table before any work
    if len(names) == 1 or not rows:
        return dict.fromkeys(names, rows)
    for row in rows:
        if not any(row in systems for systems in has.values()):
            raise IsoglossError(f"none of these tables has a row {row}", hint="isogloss reproduce --list shows systems")
    found = {name: tuple(row for row in rows if row in systems) for name, systems in has.items()}
    return {name: own for name, own in found.items() if own}


def _write(result: "Reproduction", out: Path) -> None:
    """The table as JSON and as Markdown, and its picture."""
    from isogloss.storage import json_text, write_text
    from isogloss_papers.pictures import picture
    from isogloss_papers.rendering import markdown

    drawn = picture(result)
    write_text(out / f"{result.table}.json", json_text(result.as_dict()))
    write_text(out / f"{result.table}.md", markdown(result, [f"{result.table}.svg"] if drawn else []))
    if drawn:
        write_text(out / f"{result.table}.svg", drawn)


def _write_page(results: "list[Reproduction]", out: Path) -> Path:
    from isogloss.storage import write_text
    from isogloss_papers.rendering import page

    texts = [(out / f"{one.table}.md").read_text(encoding="utf-8") for one in results]
    lead = f"Made by `isogloss reproduce` at the {results[0].scale} scale: the papers' figures, and ours beside them."
    write_text(out / "tables.md", page(results, texts, lead))
    return out / "tables.md"


def _list(asked: str, as_json: bool) -> None:
    """List the chosen tables, or all, and their systems."""
    from isogloss.cli.screens.progress import output, show_json
    from isogloss_papers.published import published, table_names
    from isogloss_papers.recipe import CONTROLS, load_system, system_names

    tables = {name: published(name) for name in (_tables(asked, ()) if asked else table_names())}
    wanted = {*CONTROLS, *(name for table in tables.values() for name in table.systems)} if asked else {*system_names()}
    systems = {name: load_system(name) for name in system_names() if name in wanted}
    if as_json:
        show_json(
            {
                "tables": {name: {"title": one.title, "systems": list(one.systems)} for name, one in tables.items()},
                "systems": {
                    name: {"title": one.title, "paper": one.paper.how, "lab": one.lab.how} for name, one in systems.items()
                },
            }
        )
        return
    papers = [(name, str(len(one.rows)), one.paper.partition(", table")[0], one.title) for name, one in tables.items()]
    output.print(_listed(("table", "rows", "paper", "title"), papers))
    output.print()
    rows = [(name, one.paper.how, one.lab.how, one.title) for name, one in systems.items()]
    output.print(_listed(("system (--rows)", "paper", "lab", "title"), rows))
    output.print("\npaper, lab: how --scale paper and --scale lab make it;")
    output.print("published: not; only the paper's numbers are shown")


def _listed(names: tuple[str, ...], rows: "Sequence[tuple[str, ...]]") -> "Table":
    """A table whose last column may wrap; the others are never cut, however narrow the screen is."""
    from isogloss.cli.screens.progress import plain_table

    shown = plain_table(*names)
    for place, column in enumerate(shown.columns):
        column.min_width = max(len(names[place]), *(len(row[place]) for row in rows))
    last = shown.columns[-1]
    last.no_wrap, last.overflow, last.min_width = False, "fold", LEAST_TITLE
    for row in rows:
        shown.add_row(*row)
    return shown


def _show(result: "Reproduction", out: Path) -> None:
    from isogloss.cli.screens.progress import output
    from isogloss_papers.rendering import heading

    output.print(heading(result), style="dim")
    for part in _parts(result, output.width):
        output.print(part)
    for text in _notes(result):
        output.print(text)
    output.print(f"\nThe table: {out / (result.table + '.md')}")


def _parts(result: "Reproduction", room: int) -> "Iterator[Table]":
    """The table for a screen: if its columns do not fit, in several parts that all have the row names."""
    from rich.table import Table

    from isogloss_papers.rendering import OURS, lines

    shown = [line for line in lines(result) if not line.why]
    texts = [[cell.replace(" (", "\n").replace(" to ", "–").rstrip(")") for cell in line.cells] for line in shown]
    widths = [
        max(len(part) for text in (name, *(row[place] for row in texts)) for part in text.split("\n"))
        for place, name in enumerate(result.columns)
    ]
    label = min(MOST_LABEL, max((len(line.label) for line in shown), default=1))
    first, title = 0, f"{result.table}: {result.title}"
    while first < len(widths):
        last, used = first + 1, label + WHOSE + widths[first] + 1
        while last < len(widths) and used + widths[last] + 1 <= room:
            used += widths[last] + 1
            last += 1
        table = Table(title=title, title_justify="left", header_style="bold", box=None, padding=(0, 1, 0, 0))
        table.add_column("", min_width=label, max_width=label)
        table.add_column("", no_wrap=True, min_width=WHOSE - 2)
        for name, width in zip(result.columns[first:last], widths[first:last], strict=True):
            table.add_column(name, justify="right", no_wrap=True, min_width=width)
        for line, cells in zip(shown, texts, strict=True):
            style = "bold" if line.whose == OURS else ""
            table.add_row(line.label, line.whose, *cells[first:last], style=style)
        yield table
        first, title = last, f"{result.table}, continued"


def _show_in_markdown(result: "Reproduction") -> None:
    from isogloss.cli.screens.progress import output
    from isogloss_papers.rendering import markdown

    output.print(markdown(result), soft_wrap=True)


def _notes(result: "Reproduction") -> list[str]:
    """The data behind our rows, why some are missing, what differs from the paper, and the outcome of its claims."""
    from isogloss_papers.rendering import notes_of

    numbered, rows = notes_of(result.rows), list({row.system: row for row in result.rows}.values())
    lines = [""]
    for row in (one for one in rows if any(one.ours)):
        marks = "".join(f"[{numbered[one]}]" for one in row.differs)
        learnt = f"; learnt from {row.data}" if row.data else ""
        lines.append(f"{row.label}: {row.backbone}{learnt}{f'; {row.pairs} pairs' if row.pairs else ''} {marks}".rstrip())
    lines += [f"{row.label}: not made: {row.why}" for row in rows if row.why]
    lines += ["", f"Note: {result.differs}."] if result.differs else [""]
    lines += [f"[{place}] {sentence}" for sentence, place in numbered.items()]
    return [*lines, "", *(f"{one.verdict}: {one.says} ({one.numbers})" for one in result.claims)]
