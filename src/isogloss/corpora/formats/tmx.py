"""Translation memories (TMX): units with one variant per language.

Inline formatting (bpt, ept, ph, it, ut) is dropped with its content; text in hi is kept.
"""

from collections.abc import Iterator
from functools import cache
from xml.etree.ElementTree import Element

from isogloss.corpora.formats.records import Record, gathered
from isogloss.corpora.formats.xml_units import read_units
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.languages import canonical, is_shaped_like_a_code, is_source, same_language, without_region
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source

_FORMATTING = {"bpt", "ept", "ph", "it", "ut"}


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of the source with every other language, or with the one given by the user or the file's name.

    Units that lack one of them are counted and skipped.
    """
    return gathered(_records(source, faults), source.name, faults)


def texts(source: Source) -> Iterator[list[tuple[str, str]]]:
    """All texts of every unit, each with its language."""
    return (_variants(unit) for _, unit in read_units(source, "tu"))


def _records(source: Source, faults: Faults) -> Iterator[Record]:
    role = cache(lambda code: _role(code, source))
    for line, unit in read_units(source, "tu"):
        sides = [(role(code), text) for code, text in _variants(unit)]
        sources = [text for language, text in sides if language == source.source_language]
        targets = [(language, text) for language, text in sides if language not in ("", source.source_language)]
        if sources and targets:
            yield Record(line, sources[0], targets)
        else:
            faults.passed_over["without one of the languages"] += 1


def _variants(unit: Element) -> list[tuple[str, str]]:
    """The texts of a unit, each with its language as written in the file."""
    return [
        (variant.get("xml:lang") or variant.get("lang") or "", _plain_text(segment))
        for variant in unit.iter("tuv")
        for segment in variant.iter("seg")
    ]


def _plain_text(segment: Element) -> str:
    for element in list(segment.iter()):
        if element.tag in _FORMATTING:
            element.text, element[:] = "", []  # the tail is text of the segment
    return "".join(segment.itertext())


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
