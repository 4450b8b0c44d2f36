"""Fill in the templates of `templates/`: text from data is escaped, and what comes out is also well-formed XML."""

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def render(template: str, **values: object) -> Markup:
    """A template filled in. Every value that is not `Markup` is escaped."""
    return Markup(_environment().get_template(template).render(**values))


def render_macro(template: str, macro: str, /, **values: object) -> Markup:
    """One macro of a template filled in, as `render` does."""
    return Markup(getattr(_environment().get_template(template).module, macro)(**values))


def _finalize(value: object) -> object:
    """Text without characters that XML cannot hold; coordinates rounded to what a screen can show."""
    if isinstance(value, float):
        return f"{value:.4g}" if value < 1000 else f"{value:.1f}"
    return _NOT_XML.sub("\ufffd", value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("isogloss.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
