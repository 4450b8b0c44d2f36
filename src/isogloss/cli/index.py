"""`isogloss index`: build, search and check a vector index, in a file or a database."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from isogloss.cli.index_check import check
from isogloss.cli.options import MODEL_HELP, JsonFlag, one_of, settings_as_options
from isogloss.config.indexing import BuildSettings

if TYPE_CHECKING:
    from isogloss.index.search_index import QueryResult

app = typer.Typer(
    name="index",
    help="Keep your vector index: build, search and check it.\n\n"
    'isogloss index search -i docs.npy -m runs/mine "Wo ist der Bahnhof?"',
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
IndexOption = Annotated[
    str, Option("--index", "-i", metavar="ADDRESS", help="File (docs.npy, docs.faiss, …) or database (qdrant:URL#NAME, …).")
]
ModelOption = Annotated[str, Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)]
PromptOption = Annotated[str, Option("--prompt", metavar="TEXT", help="Text to prepend to every query.")]
WIDTH, SHORTEST_TEXT = 80, 20


@settings_as_options(BuildSettings, skip=["existing"], prompt={"metavar": "TEXT"})
def build(
    documents: Annotated[list[str], Argument(metavar="DOCS", help="Documents: .txt .tsv .jsonl .csv .parquet, with ids.")],
    index: IndexOption,
    model: ModelOption,
    values: dict[str, Any],
    replace: Annotated[bool, Option("--replace", help="Overwrite an index that isogloss built.")] = False,
    append: Annotated[bool, Option("--append", help="Add to an index that isogloss built; equal ids are replaced.")] = False,
    json: JsonFlag = False,
) -> None:
    """Build an index of documents.

    isogloss index build docs.jsonl -m all-MiniLM-L6-v2 -i index/docs.npy

    isogloss index build d.tsv -m runs/mine -i "postgresql://me@host/db?table=docs"
    """
    from dataclasses import asdict

    from isogloss.cli.screens.progress import progress, say, show_json
    from isogloss.index.building.build import build_index, summary
    from isogloss.models.encoders.open import refuse_missing

    existing = one_of("refuse", {"--replace": replace, "--append": append})
    refuse_missing([model])
    with progress() as bars:
        built = build_index(model, documents, index, BuildSettings(**values | {"existing": existing}), bars)
    if json:
        show_json(asdict(built))
    else:
        say(summary(built))


def search(
    index: IndexOption,
    model: ModelOption,
    queries: Annotated[list[str] | None, Argument(metavar="QUERY", help="What to search for.")] = None,
    file: Annotated[str, Option("--queries", metavar="FILE", help="File with one query per line, or - for stdin.")] = "",
    k: Annotated[int, Option("-k", min=1, metavar="N", help="Documents per query.")] = 10,
    prompt: PromptOption = "",
    json: JsonFlag = False,
) -> None:
    """Search an index with a model.

    isogloss index search -i docs.npy -m runs/mine "Wo ist der Bahnhof?"

    isogloss index search -i docs.faiss -m runs/mine --queries fragen.txt --json
    """
    from dataclasses import asdict

    from isogloss.cli.screens.progress import output, progress, show_json
    from isogloss.corpora.reading.readers import read_lines
    from isogloss.errors import IsoglossError
    from isogloss.index.open import open_index
    from isogloss.index.search_index import search_index
    from isogloss.models.encoders.open import open_encoder, refuse_missing

    asked = list(queries or []) + ([line for line in read_lines(file) if line] if file else [])
    if not asked:
        raise IsoglossError("there are no queries", hint='write "a query" after the options, or name a file: --queries FILE')
    refuse_missing([model])
    with progress() as bars, open_index(index) as opened:
        found = search_index(open_encoder(model, prompt=prompt), asked, opened, k, bars)
    if json:
        show_json([asdict(result) for result in found])
        return
    for place, result in enumerate(found):
        output.print("\n" * bool(place) + "\n".join(_lines(result, len(found) > 1, _width())))


VERBS: dict[str, Callable[..., None]] = {"build": build, "search": search, "check": check}


def _width() -> int:
    from isogloss.cli.screens.progress import output

    return output.width if output.is_terminal else WIDTH


def _lines(result: "QueryResult", with_query: bool, width: int) -> list[str]:
    """One line per document: rank, score, id and as much of the text as fits."""
    lines = [_cut(result.query, width)] if with_query else []
    names = [_cut(match.id, width // 3) for match in result.matches]
    widest = max(map(_columns, names), default=0)
    for rank, (match, name) in enumerate(zip(result.matches, names, strict=True), 1):
        head = f"{rank:>3}  {match.score:>7.4f}  {name}{' ' * (widest - _columns(name))}  "
        lines.append((head + _cut(" ".join((match.text or "").split()), width - _columns(head))).rstrip())
    return lines if result.matches else [*lines, "nothing found"]


def _columns(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)


def _cut(text: str, columns: int) -> str:
    """A text that takes at most so many columns of the screen; what is cut ends with an ellipsis."""
    from rich.text import Text

    cut = Text(text)
    cut.truncate(max(columns, SHORTEST_TEXT), overflow="ellipsis")
    return cut.plain
