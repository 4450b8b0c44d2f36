"""Lines over an axis: read back, they go through the numbers; labels keep clear of each other and of the frame."""

import math
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.report.line_chart import BOTTOM, LEFT, RIGHT, TOP, Axis, Line, line_chart

finite = st.floats(-1e6, 1e6).map(lambda value: round(value, 4))


@given(finite, st.floats(1e-3, 1e6), st.integers(2, 14))
def test_ticks_are_round_evenly_spaced_and_told_apart(low: float, room: float, most: int) -> None:
    axis = Axis(low, low + room)
    ticks = axis.ticks(most)
    assert 1 <= len(ticks) <= most + 1
    assert all(axis.low - 1e-6 * room <= value <= axis.high + 1e-6 * room for value, _ in ticks)
    gaps = [after - before for (before, _), (after, _) in pairwise(ticks)]
    assert all(gap == pytest.approx(gaps[0], rel=1e-3) for gap in gaps)
    assert len({text for _, text in ticks}) == len(ticks)
    for value, text in ticks:
        assert float(text.replace(",", "")) == pytest.approx(value, abs=1e-6 * room + 1e-9)


def test_ticks_that_a_person_would_choose() -> None:
    assert [text for _, text in Axis(0, 1, lambda value, _: f"{100 * value:.0f} %").ticks(5)] == [
        *("0 %", "20 %", "40 %", "60 %", "80 %", "100 %"),
    ]
    assert [text for _, text in Axis(0.98, 1.14).ticks(4)] == ["1.00", "1.05", "1.10"]
    assert [text for _, text in Axis(0, 3245).ticks(4)] == ["0", "1,000", "2,000", "3,000"]
    assert Axis.around([1.5]).low < 1.5 < Axis.around([1.5]).high


def drawn(room: int = 400, mark: tuple[float, str] | None = (1.05, "chosen")) -> Element:
    line = Line("train", [(1.0, 0.2), (1.05, 0.6), (1.1, 1.0)], ["a <b>", "", "c"])
    return ElementTree.fromstring(line_chart([line], Axis(1.0, 1.1), Axis(0, 1), "a picture", "score", room, 200, mark))


def test_a_line_goes_through_its_points() -> None:
    picture = drawn()
    (path,) = picture.iter("path")
    points = [tuple(map(float, one.split())) for one in path.get("d", "")[1:].split("L")]
    right, bottom = 400 - RIGHT, 200 - BOTTOM
    assert points[0] == pytest.approx((LEFT, bottom - 0.2 * (bottom - TOP)), abs=0.1)
    assert points[1] == pytest.approx(((LEFT + right) / 2, bottom - 0.6 * (bottom - TOP)), abs=0.1)
    assert points[2] == pytest.approx((right, TOP), abs=0.1)
    assert [title.text for title in picture.iter("title")] == ["a <b>", None, "c"]
    assert picture.get("aria-label") == "a picture" and path.get("stroke") == "var(--train)"


def test_the_mark_stands_at_its_value_or_not_at_all() -> None:
    (mark,) = [one for one in drawn().iter("line") if one.get("data-kind") == "mark"]
    assert float(mark.get("x1", "0")) == pytest.approx((LEFT + 400 - RIGHT) / 2, abs=0.1)
    for absent in (None, (2.0, "chosen"), (math.inf, "chosen")):
        assert not [one for one in drawn(mark=absent).iter("line") if one.get("data-kind") == "mark"]


@pytest.mark.parametrize("room", [374, 1170])
@pytest.mark.parametrize("place", [1.0, 1.03, 1.05, 1.1])
def test_no_label_lies_on_another(room: int, place: float) -> None:
    boxes = []
    for text in drawn(room, (place, "chosen: 1.0155")).iter("text"):
        width, x = 6.5 * len(text.text or ""), float(text.get("x", "0"))
        left = x - width * {"start": 0, "middle": 0.5, "end": 1}[text.get("text-anchor", "start")]
        boxes.append((left, float(text.get("y", "0")) - 9, left + width, float(text.get("y", "0")) + 2, text.text))
    assert len(boxes) >= 7
    for number, (left, top, right, bottom, name) in enumerate(boxes):
        assert left >= -1 and right <= room + 1, name
        for other in boxes[number + 1 :]:
            assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top, (name, other[4])
