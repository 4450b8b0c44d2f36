"""Vectors of a suite's sentences: from the cache what is there, from the model what is not, in large portions.

`encode.cache` hands a model 64 sentences at a time, since a teacher may work for hours; a program or a service is better
asked for many at once, and a suite has some hundred thousand sentences at most.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from isogloss.models.encoder import Encoder
from isogloss.models.vector_cache import VectorCache, longest_first, text_keys
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray

PORTION = 8192  # sentences; what an interruption may cost


def embedded(encoder: Encoder, texts: Sequence[str], cache: Path | None, on_progress: OnProgress = silent) -> FloatArray:
    """One row for each of `texts`, which are distinct; with `cache`, rows are kept there and are those of fp16."""
    stage = f"embedding, {encoder.name}"
    if cache is None:
        return encoder.encode(texts, on_progress, stage)
    store = VectorCache(cache, encoder.fingerprint, encoder.dimension)
    keys = text_keys(texts)
    known, found = store.find(keys)
    vectors = np.zeros((len(texts), encoder.dimension), dtype=np.float16)
    vectors[known] = found
    todo = np.flatnonzero(~known)
    note = f"{len(found):,} reused from the cache" if len(found) else ""
    on_progress(Step(stage, 0 if len(todo) else len(texts), len(todo) or len(texts), "sentences", note))
    if not len(todo):
        return vectors.astype(np.float32)
    done = 0

    def compute(some: Sequence[str]) -> FloatArray:
        return encoder.encode(some, lambda step: on_progress(Step(stage, done + step.done, len(todo), "sentences", note)))

    with store.keeping() as keep:
        for rows, computed in longest_first([texts[row] for row in todo.tolist()], compute, PORTION):
            vectors[todo[rows]] = computed
            keep(keys[todo[rows]], computed)
            done += len(rows)
    return vectors.astype(np.float32)
