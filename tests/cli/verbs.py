"""Every verb of the command line with its options, as typer has them."""

from typing import Any

import typer

from isogloss.cli.app import app


def options() -> dict[str, set[str]]:
    """Long options by verb; `corpora get` is a verb of its own."""
    found: dict[str, set[str]] = {}

    def walk(name: str, command: Any) -> None:  # noqa: ANN401 - a click command, of whichever click typer has
        for part, own in getattr(command, "commands", {}).items():
            walk(f"{name} {part}".strip(), own)
        if not hasattr(command, "commands"):
            named = {text for one in command.params for text in (*one.opts, *one.secondary_opts)}
            found[name] = {text for text in named if text.startswith("--")} | {"--help", "--debug"}

    walk("", typer.main.get_command(app))
    return found
