"""Text in blocks of whole lines, checked to be UTF-8, as Arrow arrays over the bytes that were read.

Only a line feed ends a line (with or without a carriage return before it). A lone carriage return, U+2028 or U+0085 is part of
the text; otherwise the two sides of Moses text would get out of step.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

from isogloss.corpora.reading.blocks import BLOCK_BYTES
from isogloss.corpora.reading.compression import ByteStream, looks_packed, open_stream
from isogloss.corpora.reading.malformed import SKIPPING
from isogloss.errors import DataError
from isogloss.types import IntArray

MAX_LINE = 2**28  # bytes; a file without line ends is not text
LINE_FEED, TAB = 10, 9
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Some whole lines of a file. Line i is `data[starts[i]:starts[i + 1]]`, with its line end.

    Lines that are not UTF-8 are in `faults` by line number, and blank in `data`.
    """

    data: bytes
    starts: IntArray
    first: int  # the number of its first line, from 1
    faults: dict[int, DataError] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def numbers(self) -> IntArray:
        """The line numbers in the file."""
        return np.arange(self.first, self.first + len(self), dtype=np.int64)

    def text(self) -> pa.StringArray:
        """The lines with their line ends, over the same bytes."""
        return strings_over(self.data, self.starts)

    def line(self, row: int) -> str:
        """One line, without its line end."""
        return self.data[self.starts[row] : self.starts[row + 1]].decode().rstrip("\r\n")

    def is_blank(self, row: int) -> bool:
        """Whether a line is only whitespace."""
        return not self.line(row).strip()

    def without(self, row: int) -> "LineBlock":
        """The same lines with `row` blanked out."""
        start, end = self.starts[row : row + 2].tolist()
        data = self.data[:start] + _blank_like(self.data[start:end]) + self.data[end:]
        return replace(self, data=data)

    def first_content(self) -> int | None:
        """The first line that is not blank, or None."""
        return next((row for row in range(len(self)) if not self.is_blank(row)), None)


def strings_over(data: bytes, bounds: IntArray) -> pa.StringArray:
    """Adjacent strings in `data`, which must be UTF-8 and is not copied."""
    offsets = pa.py_buffer(bounds.astype(np.int32))
    return pa.StringArray.from_buffers(len(bounds) - 1, offsets, pa.py_buffer(data))


def line_blocks(stream: ByteStream, name: str) -> Iterator[LineBlock]:
    """Cut a stream into blocks of whole lines of about `BLOCK_BYTES`; the cuts depend on the bytes alone."""
    number = 1
    for data in _whole_lines(stream, name):
        if number == 1:
            data = _without_mark(data, name)
        block = _checked(data, number, name)
        number += len(block)
        if len(block):
            yield block


def numbered(blocks: Iterable[LineBlock]) -> Iterator[tuple[int, str | DataError]]:
    """The lines of blocks with their numbers and line ends; an error in place of one that is not UTF-8."""
    for block in blocks:
        for number, line in enumerate(block.text().to_pylist(), block.first):
            yield number, block.faults.get(number, line)


def text_blocks(path: Path, member: str = "") -> Iterator[LineBlock]:
    """The lines of a text file, of a file in an archive, or of standard input ("-"); one that is not UTF-8 raises."""
    with open_stream(path, member) as stream:
        for block in line_blocks(stream, stream.name):
            for fault in block.faults.values():
                raise DataError(fault.message, hint="convert it to UTF-8")
            yield block


def numbered_lines(path: Path, member: str = "") -> Iterator[tuple[int, str]]:
    """The same line by line, with their numbers and line ends."""
    for block in text_blocks(path, member):
        yield from enumerate(block.text().to_pylist(), block.first)


def _whole_lines(stream: ByteStream, name: str) -> Iterator[bytes]:
    kept: list[bytes] = []
    while chunk := stream.read(BLOCK_BYTES):
        cut = chunk.rfind(b"\n") + 1
        if not cut:
            kept.append(chunk)
            if len(kept) * BLOCK_BYTES > MAX_LINE:
                raise DataError(f"{name}: a line is longer than {MAX_LINE:,} bytes", hint="is it a text file?")
            continue
        yield b"".join([*kept, chunk[:cut]])
        kept = [chunk[cut:]]
    if rest := b"".join(kept):
        yield rest


def _without_mark(data: bytes, name: str) -> bytes:
    if data.startswith(_UTF16_MARKS):
        # Always raised: half of such a file would pass for text full of NULs.
        raise not_utf8(data, 0, name, 1)
    if (suffix := looks_packed(data)) and not is_utf8(data):
        raise DataError(f"{name}: this is not text but a {suffix} file", hint=f"give it a name that ends in {suffix}")
    return data.removeprefix(_BYTE_ORDER_MARK)


def _checked(data: bytes, first: int, name: str) -> LineBlock:
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == LINE_FEED) + 1
    starts = np.concatenate([[0], ends])
    if starts[-1] != len(data):
        starts = np.append(starts, len(data))  # the last line has no line end
    return LineBlock(data, starts, first) if is_utf8(data) else _mended(data, starts, first, name)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    try:
        strings_over(data, np.array([0, len(data)])).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _mended(data: bytes, starts: IntArray, first: int, name: str) -> LineBlock:
    """Blank out the lines that are not UTF-8."""
    mended = bytearray(data)
    faults: dict[int, DataError] = {}
    for number, (start, end) in enumerate(pairwise(starts.tolist()), first):
        try:
            data[start:end].decode()
        except UnicodeDecodeError as error:
            faults[number] = not_utf8(data[start:end], error.start, name, number)
            mended[start:end] = _blank_like(data[start:end])
    return LineBlock(bytes(mended), starts, first, faults)


def _blank_like(line: bytes) -> bytes:
    """As many spaces, with the line end."""
    return b" " * (len(line) - 1) + (b"\n" if line.endswith(b"\n") else b" ")


def not_utf8(line: bytes, place: int, name: str, number: int) -> DataError:
    """The error for a line that is not UTF-8, with the byte and the likely encoding."""
    wide = line.startswith(_UTF16_MARKS) or line.count(0) * 4 > len(line)
    encoding = "UTF-16" if wide else "LATIN1"
    hint = f"convert it first: iconv -f {encoding} -t UTF-8 FILE > fixed; or {SKIPPING}"
    looks = "; the file looks like UTF-16" if wide else ""
    return DataError(f"{name} line {number}: not UTF-8 (byte 0x{line[place]:02x} at column {place + 1}){looks}", hint=hint)
