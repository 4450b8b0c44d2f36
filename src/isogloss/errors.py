"""What isogloss raises when a person can do something about it.

The library never prints and never exits: it raises one of these, and `cli/` turns it into a sentence, a hint and
exit code 2. Anything else that escapes is a bug of ours and keeps its traceback.
"""

from isogloss.shown import masked, printable

LONGEST = 2000  # characters of a message


class IsoglossError(Exception):
    """A problem the user can act on: `message` says what happened and where, `hint` what to do about it.

    Both may quote file names, addresses and answers of servers: control characters are escaped, keys and passwords masked,
    and nothing is longer than a person reads.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message, self.hint = (masked(printable(text))[:LONGEST] for text in (message, hint))
        super().__init__(self.message)


class DataError(IsoglossError):
    """Input text that cannot be used: a missing file, a wrong column, a broken encoding, an empty side."""


class ModelError(IsoglossError):
    """A model that cannot be loaded, or whose vectors cannot be used: NaN, wrong dimension, unknown layout."""


class RecipeError(IsoglossError):
    """A recipe or an override that does not say anything sensible: unknown key, wrong type, impossible value."""
