"""Orderings: seen, seen within the error, not seen, not measured."""

import pytest

from isogloss_papers.claims import NOT_SEEN, SEEN, UNDECIDED, UNKNOWN, WITHIN, judge
from isogloss_papers.published import Claim

Figures = dict[tuple[str, str], tuple[float, float, float]]


def verdict(claim: Claim, figures: Figures) -> tuple[str, str]:
    found = judge(claim, lambda system, column: figures.get((system, column)), str.upper)
    assert found.says == claim.says
    return found.verdict, found.numbers


ORDER = Claim(says="a > b > c", column="Avg.", order=("a", "b", "c"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([(70, 68, 72), (60, 58, 62), (50, 48, 52)], SEEN),
        ([(70, 61, 79), (60, 58, 62), (50, 48, 52)], WITHIN),
        ([(70, 70, 70), (60, 60, 60), (50, 50, 50)], SEEN),
        ([(60, 58, 62), (70, 68, 72), (50, 48, 52)], NOT_SEEN),
        ([(70, 68, 72), (50, 48, 52), (50, 48, 52)], UNDECIDED),
        ([(70, 68, 72), (50, 48, 52), (51, 49, 53)], UNDECIDED),
        ([(60, 58, 62), (70, 68, 72), (71, 69, 73)], NOT_SEEN),
        ([(70, 68, 72), (60, 58, 62), None], UNKNOWN),
    ],
)
def test_an_order(values: list[tuple[float, float, float] | None], expected: str) -> None:
    figures = {(name, "Avg."): value for name, value in zip("abc", values, strict=True) if value is not None}
    found, numbers = verdict(ORDER, figures)
    assert found == expected
    assert numbers.startswith("Avg.: A ") and (" > " in numbers) == (expected in (SEEN, WITHIN))


def test_numbers_are_told_as_the_papers_print_them() -> None:
    claim = Claim(says="less bias", column="Difference", order=("a", "b"))
    _, numbers = verdict(claim, {("a", "Difference"): (-0.11, -0.2, 0), ("b", "Difference"): (-12.3, -14, -10)})
    assert numbers == "Difference: A −0.11 > B −12.3"


GAIN = Claim(says="more for x", gain={"from": "a", "to": "b", "more": "x", "less": "y"})


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (((40, 39, 41), (70, 69, 71)), ((70, 69, 71), (75, 74, 76)), SEEN),
        (((40, 30, 50), (40, 30, 50)), ((52, 42, 62), (50, 40, 60)), WITHIN),
        (((40, 39, 41), (40, 39, 41)), ((50, 49, 51), (60, 59, 61)), NOT_SEEN),
        (((40, 30, 50), (40, 30, 50)), ((50, 40, 60), (52, 42, 62)), UNDECIDED),
    ],
)
def test_a_gain(
    start: tuple[tuple[float, float, float], ...], end: tuple[tuple[float, float, float], ...], expected: str
) -> None:
    figures = {("a", "x"): start[0], ("a", "y"): start[1], ("b", "x"): end[0], ("b", "y"): end[1]}
    found, numbers = verdict(GAIN, figures)
    assert found == expected and numbers.startswith(f"x {end[0][0] - start[0][0]:+.1f}, y {end[1][0] - start[1][0]:+.1f}")
    assert verdict(GAIN, {key: value for key, value in figures.items() if key != ("b", "y")})[0] == UNKNOWN
