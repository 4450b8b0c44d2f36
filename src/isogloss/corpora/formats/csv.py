"""Comma- or semicolon-separated text with quotes; the first line shows which of the two (or the tab) separates cells."""

from isogloss.corpora.formats import quoted
from isogloss.corpora.formats.first_line import read_first_line
from isogloss.corpora.reading.blocks import Blocks
from isogloss.corpora.reading.lines import line_blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source

SEPARATORS = ",;\t"


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of a CSV file."""
    with source.open() as stream:
        opened = read_first_line(line_blocks(stream, source.name), source, faults, SEPARATORS, quoted=True)
        if opened is not None:
            yield from quoted.blocks_of(opened.lines, opened.separator, opened.layout, source, faults)
