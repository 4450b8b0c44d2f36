"""Stream the units of an XML file: only the current unit is in memory, and its line number is known."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

_CHUNK = 2**16


def read_units(source: Source, tag: str) -> Iterator[tuple[int, Element]]:
    """Every outermost element `tag`, with its line. Broken XML always raises: nothing says where the next unit begins."""
    parser = expat.ParserCreate()
    parser.buffer_text = True
    builder, unit, line = TreeBuilder(), None, 0
    units: list[tuple[int, Element]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal builder, unit, line
        if name == tag:
            builder, line = TreeBuilder(), parser.CurrentLineNumber
            unit = builder.start(name, attributes)
            # Inside the unit the builder itself is called, which is faster.
            parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = builder.start, builder.data, end

    def end(name: str) -> None:
        if (element := builder.end(name)) is unit:
            units.append((line, element))
            parser.StartElementHandler, parser.CharacterDataHandler, parser.EndElementHandler = start, None, None

    parser.StartElementHandler = start
    with source.open() as stream:
        more = True
        while more:
            chunk = stream.read(_CHUNK)
            more = bool(chunk)
            try:
                parser.Parse(chunk, not more)
            except (expat.ExpatError, LookupError, ValueError) as error:  # the last two: an unknown encoding
                raise DataError(
                    f"{source.name} line {parser.CurrentLineNumber}: not well-formed XML ({error})",
                    hint="download it again; xmllint --recover may repair it",
                ) from error
            yield from units
            units.clear()
