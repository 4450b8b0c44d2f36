"""Markup: whatever data holds, it is read back as text by an XML parser and by an HTML parser."""

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.report.markup import Markup, escape, join, tag

ANY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\ufffe\uffff"), max_size=30)


class Heard(HTMLParser):
    """What a browser would see: tags with attributes, and text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@given(ANY, ANY)
def test_any_text_comes_back_as_text(text: str, attribute: str) -> None:
    written = tag("p", text, title=attribute)
    shown, said = ("".join("\ufffd" if c < " " and c not in "\t\n" else c for c in one) for one in (text, attribute))
    parsed = ElementTree.fromstring(written)
    assert (parsed.text or "") == shown and not list(parsed)
    heard = Heard(written)
    assert heard.text == shown and heard.tags == [("p", {"title": said})]


@pytest.mark.parametrize("bad", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "]]>", "</style>"])
def test_markup_in_data_is_only_shown(bad: str) -> None:
    heard = Heard(tag("div", tag("b", bad), bad, class_=bad))
    assert [name for name, _ in heard.tags] == ["div", "b"] and heard.text == bad + bad


def test_what_xml_cannot_say_is_marked() -> None:
    assert escape("a\x00b\x1b\ud800c") == "a\ufffdb\ufffd\ufffdc"


def test_markup_is_not_escaped_twice_and_text_always_once() -> None:
    assert tag("p", tag("b", "<"), "&") == "<p><b>&lt;</b>&amp;</p>"
    assert join(["<", Markup("<br/>")], " & ") == "&lt; &amp; <br/>"
    assert isinstance(escape(Markup("<i>")), Markup) and escape(Markup("<i>")) == "<i>"


def test_attributes() -> None:
    assert tag("rect", x=0, y=0.125, class_="a", aria_label="b") == '<rect x="0" y="0.125" class="a" aria-label="b"/>'
    assert tag("div") == "<div></div>", "only empty elements of HTML may close themselves"
