"""What gettext's two formats share: the header entry, the language it names, and which plural form translates which text."""

import gettext
import re
from dataclasses import dataclass

from isogloss.corpora.formats.layout import language_unknown
from isogloss.corpora.formats.records import known_code
from isogloss.corpora.reading.languages import without_region
from isogloss.corpora.reading.sources import Source

_MANY = 5  # "%d files" is translated by the form that five files have


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The header of a catalogue: its language, and the forms for one and for many (-1: the last)."""

    language: str
    one: int = 0
    many: int = -1

    def pairs(self, text: str, plural: str | None, strings: dict[int, str]) -> list[tuple[str, str]]:
        """The pairs of one entry; none where it is not translated.

        Where one form serves all numbers, it translates the plural: its text has the place for the number.
        """
        if plural is None:
            return _translated([(text, strings.get(0, ""))])
        many = strings.get(max(strings, default=0) if self.many < 0 else self.many, "")
        one = strings.get(self.one, "")
        return _translated([(plural, many)] if one == many else [(text, one), (plural, many)])


def _translated(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(text, translation) for text, translation in pairs if text.strip() and translation.strip()]


def read_header(text: str, source: Source) -> Catalogue:
    """Understand the header entry's text; what the user or the file's name says of the language comes first."""
    fields = dict(
        (name.strip().lower(), value.strip())
        for name, colon, value in (line.partition(":") for line in text.split("\n"))
        if colon
    )
    told = without_region(fields.get("language", ""))
    language = source.language or (known_code(told) if told else "")
    if not language:
        raise language_unknown(source)
    one, many = _forms(fields.get("plural-forms", ""))
    return Catalogue(language, one, many)


def _forms(declaration: str) -> tuple[int, int]:
    found = re.search(r"plural\s*=\s*([^;]+)", declaration.partition(";")[2])
    try:
        form = gettext.c2py(found[1].strip()) if found else None
        return (form(1), form(_MANY)) if form else (0, -1)
    except (ValueError, ArithmeticError, RecursionError):
        return 0, -1
