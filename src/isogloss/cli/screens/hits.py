"""How `isogloss index search` shows what it found: a line per document, cut to the width of the screen."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from isogloss.cli.screens.progress import output
from isogloss.index.search_index import QueryResult

WIDTH, SHORTEST_TEXT = 80, 20


def show_hits(results: Sequence[QueryResult]) -> None:
    """The documents of each query; the query itself is shown if there are several."""
    for place, result in enumerate(results):
        output.print("\n" * bool(place) + "\n".join(_lines(result, len(results) > 1, _width())))


def _width() -> int:
    return output.width if output.is_terminal else WIDTH


def _lines(result: QueryResult, with_query: bool, width: int) -> list[str]:
    """One line per document: rank, score, id and as much of the text as fits."""
    lines = [_cut(result.query, width)] if with_query else []
    names = [_cut(match.id, width // 3) for match in result.matches]
    widest = max(map(_columns, names), default=0)
    for rank, (match, name) in enumerate(zip(result.matches, names, strict=True), 1):
        head = f"{rank:>3}  {match.score:>7.4f}  {name}{' ' * (widest - _columns(name))}  "
        lines.append((head + _cut(" ".join((match.text or "").split()), width - _columns(head))).rstrip())
    return lines if result.matches else [*lines, "nothing found"]


def _columns(text: str) -> int:
    return cell_len(text)


def _cut(text: str, columns: int) -> str:
    """A text that takes at most so many columns of the screen; what is cut ends with an ellipsis."""
    cut = Text(text)
    cut.truncate(max(columns, SHORTEST_TEXT), overflow="ellipsis")
    return cut.plain
