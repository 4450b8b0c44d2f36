"""The frame of a page: whole, alone, and readable."""

import base64
import hashlib
import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from markupsafe import Markup

from isogloss.report.charts import Axis, Line, Spot, heat_maps, line_chart
from isogloss.report.rendering import number, percent, render_macro, render_page


def page(title: str, lead: str, figures: list[tuple[str, str]], sections: list[tuple[str, str, str]]) -> str:
    return render_page("page.html", title=title, lead=lead, figures=figures, sections=sections)


def test_a_page_is_whole_and_needs_nothing_else() -> None:
    sections = [("one", "The first", Markup("<code>text</code>")), ("none", "Left out", ""), ("two", "The second", "<text>")]
    written = page("A <title>", "lead & all", [("1,234", "pairs")], sections)
    assert written.startswith("<!DOCTYPE html>\n")
    parsed = ElementTree.fromstring(written)
    assert parsed.findtext("head/title") == "A <title>" and parsed.findtext("body/header/p") == "lead & all"
    anchors = [link.get("href") for link in parsed.iter("a")]
    assert anchors == ["#one", "#two"] and [section.get("id") for section in parsed.iter("section")] == ["one", "two"]
    assert parsed.findtext("body/main/section/code") == "text" and "&lt;text&gt;" in written
    assert not [element.tag for element in parsed.iter() if element.tag in ("script", "link", "img", "iframe", "object")]
    assert not re.search(r"https?:|url\(|@import", written)
    assert "prefers-color-scheme: dark" in written and 'name="viewport"' in written


def test_a_table_has_its_headings_and_starts_closed_if_it_is_folded() -> None:
    def table(folded: str) -> Element:
        row = Markup("<tr>") + cell("name", "<a>") + cell("num", "1") + Markup("</tr>")
        columns = [("name", ""), ("count", "number")]
        drawn = render_macro("parts.html", "table", columns=columns, folded=folded, caller=lambda: row)
        return ElementTree.fromstring(f"<div>{drawn}</div>")

    parsed = table("")
    assert [["".join(cell.itertext()) for cell in row] for row in parsed.iter("tr")] == [["name", "count"], ["<a>", "1"]]
    assert [cell.get("class") for cell in parsed.iter("td")] == ["number"] and not list(parsed.iter("details"))
    assert [head.get("class") for head in parsed.iter("th")] == [None, "number", None]
    folded = table("more")
    assert folded.findtext("details/summary") == "more" and len(list(folded.iter("tr"))) == 2


def cell(kind: str, text: str) -> Markup:
    return render_macro("parts.html", kind, text=text)


def test_pairs_have_their_own_direction_and_language() -> None:
    sides = {"source": "שלום <b>", "target": "hello\x00 & all", "source_language": "he", "target_language": ""}
    spans = list(ElementTree.fromstring(render_macro("parts.html", "pair", **sides, where="corpus <i>, line 3")).iter("span"))
    assert [(span.text, span.get("dir"), span.get("lang")) for span in spans] == [
        ("שלום <b>", "auto", "he"),
        ("hello\ufffd & all", "auto", None),
        ("corpus <i>, line 3", None, None),
    ]


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0001, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.053, "5.3 %"),
        (0.9994, "99.9 %"),
        (0.9995, ">99.9 %"),
        (1, "100 %"),
    ],
)
def test_shares_never_round_to_nothing_or_everything(share: float, text: str) -> None:
    assert percent(share) == text
    assert number(1234567) == "1,234,567"


def test_a_heat_map_is_turned_and_without_numbers_on_a_phone() -> None:
    spots = [Spot(0, 1, 9, "here", "77")]

    def drawn(turn: bool) -> list[Element]:
        page = ElementTree.fromstring(f"<div>{heat_maps(['row'], ['one', 'two'], spots, 'what', turn=turn)}</div>")
        assert [one.get("class") for one in page] == ["scroll wide", "scroll narrow"]
        return list(page)

    def labels(picture: Element) -> list[str]:
        """The names of rows first, as they are drawn."""
        return ["".join(text.itertext()) for text in picture.iter("text")]

    for wide, narrow in (drawn(turn=True), drawn(turn=False)):
        assert labels(wide) == ["row", "one", "two", "77"] and "77" not in labels(narrow)
    assert labels(drawn(turn=True)[1]) == ["one", "two", "row"] and labels(drawn(turn=False)[1]) == ["row", "one", "two"]
    places = []
    for picture in (drawn(turn=True)[1], drawn(turn=False)[1]):
        stripes = [stripe for stripe in picture.iter("rect") if stripe.get("class") == "stripe"]
        (spot,) = [rect for rect in picture.iter("rect") if rect.get("class") == "heat-9"]
        places.append(
            (len(stripes), [stripe.get("y") for stripe in stripes].index(spot.get("y")), spot.get("x") == stripes[0].get("x"))
        )
    assert places == [(2, 1, True), (1, 0, False)], "in the second of two rows, or in the second column of one row"


def test_a_browser_may_load_nothing_but_the_style_sheet() -> None:
    written = page("t", "l", [], [("one", "The first", line())])
    parsed = ElementTree.fromstring(written)
    metas = [meta for meta in parsed.iter("meta") if meta.get("http-equiv") == "Content-Security-Policy"]
    assert metas[0] is list(parsed.find("head") or [])[1], "before anything that it is to hold for"
    policy = dict(one.strip().partition(" ")[::2] for one in (metas[0].get("content") or "").split(";"))
    digest = base64.b64encode(hashlib.sha256((parsed.findtext("head/style") or "").encode()).digest()).decode()
    assert policy == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert not [element for element in parsed.iter() if element.get("style")], "which allows no inline style"
    assert not [name for element in parsed.iter() for name in element.attrib if name.startswith("on")]


def line() -> Markup:
    drawn = [Line("train", [(0, 0), (1, 1)], ["a", "b"])]
    return line_chart(drawn, Axis(0, 1), Axis(0, 1), "name", "what", 300, 200, (0.5, "mark"))
