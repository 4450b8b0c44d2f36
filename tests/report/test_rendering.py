"""Templates: whatever data holds, it is read back as text by an XML parser and by an HTML parser."""

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from isogloss.report.rendering import render_macro

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


def legend(kind: str, label: str) -> Markup:
    return render_macro("charts.html", "legend", keys=[(kind, label)])


@given(ANY, ANY)
def test_any_text_comes_back_as_text(text: str, attribute: str) -> None:
    written = legend(attribute, text)
    shown, said = ("".join("\ufffd" if c < " " and c not in "\t\n" else c for c in one) for one in (text, attribute))
    (key,) = ElementTree.fromstring(written)
    assert "".join(key.itertext()) == shown and [part.tag for part in key] == ["i"]
    heard = Heard(written)
    assert heard.text.strip("\n") == shown.strip("\n") and heard.tags[-1] == ("i", {"class": said})


@pytest.mark.parametrize("bad", ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "a & b", "]]>", "</style>"])
def test_markup_in_data_is_only_shown(bad: str) -> None:
    heard = Heard(legend(bad, bad))
    assert [name for name, _ in heard.tags] == ["p", "span", "i"] and heard.text.strip() == bad


def test_what_xml_cannot_say_is_marked() -> None:
    assert "</i>a\ufffdb\ufffd\ufffdc</span>" in legend("x", "a\x00b\x1b\ud800c")


def test_markup_is_not_escaped_twice_and_text_always_once() -> None:
    assert "</i><code>&lt;</code></span>" in legend("x", Markup("<code>&lt;</code>"))
    assert "</i>&lt;</span>" in legend("x", "<")
