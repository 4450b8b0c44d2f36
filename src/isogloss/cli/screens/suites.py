"""Print a comparison of models on a terminal."""

from functools import partial

from rich.table import Table
from rich.text import Text

from isogloss.cli.screens.progress import output, plain_table
from isogloss.evaluation.compare import Comparison
from isogloss.evaluation.tables import Grid, grids, short_names, with_interval

CELL = 10  # "83.7–90.6" and a space


def show(comparison: Comparison) -> None:
    """Every table, with intervals below the scores, and its notes."""
    label = max(map(len, short_names(comparison.models)))
    for grid in grids(comparison, partial(with_interval, form="\n{}–{}"), max(3, (output.width - label) // CELL)):
        output.print(_table(grid))
        for note in grid.notes:
            output.print(note, style="dim")
        output.print()


def _table(grid: Grid) -> Table:
    table = plain_table(grid.corner, *(f">{name}" for name in grid.header), title=grid.title, gap=1)
    for line in grid.lines:
        table.add_row(line.label, *map(_marked, line.cells, line.best))
    return table


def _marked(cell: str, best: bool) -> Text:
    """The score, bold if it is the best, and its interval dimmed."""
    number, _, span = cell.partition("\n")
    shown = Text(number, style="bold" if best else "", justify="right")
    return shown.append(f"\n{span}", style="dim" if not best else "not bold dim") if span else shown
