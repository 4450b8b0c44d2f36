"""Plain lines in each of their layouts, under every packing: what is written comes back, each pair with its line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from parallel import PAIRS, few, packings, put, rows

Pairs = list[tuple[str, str]]


def columns(name: str, between: str) -> Callable[[Path, Pairs, str], Path]:
    """Both sides on a line."""
    return lambda folder, pairs, packing: put(folder / name, "".join(f"{s}{between}{t}\n" for s, t in pairs), packing)


def halves(folder: Path, pairs: Pairs, packing: str) -> Path:
    """One file a side, with different line ends."""
    put(folder / "news.de-en.de", "".join(f"{target}\r\n" for _, target in pairs), packing)
    return put(folder / "news.de-en.en", "".join(f"{source}\n" for source, _ in pairs), packing)


WRITERS: dict[str, Callable[[Path, Pairs, str], Path]] = {
    "tsv": columns("en-de.tsv", "\t"),
    "moses": halves,
    "muse": columns("en-de.txt", " "),
    "muse with tabs": columns("en-de.txt", "\t"),
    "muse with wide gaps": columns("en-de.txt", "  "),
}


@packings
@pytest.mark.parametrize("writer", list(WRITERS))
@few
@given(pairs=PAIRS)
def test_pairs_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, packing: str, writer: str, pairs: list[tuple[str, str]]
) -> None:
    pairs = [("first", "erste"), *pairs]  # or a first line could pass for a header
    path = WRITERS[writer](tmp_path_factory.mktemp("x"), pairs, packing)
    found = rows(path, format=writer.split()[0])
    assert [(row["source"], row["target"], row["line"]) for row in found] == [(*pair, n) for n, pair in enumerate(pairs, 1)]
    assert {(row["language"], row["split"], row["score"]) for row in found} == {("de", "", None)}
