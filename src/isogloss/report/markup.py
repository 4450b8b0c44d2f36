"""SVG and small pieces of HTML from Python, in which text from data can never become markup. Pages are in `templates/`.

A plain `str` is always escaped; only what `tag` and `join` return is `Markup`, and passes as it is. The result is also
well-formed XML, so a test can parse what a browser shows.
"""

import re
from collections.abc import Iterable

import markupsafe
from markupsafe import Markup as Markup

VOID = frozenset({"br", "rect", "line", "path", "circle"})
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")

Attribute = str | int | float


def xml_text(value: object) -> object:
    """Text without characters that XML cannot hold; markup and everything else as it is."""
    return _NOT_XML.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


def escape(text: str) -> Markup:
    """Text with markup characters escaped; `Markup` as it is."""
    return markupsafe.escape(xml_text(text))


def join(pieces: Iterable[str], between: str = "") -> Markup:
    """One piece after the other."""
    return escape(between).join(map(escape, pieces))


def tag(name: str, /, *content: str, **attributes: Attribute) -> Markup:
    """An element. Attributes are written as Python allows: `class_` for class, `aria_label` for aria-label."""
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    if name in VOID:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def _value(value: Attribute) -> str:
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:.1f}"
    return escape(str(value))
