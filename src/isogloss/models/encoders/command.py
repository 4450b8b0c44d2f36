"""Any program that turns lines into vectors: sentences go to its standard input, one a line, vectors come from its output.

A vector is a line: a JSON list, or numbers separated by tabs, spaces or commas. Line breaks inside a sentence become spaces.
The program is started once for each call, gets all lines, and has to end by itself when its input does.
"""

import re
import shlex
import subprocess
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.distinct import each_once
from isogloss.progress import OnProgress, silent
from isogloss.shapes import parse_json
from isogloss.storage import content_hash, file_hash
from isogloss.types import FloatArray

AT_ONCE = 1 << 20  # a program that loads a model should do so once
BREAKS = re.compile(r"[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
SEPARATORS = re.compile(r"[\s,]+")


class CommandEncoder:
    """A program as a model."""

    at_once = AT_ONCE

    def __init__(self, command: str) -> None:
        self.command, self.name = command, f"cmd:{command}"
        try:
            self._arguments = shlex.split(command)
        except ValueError as error:
            raise ModelError(f"{command}: not a command ({error})", hint="quote it as in a shell") from error

    @cached_property
    def dimension(self) -> int:
        """Length of a vector; the program is asked for one to know."""
        return int(self.encode(["."]).shape[1])

    @cached_property
    def fingerprint(self) -> str:
        """Names the command and the files it mentions. What else it depends on, only its author knows."""
        files = [file_hash(Path(one)) for one in self._arguments if Path(one).is_file()]
        return content_hash("cmd", *self._arguments, *files)

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence, each distinct one computed once."""
        return each_once(texts, self._some, AT_ONCE, self.name, on_progress, stage)

    def _some(self, texts: list[str]) -> FloatArray:
        lines = "".join(BREAKS.sub(" ", text) + "\n" for text in texts)
        try:
            done = subprocess.run(self._arguments, input=lines.encode(), capture_output=True, check=False)
        except OSError as error:
            raise ModelError(
                f"{self.command}: cannot be started ({error.strerror})", hint="is it installed and on the PATH?"
            ) from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()
            raise ModelError(
                f"{self.command}: ended with {done.returncode}" + (f" ({said[-1][:160]})" if said else ""),
                hint="run it by hand with a line of text to see why",
            )
        rows = [line for line in done.stdout.decode(errors="replace").split("\n") if line.strip()]
        if len(rows) != len(texts):
            raise ModelError(
                f"{self.command}: {amount(len(rows), 'vector')} for {amount(len(texts), 'line')}",
                hint="it must print one for each line",
            )
        return _matrix(rows, self.command)


def _matrix(rows: Sequence[str], command: str) -> FloatArray:
    vectors = []
    for number, row in enumerate(rows, 1):
        try:
            values = parse_json(row) if row.lstrip().startswith("[") else [float(one) for one in SEPARATORS.split(row.strip())]
            vectors.append(np.asarray(values, dtype=np.float32))
        except (ValueError, TypeError, OverflowError) as error:
            raise ModelError(
                f"{command}: line {number} of its output is not a vector: {row[:60]!r}",
                hint="a vector is a JSON list, or numbers separated by tabs or spaces",
            ) from error
    if any(one.ndim != 1 or one.shape != vectors[0].shape for one in vectors):
        raise ModelError(f"{command}: its vectors differ in length", hint="all must have as many numbers")
    return np.stack(vectors)
