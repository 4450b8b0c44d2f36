"""`isogloss index`: build, search and check a vector index, in a file or a database."""

from collections.abc import Callable

import typer

from isogloss.cli.index.build import build
from isogloss.cli.index.check import check
from isogloss.cli.index.search import search

app = typer.Typer(
    name="index",
    help="Keep your vector index: build, search and check it.\n\n"
    'isogloss index search -i docs.npy -m runs/mine "Wo ist der Bahnhof?"',
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS: dict[str, Callable[..., None]] = {"build": build, "search": search, "check": check}
