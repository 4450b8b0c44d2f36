"""Comparisons as tables: for the screen, Markdown, and LaTeX in the layout of the papers.

Rows are models and columns test sets, with the average last, as in Reimers & Gurevych's tables 1–3 and 7 and Ham & Kim's 1–3.
Scores are × 100 with one digit. A star marks a significant difference from the baseline. Wide tables are transposed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from isogloss.amounts import amount
from isogloss.corpora.reading.languages import canonical
from isogloss.evaluation.compare import Column, Comparison, Score, ScoreTable
from isogloss.evaluation.tasks.bias import DIFFERENCE

WIDEST = 13  # columns that fit on a page
STAR = "*"
MOST_NAMED = 5  # corpora
_TEX = str.maketrans(
    {"&": r"\&", "%": r"\%", "#": r"\#", "_": r"\_", "$": r"\$", "{": r"\{", "}": r"\}", "→": r"$\rightarrow$", "−": "$-$"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "ρ": r"$\rho$", "×": r"$\times$"}
)
_CAPTIONS = {
    "Spearman of cosine": "Spearman rank correlation ρ × 100 of the cosine of two sentence vectors and the gold score.",
    "F1": "F1 score of mined pairs × 100.",
    "accuracy, both directions": "Accuracy × 100 of finding the translation, both directions averaged.",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A label, its cells, and which of them are the best of their column."""

    label: str
    cells: tuple[str, ...]
    best: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """A table as text."""

    title: str
    corner: str
    header: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    measure: str


Form = Callable[[Score, str], str]


def grids(comparison: Comparison, cell: Form | None = None, widest: int = WIDEST) -> list[Grid]:
    """Every table of a comparison; `cell` formats a score. Tables with more columns than `widest` are transposed.

    A transposed table with further metrics has a column per metric, or is one table per metric if there are several models.
    """
    return [grid for table in comparison.tables for grid in _grids(table, comparison, cell or plain_cell, widest)]


def short_names(models: Sequence[str]) -> tuple[str, ...]:
    """The shortest ends of the models' paths that distinguish them."""
    for parts in range(1, 8):
        short = tuple(name if ":" in name else "/".join(name.rstrip("/").split("/")[-parts:]) for name in models)
        if len(set(short)) == len(set(models)):
            return short
    return tuple(models)


def plain_cell(cell: Score, column: str) -> str:
    """A score × 100, with a star if it differs significantly from the baseline."""
    return score_text(cell.value, column) + (STAR if cell.difference and cell.difference.significant else "")


def with_interval(cell: Score, column: str, form: str = " ({} to {})") -> str:
    """The same with its interval, if it has one."""
    span = "" if cell.interval is None else form.format(*(score_text(value, column) for value in cell.interval))
    return plain_cell(cell, column) + span


def score_text(value: float, column: str = "") -> str:
    """A number × 100 with one digit; differences with two digits and a sign."""
    return f"{100 * value:+.2f}".replace("-", "−") if column == DIFFERENCE else f"{100 * value:.1f}"


def _grids(table: ScoreTable, comparison: Comparison, cell: Form, widest: int) -> list[Grid]:
    first = table.columns[0]
    further = tuple(first.cells[0].further)
    if not further or len(table.columns) <= widest:
        return [_grid(table, comparison, cell, widest)]
    if len(comparison.models) > 1:
        return [_grid(one, comparison, cell, widest) for one in (table, *(_by_metric(table, name) for name in further))]
    lines = []
    for column in table.columns:
        scores = (column.cells[0], *(column.cells[0].further[name] for name in further))
        lines.append(Line(column.name, tuple(cell(one, column.name) for one in scores), (False,) * len(scores)))
    title = f"{short_names(comparison.models)[0]}: {table.title}"
    notes = ("all × 100", *_notes(table, comparison)[1:])
    return [Grid(title, "", (first.measure, *further), tuple(lines), notes, first.measure)]


def _by_metric(table: ScoreTable, name: str) -> ScoreTable:
    """The table of a further metric alone."""
    columns = []
    for column in table.columns:
        scores = (cell.further[name] for cell in column.cells)
        cells = (
            replace(cell, value=score.value, interval=score.interval, difference=score.difference, others={}, further={})
            for cell, score in zip(column.cells, scores, strict=True)
        )
        columns.append(replace(column, measure=name, cells=tuple(cells), shown=()))
    return ScoreTable(f"{table.title}: {name}", tuple(columns))


def _grid(table: ScoreTable, comparison: Comparison, cell: Form, widest: int) -> Grid:
    names, notes, first = short_names(comparison.models), _notes(table, comparison), table.columns[0]
    written = [[cell(one, column.name) for one in column.cells] for column in table.columns]
    best = [_best(column) for column in table.columns]
    header = tuple(column.name for column in table.columns)
    if len(header) > widest:
        lines = [Line(name, tuple(row), tuple(mark)) for name, row, mark in zip(header, written, best, strict=True)]
        return Grid(table.title, "", names, tuple(lines), notes, first.measure)
    lines = []
    for place, name in enumerate(names):
        lines.append(Line(name, tuple(row[place] for row in written), tuple(row[place] for row in best)))
        others = [column.cells[place].others for column in table.columns]
        for measure in first.shown:  # a direction, a precision: below the model's own line
            if all(measure in own for own in others):
                lines.append(Line(f"  {measure}", tuple(score_text(own[measure]) for own in others), (False,) * len(others)))
        for measure in first.cells[place].further:
            cells = tuple(cell(column.cells[place].further[measure], column.name) for column in table.columns)
            lines.append(Line(f"  {measure}", cells, (False,) * len(cells)))
    return Grid(table.title, "Model", header, tuple(lines), notes, first.measure)


def _best(column: Column) -> list[bool]:
    """Which cells have the highest score, or the smallest difference; none if there is only one model."""
    values = [round(-abs(cell.value) if column.name == DIFFERENCE else cell.value, 3) for cell in column.cells]
    return [len(values) > 1 and value == max(values) for value in values]


def _notes(table: ScoreTable, comparison: Comparison) -> tuple[str, ...]:
    """The metric, the baseline, and the leak scan of each model."""
    first = table.columns[0]
    notes = [f"{first.measure}, × 100"]
    if comparison.baseline is not None and first.cells[0].interval is not None:
        base = short_names(comparison.models)[comparison.baseline]
        notes.append(
            f"{STAR} differs from {base}: the 95 % interval of {amount(comparison.resamples, 'paired resample')} excludes 0"
        )
    notes += list(dict.fromkeys(f"{column.name}: {column.note}" for column in table.columns if column.note))
    for place, model in enumerate(comparison.models):
        corpora = _named(comparison.facts[place].get("learnt_from") or ())
        notes.append(f"leak scan of the training text of {model}{corpora}: {_leaks(table, place)}")
    return tuple(notes)


def _named(names: Sequence[str]) -> str:
    """The names of the first few corpora in parentheses, and how many more there are."""
    if not names:
        return ""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f" ({', '.join(names[:MOST_NAMED])}{more})"


def _leaks(table: ScoreTable, place: int) -> str:
    states: dict[str, list[str]] = {}
    for column in table.columns:
        states.setdefault(column.cells[place].leaks, []).append(column.name)
    if len(states) == 1:
        return next(iter(states))
    return "; ".join(f"{state} for {', '.join(names)}" for state, names in states.items())


def markdown(comparison: Comparison) -> str:
    """All tables in Markdown, with intervals."""
    return "\n".join(_markdown(grid) for grid in grids(comparison, with_interval))


def _markdown(grid: Grid) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    lines = [f"### {grid.title}", "", row([grid.corner, *map(_md, grid.header)]), "|---|" + "---:|" * len(grid.header)]
    for line in grid.lines:
        cells = [f"**{_md(cell)}**" if best else _md(cell) for cell, best in zip(line.cells, line.best, strict=True)]
        lines.append(row([_md(line.label).replace("  ", "&emsp;"), *cells]))
    return "\n".join([*lines, "", *(f"- {_md(note)}" for note in grid.notes), ""])


def _md(text: str) -> str:
    """Text with Markdown's special characters escaped."""
    return re.sub(r"([|*\\])", r"\\\1", text)


def latex(comparison: Comparison) -> str:
    """All tables in LaTeX (booktabs), as in the papers, with the best scores in bold."""
    return "\n".join(map(_latex, grids(comparison)))


def _latex(grid: Grid) -> str:
    header = " & ".join(r"\textbf{" + _tex(one) + "}" for one in (grid.corner, *map(_as_printed, grid.header)))
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{l{'r' * len(grid.header)}}}", r"\toprule"]
    lines += [header + r" \\", r"\midrule"]
    for line in grid.lines:
        cells = [rf"\textbf{{{_tex(cell)}}}" if best else _tex(cell) for cell, best in zip(line.cells, line.best, strict=True)]
        label = (r"\quad " if line.label.startswith(" ") else "") + _tex(line.label.strip())
        lines.append(" & ".join([label, *cells]) + r" \\")
    caption = f"{grid.title}. {_CAPTIONS.get(grid.measure, f'{grid.measure}, × 100.')}"
    if any(STAR in cell for line in grid.lines for cell in line.cells):
        caption += " " + next(note for note in grid.notes if note.startswith(STAR)) + "."
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", rf"\caption{{{_tex(caption)}}}", r"\end{table}", ""])


def _as_printed(column: str) -> str:
    """`en-ar` as EN-AR, `kat` as KA; other names unchanged."""
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z]{2,3})?", column):
        return column
    return "-".join(canonical(code).upper() for code in column.split("-"))


def _tex(text: str) -> str:
    return text.translate(_TEX)
