"""The mutation benchmark changes what it says it changes, one thing at a time, and nothing that only people read."""

import ast
import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
CODE = '''"""A text with 1 number."""
LIMIT: int = 3  # über


def kept(values: "list[int]", most: float = -1) -> int:
    """At most 5."""
    total = 0
    for value in values:
        if value < LIMIT and not value % 2:
            total |= value
            values.append(1 if value else 0)
    if total:
        raise ValueError(f"{total + 1} is too much")
    return total + 1
'''
CHANGES = [
    (2, "3 → 4"),
    (5, "-1 → 0"),
    (7, "0 → 1"),
    (9, "value < LIMIT → (value <= LIMIT)"),
    (9, "value < LIMIT and not value % 2 → (value < LIMIT or not value % 2)"),
    (9, "not value % 2 → (value % 2)"),
    (9, "value % 2 → (value * 2)"),
    (9, "2 → 3"),
    (10, "total |= value → total = value"),
    (11, "values.append(1 if value else 0) → pass"),
    (11, "1 if value else 0 → (0 if value else 1)"),
    (11, "1 → 2"),
    (11, "0 → 1"),
    (14, "total + 1 → (total - 1)"),
    (14, "1 → 2"),
]


def test_every_change_is_one_of_the_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = runpy.run_path(str(BENCHMARKS / "mutating.py"))["mutants"](CODE)
    assert sorted((one.line, one.change) for one in found) == sorted(CHANGES)
    lines = CODE.splitlines()
    for one in found:
        ast.parse(one.source)
        changed = [
            place for place, pair in enumerate(zip(lines, one.source.splitlines(), strict=True), 1) if pair[0] != pair[1]
        ]
        assert changed == [one.line]


def test_the_files_that_are_mutated_and_their_tests_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    matched = runpy.run_path(str(BENCHMARKS / "mutations.py"))["MATCHED"]
    tests, source = BENCHMARKS.parent / "tests", BENCHMARKS.parent / "src" / "isogloss"
    missing = [name for name in matched if not (source / name).is_file()]
    missing += [test for named in matched.values() for test in named if not (tests / test).is_file()]
    assert matched and missing == []
