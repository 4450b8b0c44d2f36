"""A student's embeddings of any number of training sentences, without holding all of them in memory.

The bridge is solved from hundreds of thousands of sentences, whose embeddings can take more memory than the training after it.
"""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile, gettempdir

import numpy as np
import torch

from isogloss.errors import ModelError
from isogloss.models.frozen_layers import Activations, SplitBody
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.progress import OnProgress, Step
from isogloss.storage import explaining_disk
from isogloss.types import FloatArray, IntArray

AT_ONCE = 1 << 15  # rows: a multiple of the windows of `models/fast_encode.py`, so that batches are those of all rows at once


def vectors_in_parts(
    student: Student,
    tokens: TokenStore,
    rows: IntArray,
    remembered: tuple[SplitBody, Activations] | None,
    folder: Path | None,
    on_progress: OnProgress,
    stage: str,
    dtype: torch.dtype = torch.float32,
) -> FloatArray:
    """The student's current embeddings of some rows; many of them are mapped from an unnamed file in `folder`.

    Embeddings that are not finite are refused. Progress counts all rows. `dtype` is that of `Student.vectors_of`.
    """

    def part(start: int) -> FloatArray:
        def report(step: Step) -> None:
            on_progress(replace(step, done=start + step.done, total=len(rows)))

        vectors = student.vectors_of(tokens, rows[start : start + AT_ONCE], remembered, report, stage, dtype)
        if not np.isfinite(vectors).all():
            raise ModelError(
                f"{student.name}: {stage}: some of its vectors are not finite",
                hint="the model's weights are damaged or overflow in this precision; try another copy of it",
            )
        return vectors

    if len(rows) <= AT_ONCE:
        return part(0)
    place = Path(gettempdir()) if folder is None else folder
    with explaining_disk(place), TemporaryFile(dir=place) as file:
        for start in range(0, len(rows), AT_ONCE):
            vectors = part(start)
            file.write(np.ascontiguousarray(vectors).data)  # not through a mapping: a full disk would end the process
        file.flush()
        kind, width = vectors.dtype, vectors.shape[1]
        return np.asarray(np.memmap(file, kind, "c", shape=(len(rows), width)))  # torch wants to be able to write
