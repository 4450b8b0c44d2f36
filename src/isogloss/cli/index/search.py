"""`isogloss index search`: the documents nearest to a query."""

from typing import Annotated

from typer import Argument, Option

from isogloss.cli.options import IndexModelOption, IndexOption, JsonFlag


def search(
    index: IndexOption,
    model: IndexModelOption,
    queries: Annotated[list[str] | None, Argument(metavar="QUERY", help="What to search for.")] = None,
    file: Annotated[str, Option("--queries", metavar="FILE", help="File with one query per line, or - for stdin.")] = "",
    k: Annotated[int, Option("-k", min=1, metavar="N", help="Documents per query.")] = 10,
    prompt: Annotated[str, Option("--prompt", metavar="TEXT", help="Text to prepend to every query.")] = "",
    json: JsonFlag = False,
) -> None:
    """Search an index with a model.

    isogloss index search -i docs.npy -m runs/mine "Wo ist der Bahnhof?"

    isogloss index search -i docs.faiss -m runs/mine --queries fragen.txt --json
    """
    from dataclasses import asdict

    from isogloss.cli.screens.hits import show_hits
    from isogloss.cli.screens.progress import progress, show_json
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
    else:
        show_hits(found)
