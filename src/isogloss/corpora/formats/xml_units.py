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
    builder, depth, line = TreeBuilder(), 0, 0  # of the open unit
    units: list[tuple[int, Element]] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal builder, depth, line
        if not depth and name == tag:
            builder, line = TreeBuilder(), parser.CurrentLineNumber
        if depth or name == tag:
            builder.start(name, attributes)
            depth += 1

    def end(name: str) -> None:
        nonlocal depth
        if depth:
            builder.end(name)
            depth -= 1
            if not depth:
                units.append((line, builder.close()))

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = lambda text: builder.data(text) if depth else None
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
