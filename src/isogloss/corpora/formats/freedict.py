"""FreeDict dictionaries (TEI): every headword of an entry with every translation of it."""

from collections.abc import Iterable, Iterator
from xml.etree.ElementTree import Element

from isogloss.corpora.formats.layout import target_language
from isogloss.corpora.formats.records import Record, gathered
from isogloss.corpora.formats.xml_units import read_units
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source

_TRANSLATION = {"trans", "translation", "translationEquivalent"}
_INFLECTED = {"infl", "inflected"}


def blocks(source: Source, faults: Faults) -> Blocks:
    """The entries of a dictionary; those without a translation are counted and skipped."""
    return gathered(_records(source, faults), source.name, faults)


def _records(source: Source, faults: Faults) -> Iterator[Record]:
    language = target_language(source)
    for line, entry in read_units(source, "entry"):
        for element in list(entry.iter()):
            if not _is_of_the_entry(element):
                element.clear()
        headwords = _texts(entry.iter("orth"))
        quotes = dict.fromkeys(quote for citation in entry.iter("cit") for quote in citation.iter("quote"))
        pairs = [(word, translation) for word in headwords for translation in _texts(quotes)]
        if not pairs:
            faults.passed_over["untranslated"] += 1
        for pair in pairs:
            word, other = pair if source.source_first else pair[::-1]
            yield Record(line, word, [(language, other)])


def _is_of_the_entry(element: Element) -> bool:
    """False for related entries, examples and inflected forms."""
    kind = element.get("type", "")
    if element.tag == "cit":
        return kind in _TRANSLATION
    return element.tag != "re" and not (element.tag == "form" and kind in _INFLECTED)


def _texts(elements: Iterable[Element]) -> list[str]:
    """The texts that are not empty, without line breaks."""
    return [text for element in elements if (text := " ".join("".join(element.itertext()).split()))]
