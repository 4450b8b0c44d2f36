"""What encoders outside of torch have in common: each distinct sentence once, some at a time, of alike length, and checked."""

from collections.abc import Callable, Sequence

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.encoder import refuse_broken
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray


def each_once(
    texts: Sequence[str],
    compute: Callable[[list[str]], FloatArray],
    at_once: int,
    name: str,
    on_progress: OnProgress = silent,
    stage: str = "encode",
) -> FloatArray:
    """The vectors of `texts`, one row each, by calls of `compute` with up to `at_once` distinct ones, the longest first."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    order = sorted(places, key=len, reverse=True)
    vectors: FloatArray = np.zeros((len(order), 0), dtype=np.float32)
    for start in range(0, len(order), at_once):
        some = order[start : start + at_once]
        found = compute(some)
        if found.ndim != 2 or len(found) != len(some):
            raise ModelError(
                f"{name} gave {amount(len(found), 'vector')} for {amount(len(some), 'sentence')}",
                hint="it must give one for each, in order",
            )
        if not start:
            vectors = np.zeros((len(order), found.shape[1]), dtype=np.float32)
        if found.shape[1] != vectors.shape[1]:
            raise ModelError(
                f"{name} gave vectors of dimension {vectors.shape[1]} and {found.shape[1]}", hint="all must be alike"
            )
        refuse_broken(found, some, name)
        vectors[[places[text] for text in some]] = found
        on_progress(Step(stage, min(start + at_once, len(order)), len(order), "sentences"))
    return vectors[[places[text] for text in texts]]
