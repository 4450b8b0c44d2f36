"""The page next to mined pairs: the curve, the files, the model, and pairs to read."""

import math
import re
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from isogloss.mining.calibration import Calibration
from isogloss.report.mined_page import Curve, mined_page, shown_places
from isogloss.types import FloatArray


def curve(points: int) -> Calibration:
    thresholds = np.linspace(1.2, 1.0, points)
    return Calibration(
        thresholds, np.arange(1, points + 1) * 10, np.linspace(1, 0.4, points), without_translation=0.62, least=0.9
    )


FACTS = [("model", "runs/mine"), ("source", "news.en: 3 sentences")]


def pairs(rows: int, scores: FloatArray | None = None) -> pa.Table:
    numbers = [str(row) for row in range(rows)]
    texts = {name: [f"{name} <{row}>" for row in numbers] for name in ("source", "target")}
    scores = np.linspace(1.2, 1.0, rows, dtype=np.float32) if scores is None else scores
    return pa.table({"score": pa.array(scores), **texts, "source_id": numbers, "target_id": numbers})


def page_of(title: str, curves: list[Curve], rows: int) -> str:
    return mined_page(title, FACTS, pairs(rows), ("en", "de"), curves)


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>\n"))


def test_a_page_is_well_formed_and_has_the_chosen_threshold() -> None:
    calibration = curve(50)
    chosen = float(calibration.thresholds[20])
    text = page_of("pairs & <more>.tsv", [Curve("", calibration, chosen)], 208)
    page = read(text)
    assert page.findtext("head/title") == "pairs & <more>.tsv"
    figures = {div.findtext("span"): div.findtext("b") for div in page.iterfind("body/header/div/div")}
    share = 100 * calibration.precision[20]
    assert figures["pairs kept"] == "208" and figures["candidates"] == "500" and figures["threshold"] == f"{chosen:.4f}"
    assert figures["estimated precision"] == f"{share:.1f} %"
    assert len(list(page.iter("path"))) == 4, "two pictures, for a screen and for a phone"
    assert "62.0 % of the sentences have no translation" in text and f"{chosen:.4f} ←" in text
    assert not re.search(r"(src|href)=\"(?!#)", text), "it needs nothing else"


def test_the_highest_threshold_is_on_the_right() -> None:
    (path, *_) = read(page_of("x", [Curve("", curve(9), 1.1)], 3)).iter("path")
    points = [tuple(map(float, one.split())) for one in path.get("d", "")[1:].split("L")]
    assert points == sorted(points) and points[-1][1] < points[0][1], "precision rises with the threshold, and y falls"


def test_several_languages_and_nothing_good_enough() -> None:
    curves = [Curve("de", curve(5), math.inf), Curve("fr", curve(1), 1.2), Curve("ru", curve(0), math.inf)]
    text = page_of("x", curves, 0)
    page = read(text)
    assert [section.findtext("h2") for section in page.iter("section")] == [
        "Files and model",
        "Precision, de",
        "Precision, fr",
        "Precision, ru",
    ]
    assert text.count("No threshold reaches the precision") == 2 and text.count("chosen: 1.2000") == 4


def test_shown_places_are_spread_and_have_the_chosen_one() -> None:
    places = shown_places(curve(200), float(curve(200).thresholds[57]))
    assert places == sorted(places) and {0, 57, 199} <= set(places) and len(places) == 13
    assert shown_places(curve(0), 1.0) == [] and shown_places(curve(3), 9.0) == [0, 1, 2]


def test_the_page_names_its_files_and_shows_pairs() -> None:
    scores = np.random.default_rng(0).permutation(np.linspace(1, 2, 100)).astype(np.float32)
    page = read(mined_page("x", FACTS, pairs(100, scores), ("en", "he"), []))
    facts = {"".join(row[0].itertext()): "".join(row[1].itertext()) for row in page.iter("tr") if row[0].get("scope") == "row"}
    assert facts == dict(FACTS)
    blocks = {div.findtext("h3"): list(div.iter("li")) for div in page.iter("div") if div.find("h3") is not None}
    order = np.argsort(-scores)
    for title, rows in (("Highest scores", order[:10]), ("Lowest scores that were kept", order[-10:])):
        assert [item[0].text for item in blocks[title]] == [f"source <{row}>" for row in rows]
        assert [item[2].text for item in blocks[title]] == [f"score {scores[row]:.4f}, {row} ↔ {row}" for row in rows]
    assert len(blocks["Random pairs"]) == 10
    assert {item[1].get("lang") for item in blocks["Random pairs"]} == {"he"}
    few = read(mined_page("x", FACTS, pairs(4), ("en", "he"), []))
    assert len(list(few.iter("li"))) == 4 and not list(few.iter("path")), "each once, and no curve where nothing was estimated"
