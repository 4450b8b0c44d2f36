"""Sizes as people write them."""

import pytest

from isogloss.errors import RecipeError
from isogloss.exporting.budget.megabytes import in_megabytes, parse_budget


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("60MB", 60_000_000),
        ("60 mb", 60_000_000),
        ("57.5MiB", 60_293_120),
        ("1.5GB", 1_500_000_000),
        (" .5 GiB ", 536_870_912),
        ("900kb", 900_000),
        ("2.KiB", 2048),
    ],
)
def test_sizes(text: str, count: int) -> None:
    assert parse_budget(text) == count


@pytest.mark.parametrize(
    "text", ["", "60", "MB", "-60MB", "60 MBit", "6 0MB", "0MB", "0.0001KB", "1e3MB", "nanMB", "9" * 30 + "MB"]
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(RecipeError, match="is not a size") as refused:
        parse_budget(text)
    assert "60MB" in refused.value.hint


def test_in_words() -> None:
    assert in_megabytes(59_960_000) == "60.0 MB" and in_megabytes(1_234_567_890) == "1,234.6 MB"
