"""The page beside mined pairs says what the curve says, and nothing where there is no curve."""

import math
import re
from xml.etree import ElementTree

import numpy as np

from isogloss.mining.calibration import Calibration
from isogloss.report.precision_page import Judged, precision_page, shown_places


def curve(points: int) -> Calibration:
    thresholds = np.linspace(1.2, 1.0, points)
    return Calibration(thresholds, np.arange(1, points + 1) * 10, np.linspace(1, 0.4, points), 0.62, 0.9)


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_a_page_is_well_formed_and_has_the_chosen_threshold() -> None:
    calibration = curve(50)
    chosen = float(calibration.thresholds[20])
    text = precision_page("pairs & <more>.tsv", [Judged("", calibration, chosen)], 208)
    page = read(text)
    assert page.findtext("head/title") == "pairs & <more>.tsv"
    figures = {div.findtext("span"): div.findtext("b") for div in page.iterfind("body/header/div/div")}
    share = 100 * calibration.precision[20]
    assert figures["pairs taken"] == "208" and figures["candidates"] == "500" and figures["threshold"] == f"{chosen:.4f}"
    assert figures["estimated to be right"] == f"{share:.1f} %"
    assert len(list(page.iter("path"))) == 4, "two pictures, for a screen and for a phone"
    assert "62.0 % of the sentences have no translation" in text and f"{chosen:.4f} ←" in text
    assert not re.search(r"(src|href)=\"(?!#)", text), "it needs nothing else"


def test_the_highest_threshold_is_on_the_right() -> None:
    (path, *_) = read(precision_page("x", [Judged("", curve(9), 1.1)], 3)).iter("path")
    points = [tuple(map(float, one.split())) for one in path.get("d", "")[1:].split("L")]
    assert points == sorted(points) and points[-1][1] < points[0][1], "precision rises with the threshold, and y falls"


def test_several_languages_and_nothing_good_enough() -> None:
    judged = [Judged("de", curve(5), math.inf), Judged("fr", curve(1), 1.2), Judged("ru", curve(0), math.inf)]
    text = precision_page("x", judged, 0)
    page = read(text)
    assert [section.findtext("h2") for section in page.iter("section")] == ["Precision, de", "Precision, fr", "Precision, ru"]
    assert text.count("No threshold seems to be as precise") == 2 and text.count("chosen: 1.2000") == 4


def test_shown_places_are_spread_and_have_the_chosen_one() -> None:
    places = shown_places(curve(200), float(curve(200).thresholds[57]))
    assert places == sorted(places) and {0, 57, 199} <= set(places) and len(places) == 13
    assert shown_places(curve(0), 1.0) == [] and shown_places(curve(3), 9.0) == [0, 1, 2]
