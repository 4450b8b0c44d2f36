"""A number of megabytes as people write it: "60MB", "57.2 MiB", "1.5GB"."""

import re

from isogloss.errors import RecipeError

UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30}
LARGEST = 10.0**15
_FORM = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]+)\s*", re.IGNORECASE | re.ASCII)


def parse_budget(text: str) -> int:
    """The number of bytes."""
    found = _FORM.fullmatch(text)
    unit = UNITS.get(found.group(2).lower()) if found else None
    number = float(found.group(1)) * unit if found and unit else 0.0
    if not 1 <= number <= LARGEST:
        raise RecipeError(f"--budget {text!r} is not a size", hint="write a number with MB, MiB, GB or GiB, such as 60MB")
    return int(number)


def in_megabytes(count: float) -> str:
    """`in_megabytes(59_960_000)` is "60.0 MB"; never rounded to a size that it does not fit into."""
    return f"{count / 1e6:,.1f} MB"
