"""Errors that a user can act on.

The library never prints and never exits: it raises one of these, and the command line shows its message and hint and exits with
code 2. Any other exception is a bug in isogloss and keeps its traceback.
"""

from importlib import import_module
from typing import Any

from isogloss.shown import masked, printable

LONGEST = 2000  # characters of a message


class IsoglossError(Exception):
    """A problem that the user can solve: `message` says what happened and where, `hint` what to do.

    Both may quote file names, addresses and server responses: control characters are escaped, keys and passwords are masked,
    and long text is cut.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = (masked(printable(text))[:LONGEST] for text in (message, hint))
        super().__init__(self.message)


class DataError(IsoglossError):
    """Input that cannot be used: a missing file, a wrong column, a broken encoding, empty text."""


class ModelError(IsoglossError):
    """A model that cannot be loaded, or whose embeddings cannot be used: NaN, wrong dimension, unknown layout."""


class RecipeError(IsoglossError):
    """An invalid recipe or override: unknown key, wrong type, impossible value."""


def optional_package(module: str, missing: IsoglossError) -> Any:  # noqa: ANN401 - an untyped module
    """Import a package that is not one of our dependencies; raise `missing` if it is not installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing from error
