"""`isogloss reproduce`: a table of the papers, made and measured here, the paper's figures beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from isogloss.papers.reproduce import Reproduction


def reproduce(
    table: Annotated[str, Argument(metavar="TABLE", help="rg-table-1 … rg-table-8, hk-table-1 … hk-table-4.")] = "",
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
    """Reproduce a table of the papers: make its systems, measure them, and print them beside the paper's figures.

    isogloss reproduce rg-table-2 --data ../shared/data --out reproduced

    isogloss reproduce --list
    """
    from isogloss.cli.options import as_languages
    from isogloss.errors import IsoglossError

    if list_:
        return _list(json)
    if not table:
        raise IsoglossError("no table is named", hint="isogloss reproduce --list shows them")
    import isogloss
    from isogloss.cli.screen import output, progress, show_json
    from isogloss.papers.pictures import picture
    from isogloss.papers.rendering import markdown as in_markdown
    from isogloss.storage import write_json, write_text

    with progress() as bars:
        result = isogloss.reproduce(
            table,
            scale,
            data,
            out,
            as_languages(rows),
            models,
            device,
            set_ or (),
            resamples,
            on_progress=bars,
        )
    drawn = picture(result)
    write_json(out / f"{table}.json", result.as_dict())
    write_text(out / f"{table}.md", in_markdown(result, [f"{table}.svg"] if drawn else []))
    if drawn:
        write_text(out / f"{table}.svg", drawn)
    if json:
        show_json(result.as_dict())
    elif markdown:
        output.print(in_markdown(result), highlight=False, markup=False, soft_wrap=True)
    else:
        _show(result, out)


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
        output.print(f"{name:<12} {table.title} ({table.paper}; {len(table.rows)} rows)", highlight=False, markup=False)
    output.print()
    for name, one in systems.items():
        told = f"{name:<40} {one.title:<42} paper: {one.paper.how:<10} lab: {one.lab.how}"
        output.print(told, highlight=False, markup=False, soft_wrap=True)


def _show(result: "Reproduction", out: Path) -> None:
    from rich.markup import escape
    from rich.table import Table

    from isogloss.cli.screen import output
    from isogloss.papers.rendering import OURS, heading, lines

    shown = Table(title=escape(f"{result.table}: {result.title}"), title_justify="left", header_style="bold", box=None)
    for place, name in enumerate(("", "", *result.columns)):
        shown.add_column(escape(name), justify="left" if place < 2 else "right", no_wrap=place > 1)
    for line in lines(result):
        cells = [escape(cell.replace(" (", "\n").replace(" to ", "–").rstrip(")")) for cell in line.cells]
        if not line.why:
            shown.add_row(escape(line.label), line.whose, *cells, style="bold" if line.whose == OURS else "")
    output.print(heading(result), highlight=False, markup=False, style="dim")
    output.print(shown)
    for text in _told(result):
        output.print(text, highlight=False, markup=False)
    output.print(f"\nThe table: {out / (result.table + '.md')}", highlight=False, markup=False)


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
