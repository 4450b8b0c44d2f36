"""Numbers with their nouns."""

import pytest

from isogloss.corpora.amounts import amount, size


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


def test_bytes_are_said_in_the_unit_that_fits() -> None:
    assert [size(one) for one in (0, 1023, 1536, 5 * 2**20, 3 * 2**31, 2**43)] == [
        "0 bytes",
        "1,023 bytes",
        "1.5 KiB",
        "5.0 MiB",
        "6.0 GiB",
        "8,192.0 GiB",
    ]
