"""`isogloss corpora`: list, download and inspect parallel corpora."""

from collections.abc import Callable

import typer

from isogloss.cli.corpora.get import get
from isogloss.cli.corpora.list import list_
from isogloss.cli.corpora.show import show

app = typer.Typer(
    name="corpora",
    help="List and download parallel corpora; inspect prepared stores.\n\nisogloss corpora list --lang en-de",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS: dict[str, Callable[..., None]] = {"list": list_, "get": get, "show": show}
