"""Translation memories (TMX): units with one variant per language.

Inline formatting (bpt, ept, ph, it, ut) is dropped with its content; text in hi is kept.
"""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from isogloss.corpora.formats.records import Record, gathered
from isogloss.corpora.formats.xml_units import Units, read_units
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code, is_source, same_language, without_region
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source

_FORMATTING = {"bpt", "ept", "ph", "it", "ut"}


class _Unit(NamedTuple):
    line: int
    variants: list[tuple[str, str]]  # language as written in the file, and text


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of the source with every other language, or with the one given by the user or the file's name.

    Units that lack one of them are counted and skipped.
    """
    return gathered(_records(source, faults), source.name, faults)


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """All texts of every unit, each with its language."""
    return (unit.variants for unit in read_units(source, _Units()))


def _records(source: Source, faults: Faults) -> Iterator[Record]:
    role = cache(lambda code: _role(code, source))
    for unit in read_units(source, _Units()):
        sides = [(role(code), text) for code, text in unit.variants]
        sources = [text for language, text in sides if language == source.source_language]
        targets = [(language, text) for language, text in sides if language not in ("", source.source_language)]
        if sources and targets:
            yield Record(unit.line, sources[0], targets)
        else:
            faults.passed_over["without one of the languages"] += 1


class _Units(Units[_Unit]):
    def __init__(self) -> None:
        super().__init__()
        self._unit = _Unit(0, [])
        self._language = ""
        self._text: list[str] | None = None  # of the open segment
        self._dropping = 0  # depth of open formatting elements

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag == "tu":
            self._unit = _Unit(self.line, [])
        elif tag == "tuv":
            self._language = attributes.get("xml:lang") or attributes.get("lang") or ""
        elif tag == "seg":
            self._text = []
        elif tag in _FORMATTING and self._text is not None:
            self._dropping += 1

    def text(self, data: str) -> None:
        if self._text is not None and not self._dropping:
            self._text.append(data)

    def end(self, tag: str) -> None:
        if tag == "seg" and self._text is not None:
            self._unit.variants.append((self._language, "".join(self._text)))
            self._text, self._dropping = None, 0
        elif tag in _FORMATTING and self._dropping:
            self._dropping -= 1
        elif tag == "tu":
            self.ready.append(self._unit)


def _role(code: str, source: Source) -> str:
    """The language of a variant, or "" if it is not wanted. TMX ignores the case of codes."""
    primary, *rest = code.replace("_", "-").split("-")
    code = "-".join([primary.lower(), *rest])
    if not is_shaped_like_a_code(code):
        return ""
    if is_source(code, source.source_language):
        return source.source_language
    if source.language:
        return source.language if same_language(canonical(code), source.language) else ""
    return without_region(code)
