"""`isogloss reproduce`: a table of the papers, made and measured here, the paper's figures beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from isogloss.papers.reproduce import Reproduction


def reproduce(
    table: Annotated[
        str, Argument(metavar="TABLE", help="rg-table-1 … rg-table-8, hk-table-1 … hk-table-4, some with commas, or all.")
    ] = "",
    scale: Annotated[
        str, Option(metavar="paper|lab", help="The papers' models, corpora and steps; or what is small and at hand.")
    ] = "lab",
    data: Annotated[
        Path, Option("--data", metavar="FOLDER", help="Where training text and, in its folder eval, test sets are.")
    ] = Path("."),
    out: Annotated[Path, Option("--out", help="Folder for systems, pairs, scores and the table.")] = Path("reproduced"),
    rows: Annotated[str, Option("--rows", metavar="SYSTEM,…", help="Only these systems.")] = "",
    models: Annotated[
        Path | None, Option("--models", metavar="FOLDER", help="A folder whose subfolders stand for models of their name.")
    ] = None,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="VERB.KEY=VALUE", help="Override a setting, e.g. distil.training.epochs=2; repeatable."),
    ] = None,
    resamples: Annotated[int, Option(min=0, help="Draws of the bootstrap; 0: no intervals.")] = 10_000,
    list_: Annotated[bool, Option("--list", help="Show tables and systems, and make nothing.")] = False,
    json: JsonFlag = False,
    markdown: Annotated[bool, Option("--markdown", help="Print the table in Markdown.")] = False,
) -> None:
    """Reproduce tables of the papers: make their systems, measure them, and print them beside the papers' figures.

    isogloss reproduce rg-table-2 --data ../shared/data --out reproduced

    isogloss reproduce all --data ../shared/data --out reproduced

    isogloss reproduce --list
    """
    from isogloss.cli.options import as_languages

    if list_:
        return _list(json)
    import isogloss
    from isogloss.cli.screen import progress
    from isogloss.errors import DataError

    wanted = _tables(table, as_languages(rows))
    alone, results, failed = len(wanted) == 1, [], {}
    for name, chosen in wanted.items():
        strict = None if alone else False
        try:
            with progress() as bars:
                result = isogloss.reproduce(
                    name, scale, data, out, chosen, models, device, set_ or (), resamples, strict=strict, on_progress=bars
                )
        except DataError as error:  # such as a test set that is not there: other tables may have theirs
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
        told = "; ".join(f"{name}: {message}" for name, message in failed.items())
        raise DataError(f"{len(failed)} of {len(wanted)} tables were not made: {told}", hint="see --data; the others are there")


def _end(results: "list[Reproduction]", alone: bool, out: Path, json: bool) -> None:
    """What can only be said when all tables are there: JSON, and where their page is."""
    from isogloss.cli.screen import output, show_json

    if json:
        show_json(results[0].as_dict() if alone else {one.table: one.as_dict() for one in results})
    if not alone and results:
        place = _write_page(results, out)
        if not json:
            output.print(f"All of them on one page: {place}")


def _tables(asked: str, rows: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The tables that are asked for, and which of the wanted rows each has; of several, those that have none are left out."""
    from isogloss.cli.options import as_languages
    from isogloss.errors import IsoglossError
    from isogloss.papers.published import published, table_names
    from isogloss.papers.recipe import CONTROLS

    names = table_names() if asked == "all" else list(dict.fromkeys(as_languages(asked)))
    if not names:
        raise IsoglossError("no table is named", hint="isogloss reproduce --list shows them")
    has = {name: {*published(name).systems, *CONTROLS} for name in names}  # a name that is none is refused before work begins
    if len(names) == 1 or not rows:
        return dict.fromkeys(names, rows)
    for row in rows:
        if not any(row in systems for systems in has.values()):
            raise IsoglossError(f"none of these tables has a row {row}", hint="isogloss reproduce --list shows systems")
    found = {name: tuple(row for row in rows if row in systems) for name, systems in has.items()}
    return {name: own for name, own in found.items() if own}


def _write(result: "Reproduction", out: Path) -> None:
    """The table as JSON and as Markdown, and its picture."""
    from isogloss.papers.pictures import picture
    from isogloss.papers.rendering import markdown
    from isogloss.storage import json_text, write_text

    drawn = picture(result)
    write_text(out / f"{result.table}.json", json_text(result.as_dict()))
    write_text(out / f"{result.table}.md", markdown(result, [f"{result.table}.svg"] if drawn else []))
    if drawn:
        write_text(out / f"{result.table}.svg", drawn)


def _write_page(results: "list[Reproduction]", out: Path) -> Path:
    from isogloss.papers.rendering import page
    from isogloss.storage import write_text

    texts = [(out / f"{one.table}.md").read_text(encoding="utf-8") for one in results]
    lead = f"Made by `isogloss reproduce` at the {results[0].scale} scale: the papers' figures, and ours beside them."
    write_text(out / "tables.md", page(results, texts, lead))
    return out / "tables.md"


def _list(as_json: bool) -> None:
    from isogloss.cli.screen import output, show_json
    from isogloss.papers.published import published, table_names
    from isogloss.papers.recipe import load_system, system_names

    tables = {name: published(name) for name in table_names()}
    systems = {name: load_system(name) for name in system_names()}
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
    for name, table in tables.items():
        output.print(f"{name:<12} {table.title} ({table.paper}; {len(table.rows)} rows)")
    output.print()
    for name, one in systems.items():
        told = f"{name:<40} {one.title:<42} paper: {one.paper.how:<10} lab: {one.lab.how}"
        output.print(told, soft_wrap=True)


def _show(result: "Reproduction", out: Path) -> None:
    from rich.table import Table

    from isogloss.cli.screen import output
    from isogloss.papers.rendering import OURS, heading, lines

    shown = Table(title=f"{result.table}: {result.title}", title_justify="left", header_style="bold", box=None)
    for place, name in enumerate(("", "", *result.columns)):
        shown.add_column(name, justify="left" if place < 2 else "right", no_wrap=place > 1)
    for line in lines(result):
        cells = [cell.replace(" (", "\n").replace(" to ", "–").rstrip(")") for cell in line.cells]
        if not line.why:
            shown.add_row(line.label, line.whose, *cells, style="bold" if line.whose == OURS else "")
    output.print(heading(result), style="dim")
    output.print(shown)
    for text in _told(result):
        output.print(text)
    output.print(f"\nThe table: {out / (result.table + '.md')}")


def _show_in_markdown(result: "Reproduction") -> None:
    from isogloss.cli.screen import output
    from isogloss.papers.rendering import markdown

    output.print(markdown(result), soft_wrap=True)


def _told(result: "Reproduction") -> list[str]:
    """What our rows are, why some are not there, what differs from the paper, and what became of its claims."""
    from isogloss.papers.rendering import notes_of

    numbered, rows = notes_of(result.rows), list({row.system: row for row in result.rows}.values())
    told = [""]
    for row in (one for one in rows if any(one.ours)):
        marks = "".join(f"[{numbered[one]}]" for one in row.differs)
        learnt = f"; learnt from {row.data}" if row.data else ""
        told.append(f"{row.label}: {row.backbone}{learnt}{f'; {row.pairs} pairs' if row.pairs else ''} {marks}".rstrip())
    told += [f"{row.label}: not made: {row.why}" for row in rows if row.why]
    told += ["", f"Note: {result.differs}."] if result.differs else [""]
    told += [f"[{place}] {sentence}" for sentence, place in numbered.items()]
    return [*told, "", *(f"{one.verdict}: {one.says} ({one.numbers})" for one in result.claims)]
