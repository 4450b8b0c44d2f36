"""A program as an encoder: it reads sentences from standard input, one per line, and prints one vector per line.

A vector is a JSON list, or numbers separated by tabs, spaces or commas. Line breaks inside a sentence become spaces. The
program is started once per call with all lines, and must exit when its input ends.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.shapes import parse_json
from isogloss.storage import content_hash, file_hash
from isogloss.types import FloatArray

LINE_BREAKS = re.compile(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
SEPARATORS = re.compile(r"[\s,]+")


class CommandEncoder(ExternalEncoder):
    """A program that turns lines into vectors."""

    batch_size = chunk_size = 1 << 20  # one start for many lines: most programs load a model first

    def __init__(self, command: str) -> None:
        self.command, self.name = command, f"cmd:{command}"
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise ModelError(f"{command}: not a command ({error})", hint="quote it as in a shell") from error

    def _identity(self) -> str:
        """The command and the files named in it. Declare other changes in the command, as in `env REVISION=2 command`."""
        files = [file_hash(Path(argument)) for argument in self._arguments if Path(argument).is_file()]
        return content_hash("cmd", *self._arguments, *files)

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        lines = "".join(LINE_BREAKS.sub(" ", text) + "\n" for text in texts)
        try:
            done = subprocess.run(self._arguments, input=lines.encode(), capture_output=True, check=False)
        except OSError as error:
            raise ModelError(
                f"{self.command}: cannot be started ({error.strerror})", hint="is it installed and on the PATH?"
            ) from error
        if done.returncode:
            messages = done.stderr.decode(errors="replace").strip().splitlines()
            raise ModelError(
                f"{self.command}: exited with status {done.returncode}" + (f" ({messages[-1][:160]})" if messages else ""),
                hint="run it by hand with a line of text to see why",
            )
        rows = [line for line in done.stdout.decode(errors="replace").split("\n") if line.strip()]
        if len(rows) != len(texts):
            raise ModelError(
                f"{self.command}: {amount(len(rows), 'vector')} for {amount(len(texts), 'line')}",
                hint="it must print one vector per line",
            )
        return _parse(rows, self.command)


def _parse(rows: Sequence[str], command: str) -> FloatArray:
    vectors = []
    for number, row in enumerate(rows, 1):
        try:
            values = parse_json(row) if row.lstrip().startswith("[") else list(map(float, SEPARATORS.split(row.strip())))
            vectors.append(np.asarray(values, dtype=np.float32))
        except (ValueError, TypeError, OverflowError) as error:
            raise ModelError(
                f"{command}: line {number} of its output is not a vector: {row[:60]!r}",
                hint="a vector is a JSON list, or numbers separated by tabs or spaces",
            ) from error
    if any(vector.ndim != 1 or vector.shape != vectors[0].shape for vector in vectors):
        raise ModelError(f"{command}: its vectors differ in length", hint="all vectors must have the same dimension")
    return np.stack(vectors)
