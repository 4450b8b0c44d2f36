"""Comma- or semicolon-separated text, quoted. The first line decides which of the two (or the tab) separates the cells."""

from isogloss.corpora.formats import quoted
from isogloss.corpora.formats.first_line import opened
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import line_blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source

SEPARATORS = ",;\t"


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a CSV file."""
    with source.open() as stream:
        opening = opened(line_blocks(stream, source.name), source, faults, SEPARATORS, quoted=True)
        if opening is not None:
            yield from quoted.blocks_of(opening.lines, opening.separator, opening.layout, source, faults)
