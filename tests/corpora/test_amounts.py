"""Numbers with their nouns."""

import pytest

from isogloss.corpora.amounts import amount


@pytest.mark.parametrize(
    ("number", "nouns", "said"),
    [
        (1, ("line",), "1 line"),
        (0, ("line",), "0 lines"),
        (1204, ("corpus", "corpora"), "1,204 corpora"),
        (1, ("a", "b"), "1 a"),
    ],
)
def test_one_and_many(number: int, nouns: tuple[str, ...], said: str) -> None:
    assert amount(number, *nouns) == said
