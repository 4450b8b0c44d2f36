"""XML read as a stream: only the current unit is in memory, and its line number is known."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar
from xml.parsers import expat

from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError

Unit = TypeVar("Unit")

_CHUNK = 2**16


class Units(ABC, Generic[Unit]):
    """Handles the elements of a document; a format fills `ready` in three methods."""

    def __init__(self) -> None:
        self.ready: list[Unit] = []
        self.line = 0  # of the current tag

    @abstractmethod
    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    @abstractmethod
    def end(self, tag: str) -> None:
        """An element ends."""

    @abstractmethod
    def text(self, data: str) -> None:
        """Text, perhaps not all of it at once."""


def read_units(source: Source, units: Units[Unit]) -> Iterator[Unit]:
    """All units of a file. Broken XML always raises, since nothing says where the next unit begins."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def start(tag: str, attributes: dict[str, str]) -> None:
        units.line = parser.CurrentLineNumber
        units.start(tag, attributes)

    parser.StartElementHandler = start
    parser.EndElementHandler = units.end
    parser.CharacterDataHandler = units.text
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
            yield from units.ready
            units.ready.clear()
