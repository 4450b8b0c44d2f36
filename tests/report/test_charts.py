"""Charts: their numbers are where they belong, by reading the drawn shapes back; labels do not cover each other."""

import math
from itertools import pairwise
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.report.charts import (
    BOTTOM,
    LEFT,
    LEVELS,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Line,
    Scale,
    Spot,
    bar,
    heat_map,
    histogram,
    line_chart,
    step,
)


def shapes(element: Element, kind: str) -> list[dict[str, float]]:
    keys = ("x", "y", "width", "height")
    return [{key: float(one.get(key, "0")) for key in keys} for one in element.iter("rect") if one.get("class") == kind]


@given(st.integers(1, 10**9), st.lists(st.integers(1, 10**9), max_size=20))
def test_counts_have_colours_in_their_order(largest: int, numbers: list[int]) -> None:
    scale = Scale.counts(largest)
    levels = [scale.level(number) for number in sorted(numbers)]
    assert levels == sorted(levels) and all(1 <= level <= LEVELS for level in levels)
    assert scale.level(largest) == LEVELS and len(scale.bounds) < LEVELS


def test_a_legend_names_the_colours_that_occur() -> None:
    scale = Scale.counts(59_423)
    assert scale.bounds == (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
    assert (scale.level(10), scale.level(11), scale.level(30_001)) == (1, 2, 9)
    shown = ElementTree.fromstring(scale.legend(smallest=5000))
    assert ["".join(key.itertext()) for key in shown] == ["≤ 10,000", "≤ 30,000", "> 30,000"]
    assert "".join(ElementTree.fromstring(Scale.counts(1).legend(1)).itertext()) == "all"
    assert "≤ 0.1 %" in Scale.shares([0.001, 0.5]).legend(0.0)


def test_a_heat_map_has_a_spot_where_it_was_put() -> None:
    spots = [Spot(0, 1, 9, "large <&>", "88"), Spot(2, 0, 1, "small")]
    drawn = ElementTree.fromstring(heat_map(["one", "two", "three"], ["a", "b"], spots, "a picture", room=400))
    assert drawn.get("aria-label") == "a picture"
    assert [title.text for title in drawn.iter("title")] == ["large <&>", "small"]
    (strong,), (faint,) = shapes(drawn, "heat-9"), shapes(drawn, "heat-1")
    rows = shapes(drawn, "stripe")
    assert strong["y"] == rows[0]["y"] and faint["y"] == rows[2]["y"] and strong["x"] > faint["x"] == rows[0]["x"]
    assert {"one", "two", "three", "a", "b", "88"} == {text.text for text in drawn.iter("text")}
    assert rows[-1]["y"] + rows[-1]["height"] <= float(drawn.get("height", "0"))


@pytest.mark.parametrize(("languages", "room"), [(2, 374), (86, 1170), (18, 374)])
def test_a_heat_map_keeps_to_its_room(languages: int, room: int) -> None:
    names = [f"l{number}" for number in range(languages)]
    drawn = ElementTree.fromstring(heat_map(["some_corpus"] * 3, names, [], "sizes", room))
    assert float(drawn.get("width", "0")) <= room + 2
    assert len([text for text in drawn.iter("text") if text.text in names]) == languages, "every column has its label"


def test_labels_stand_where_they_would_run_into_each_other() -> None:
    flat = heat_map(["x"], ["de", "fr"], [], "few", 400)
    upright = heat_map(["x"], ["Korean_news", "fr"], [], "long", 400)
    assert "rotate" not in flat and upright.count("rotate(-90)") == 2


def test_a_bar_is_as_long_as_its_share() -> None:
    drawn = ElementTree.fromstring(bar([(30, "train"), (10, "test"), (0, "none")], 80, "forty"))
    (train,), (test,) = shapes(drawn, "train"), shapes(drawn, "test")
    assert train["width"] == WIDTH * 30 / 80 == test["x"] and test["width"] == WIDTH * 10 / 80
    assert not shapes(drawn, "none") and drawn.findtext("title") == "forty"
    (least,) = shapes(ElementTree.fromstring(bar([(1, "train")], 10**9)), "train")
    assert least["width"] > 0, "what is there is seen"


def test_steps_of_a_waterfall_meet() -> None:
    """From 1,000 down to 940 by 50 and 10, on an axis from 900."""
    every = [step(*ends, 900, 1000, "x", "") for ends in ((0, 1000), (950, 1000), (940, 950), (0, 940))]
    whole, first, second, rest = (shapes(ElementTree.fromstring(one), "x")[0] for one in every)
    assert whole["width"] == WIDTH and first["x"] + first["width"] == WIDTH
    assert second["x"] + second["width"] == pytest.approx(first["x"])
    assert rest["x"] == 0 and rest["width"] == pytest.approx(second["x"])
    torn = [bool(shapes(ElementTree.fromstring(one), "tear")) for one in every]
    assert torn == [True, False, False, True]
    assert "tear" not in step(0, 10, 0, 10, "x", "")


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=15))
def test_columns_of_a_histogram_are_as_high_as_their_counts(counts: list[int]) -> None:
    drawn = ElementTree.fromstring(histogram(counts, [f"{count} of them" for count in counts]))
    columns = shapes(drawn, "column")
    for count, column in zip(counts, columns, strict=True):
        assert (column["height"] > 0) == (count > 0)
        if count * 30 > max(counts):
            assert column["height"] == pytest.approx(100 * count / max(counts), rel=1e-3)
            assert column["y"] + column["height"] == pytest.approx(100, rel=1e-3)
    assert [title.text for title in drawn.iter("title")] == [f"{count} of them" for count in counts]


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
