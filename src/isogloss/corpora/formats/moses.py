"""Moses text: two line-aligned files, and optionally a third with a score per line."""

from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.corpora.formats.assemble import BLANK, assemble, by_translation, empty_side, trimmed
from isogloss.corpora.formats.layout import Layout, target_language
from isogloss.corpora.reading.blocks import Blocks, cut
from isogloss.corpora.reading.compression import open_stream
from isogloss.corpora.reading.lines import line_blocks
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.sources import Source
from isogloss.errors import DataError


def blocks(source: Source, faults: Faults) -> Blocks:
    """The pairs of two line-aligned files; different numbers of lines are an error, since then no pair can be trusted."""
    if source.other is None and not source.other_member:
        raise DataError(f"{source.name}: its other file is not known", hint="Moses text is two files: name both")
    files = [(source.path, source.member), (source.other or source.path, source.other_member)]
    if source.scores is not None or source.scores_member:
        files.append((source.scores or source.path, source.scores_member))
    with ExitStack() as stack:
        opened = [stack.enter_context(open_stream(*file)) for file in files]
        names = [stream.name for stream in opened]
        streams = [line_blocks(stream, stream.name) for stream in opened]
        texts = [pa.array([], pa.string()) for _ in files]  # lines that were read and not yet used
        known: dict[int, DataError] = {}
        first = 1  # the number of the next line
        while True:
            for place, stream in enumerate(streams):
                if not len(texts[place]) and (block := next(stream, None)) is not None:
                    texts[place] = trimmed(block.text())
                    known |= block.faults
            count = min(map(len, texts))
            if not count:
                break
            yield from cut(_pairs([text.slice(0, count) for text in texts], first, known, names, source, faults))
            texts = [text.slice(count) for text in texts]
            first += count
            known = {line: fault for line, fault in known.items() if line >= first}
        if any(map(len, texts)):
            counts = [first - 1 + len(text) + sum(map(len, stream)) for text, stream in zip(texts, streams, strict=True)]
            totals = ", ".join(f"{name} has {count:,}" for name, count in zip(names, counts, strict=True))
            raise DataError(f"the files have different numbers of lines: {totals}", hint="get both again, from one release")


def _pairs(
    texts: list[pa.Array], first: int, known: dict[int, DataError], names: list[str], source: Source, faults: Faults
) -> pa.Table:
    language = target_language(source)
    found: dict[int, DataError] = {}
    for row in np.flatnonzero(pc.equal(texts[1], "").to_numpy(zero_copy_only=False)).tolist():
        line, is_blank = first + row, not texts[0][row].as_py()
        found[line] = BLANK if is_blank else empty_side(f"{names[1]} line {line}", f"target ({language})")
    layout = Layout(0, ((1, language),), score=2 if len(texts) > 2 else None)
    cells = by_translation(layout, texts.__getitem__, np.arange(first, first + len(texts[0])))
    return assemble(cells, f"{names[0]} line", faults, found | known)
