"""The page of a certificate: whole, with every number and verdict, and text from data only as text."""

from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from isogloss.report import charts
from isogloss.report.index_check_page import index_check_page

MINIMUMS = {"first_found": 0.9, "overlap": 0.5}


def certificate(**changes: Any) -> dict[str, Any]:  # noqa: ANN401
    def language(share: float, level: str) -> dict[str, Any]:
        scores = {
            name: [share, share - 0.1, share + 0.05] for name in ("overlap", "first_found", "same_first", "rbo", "cosine")
        }
        verdict = {"level": level, "why": f"why {level}", "advice": "" if level == "ship" else "advice <here>"}
        return {"queries": 1234, "with_gold": 0, "scores": scores, "verdict": verdict, "missed": []}

    languages = {"de": language(0.95, "ship"), "ru": language(0.3125, "do not ship"), "en": language(0.9, "ship with care")}
    return {
        "date": "2026-01-02",
        "verdict": {"level": "do not ship", "why": "ru fails", "advice": "leave it out"},
        "index": {
            "address": "qdrant:https://***@host#docs<b>",
            "kind": "qdrant",
            "size": 98765,
            "dimension": 384,
            "metric": "dot",
            "unit_norm": False,
            "exact": False,
            "sample": "0123456789abcdefXYZ",
            "built_with": "teach",
        },
        "made_by_teacher": {"text": "the same vectors", "advice": "do this"},
        "findings": [{"level": "warning", "message": "a finding", "hint": "a hint"}],
        "teacher": {"name": "teach", "fingerprint": "f" * 32, "dimension": 384, "prompt": "query: ", "scores": {}},
        "student": {"name": "pupil", "fingerprint": "e" * 32, "dimension": 384, "prompt": ""},
        "queries": {"name": "q.tsv", "hash": "a" * 32, "source_language": "en", "count": 2000, "with_gold": 0},
        "settings": {"k": 7, "care": 0.1},
        "languages": languages,
        "average": {"queries": 2468, "scores": language(0.631, "ship")["scores"]},
        "command": "isogloss index check --index X",
        "versions": {"isogloss": "0.1.0"},
        **changes,
    }


MISS = {
    "query": "q7",
    "source": "Where is <it>?",
    "text": "Где это?",
    "overlap": 0.125,
    "teacher_id": "d1",
    "teacher_text": "long " * 60,
    "student_id": "d2",
    "student_text": "other",
}


def text_of(element: Element | None) -> str:
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def test_everything_is_on_the_page() -> None:
    written = index_check_page(certificate(), MINIMUMS, {"ru": [MISS], "de": [{**MISS, "student_id": "d1"}]})
    page = ElementTree.fromstring(written)
    assert text_of(page.find("body/header/h1")) == "Can this model search qdrant:https://***@host#docs<b>?"
    badge = page.find("body/header/p[@class='badge dropped']")
    assert text_of(badge) == "✗ do not ship"
    whole = text_of(page)
    for part in (
        *("ru fails", "What to do: leave it out", "63.1 %", "98,765", "overlap at 7", "the same vectors. → do this"),
        *(
            "a finding. → a hint",
            "prompt “query: ”",
            "0123456789abcdef",
            "not normalized",
            "approximate",
            "built by isogloss with teach",
            "q.tsv: 2,000",
        ),
        *("isogloss index check --index X", "2026-01-02", "why do not ship. → advice <here>", "isogloss 0.1.0"),
        *("teacher's first result in the first 7 of at least 90.0 % and overlap at 7 of at least 50.0 %", "10 points less"),
        *(
            "built by isogloss with teach",
            "Where is <it>?",
            "Где это?",
            "q7: 12.5 % in common",
            "The student finds d2: other",
            "The student finds the same",
        ),
    ):
        assert part in whole, part
    assert "0123456789abcdefX" not in whole and "why ship." not in whole, "languages that pass need no sentence"
    assert "kept recall" not in whole and "the teacher, in English" not in whole, "without gold"
    rows = {text_of(row.find("th")): row for row in page.iter("tr") if row.find("th[@scope='row']") is not None}
    assert {"de", "ru", "en", "average"} <= set(rows)
    opened = {text_of(one.find("summary")): one.get("open") for one in page.iter("details")}
    assert opened["ru"] == "open" and opened["de"] is None


def test_gold_has_its_own_columns() -> None:
    given = certificate()
    for own in (*given["languages"].values(), given["average"]):
        own["scores"] |= {"kept_recall": [0.5, 0.4, 0.6], "recall": [0.25, 0.2, 0.3], "mrr": [0.125, 0.1, 0.2]}
    given["teacher"]["scores"] = {"recall": [0.875, 0.8, 0.9], "mrr": [0.75, 0.7, 0.8]}
    whole = text_of(ElementTree.fromstring(index_check_page(given, {"kept_recall": 0.9}, {})))
    for part in ("kept recall at 7 of at least 90.0 %", "MRR at 7", "the teacher, in English", "0.875", "0.750"):
        assert part in whole, part
    assert "Where the student misses most" not in whole


def test_a_single_language_has_no_average_and_all_may_pass() -> None:
    given = certificate(average=None, verdict={"level": "ship", "why": "de passes", "advice": ""})
    given["languages"] = {"de": given["languages"]["de"]}
    whole = text_of(ElementTree.fromstring(index_check_page(given, MINIMUMS, {})))
    assert "All languages pass." in whole and "✓ ship" in whole and "What to do" not in whole and "95.0 %" in whole


@pytest.mark.parametrize("limit", [None, 0.8])
def test_an_interval_is_drawn_to_scale(limit: float | None) -> None:
    drawn = ElementTree.fromstring(charts.interval_bar(0.5, 0.4, 0.7, limit, "a & b"))
    assert text_of(drawn.find("title")) == "a & b"
    bars = {one.get("class"): (float(one.get("x") or 0), float(one.get("width") or 0)) for one in drawn.iter("rect")}
    assert bars["floor"] == (0, 1000) and bars["train"] == pytest.approx((400, 300))
    assert sum(bars["value"]) - bars["value"][1] / 2 == 500
    assert ("limit" in bars) is (limit is not None)
    if limit is not None:
        assert sum(bars["limit"]) - bars["limit"][1] / 2 == 800
    narrow = ElementTree.fromstring(charts.interval_bar(1, 1, 1, None, ""))
    assert [one.get("width") for one in narrow.iter("rect") if one.get("class") == "train"] == ["3"]
