"""Fill in the templates of `templates/`: text from data is escaped, and what comes out is also well-formed XML."""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from isogloss.amounts import amount

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(template: str, **values: object) -> Markup:
    """A template filled in. Every value that is not `Markup` is escaped."""
    return Markup(_environment().get_template(template).render(**values))


def render_page(template: str, **values: object) -> str:
    """A template that extends `page.html`: one HTML file that contains everything it shows, without scripts or fonts."""
    style = Markup((files("isogloss.report") / "templates" / "page.css").read_text(encoding="utf-8"))  # ours: not escaped
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()  # by which the page allows this style alone
    return render(template, style=style, digest=digest, **values)


def render_macro(template: str, macro: str, /, **values: object) -> Markup:
    """One macro of a template filled in, as `render` does."""
    return Markup(getattr(_environment().get_template(template).module, macro)(**values))


def named(corpus: str) -> str:
    """The name of a corpus; pairs given from Python may have none."""
    return corpus or "(no name)"


def number(value: int) -> str:
    """A count with thousands separators."""
    return f"{value:,}"


def percent(share: float) -> str:
    """A share in percent that never rounds to 0 % or 100 % unless it is."""
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{100 * share:.0f} %" if share in (0, 1) else f"{100 * share:.1f} %"


def _finalize(value: object) -> object:
    """Text without characters that XML cannot hold; coordinates rounded to what a screen can show."""
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:.1f}"
    return _NOT_XML.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("isogloss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"amount": amount, "named": named, "number": number, "percent": percent}
    return environment
