"""HTML and SVG by small pieces, in which text from data can never become markup.

A plain `str` is always escaped; only what `tag` and `join` return is `Markup`, and passes as it is. The result is also
well-formed XML, so a test can parse what a browser shows.
"""

import html
import re
from collections.abc import Iterable

VOID = frozenset({"meta", "link", "br", "hr", "img", "col", "rect", "line", "path", "circle"})
_UNSHOWABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # XML has no way to write these

Attribute = str | int | float | bool | None


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Text as it is to be read, whatever it holds; markup stays what it is."""
    return text if isinstance(text, Markup) else Markup(html.escape(_UNSHOWABLE.sub("\ufffd", text), quote=True))


def join(pieces: Iterable[str], between: str = "") -> Markup:
    """One piece after the other."""
    return Markup(escape(between).join(escape(piece) for piece in pieces))


def tag(name: str, /, *content: str, **attributes: Attribute) -> Markup:
    """An element. Attributes are written as Python allows: `class_` for class, `aria_label` for aria-label.

    One that is None or False is left out, one that is True has no value of its own; numbers are written short.
    """
    given = {key: value for key, value in attributes.items() if value is not None and value is not False}
    written = "".join(f' {_name(key)}="{_value(key, value)}"' for key, value in given.items())
    if name in VOID:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(content)}</{name}>")


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(key: str, value: Attribute) -> str:
    if value is True:
        return _name(key)
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:.1f}"
    return escape(str(value))
