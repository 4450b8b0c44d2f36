"""Numbers with their nouns, and lengths of time; and that messages get both from here."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import isogloss
from isogloss.amounts import amount, duration, size


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


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (260, "4 min 20 s"),
        (599.4, "9 min 59 s"),
        (599.6, "10 min"),
        (1575, "26 min"),
        (3569, "59 min"),
        (3571, "1 h"),
        (7500, "2 h 5 min"),
        (86369, "23 h 59 min"),
        (86371, "1 d"),
        (100_000, "1 d 4 h"),
    ],
)
def test_a_length_of_time_is_said_in_at_most_two_units_that_fit_it(seconds: float, said: str) -> None:
    assert duration(seconds) == said


NOUNS = (
    "bytes|candidates|checks|columns|copies|corpora|dimensions|epochs|examples|figures|files|GPUs|languages|layers|lines"
    "|machines|minutes|models|numbers|pairs|parts|pieces|points|processes|questions|rounds|rows|seconds|sentences|sets"
    "|sources|steps|stores|systems|tables|tasks|texts|times|tokens|vectors|words"
)
BESIDE_A_PLURAL = re.compile(rf" (?:[a-z-]+ )?(?:{NOUNS})\b")
# What stands in braces there is no count, or a count that is never 1: large by nature, or shown only when it is more.
EXCEPTIONS = {
    "history.suspicious",
    "len(found)",
    "len(vectors)",
    "processes",
    "failures",
    "self.losses[worst]",
    "training.accumulate",
    "growth['rows_after']",
    "student.trimming.rows_after",
    "trimming.rows_after",
    "MAX_LINE",
    "number",  # bytes
}
NO_COUNTS = {"points", "per_unit", "value", "name", "where", "empty", "end", "row.pairs", "training.batch_pairs"}
NO_COUNTS |= {"wish.entry.name", "summary.source_language", "settings.vocabulary_kind", "type(body).__name__"}
NO_COUNTS |= {"', '.join(map(str, BINS[first:]))", "shown", "model.name", "stored", "found", "own", "language"}
# Always more than one, or numbers with decimals.
NO_COUNTS |= {"built.dimension", "form.dimension", "self.dimension", "candidate.rows", "prepared.tokens", "self.seconds"}
NO_COUNTS |= {"self.speed", "abs(average.points)", "artifact.lost", "of", "whole", "result.all_layers", "form.layers or 'no'"}


def _counts_beside_plurals(path: Path) -> Iterator[str]:
    """Every value in braces that is followed by a noun in the plural."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            for value, text in pairwise(node.values):
                shown = ast.unparse(value.value) if isinstance(value, ast.FormattedValue) else ""
                plural = isinstance(text, ast.Constant) and BESIDE_A_PLURAL.match(str(text.value))
                if shown and plural and not shown.startswith("amount("):
                    yield shown


def test_no_message_puts_a_number_beside_a_plural_without_asking_how_many() -> None:
    root = Path(isogloss.__file__).parent
    found = {(path.name, one) for path in root.rglob("*.py") for one in _counts_beside_plurals(path)}
    assert {one for _, one in found} >= EXCEPTIONS, "what is not there any more is no exception"
    assert {place for place in found if place[1] not in EXCEPTIONS | NO_COUNTS} == set(), "use isogloss.amounts.amount"


def test_bytes_are_said_in_the_unit_that_fits() -> None:
    assert [size(one) for one in (0, 1023, 1536, 5 * 2**20, 3 * 2**31, 2**43)] == [
        "0 bytes",
        "1,023 bytes",
        "1.5 KiB",
        "5.0 MiB",
        "6.0 GiB",
        "8,192.0 GiB",
    ]
