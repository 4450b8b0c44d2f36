"""How much nearer two sentences are to each other than to what else is near them.

    margin(x, y) = f( cos(x, y),  ½ · (mean of cos(x, z) over the k nearest z of x  +  the same for y) )

    ratio     f(a, b) = a / b      the default: best in the paper
    distance  f(a, b) = a − b
    absolute  f(a, b) = a          plain cosine: sentences that are near everything look good to it

(Artetxe & Schwenk 2019, "Margin-based Parallel Corpus Mining with Multilingual Sentence Embeddings", §3.) Everything it needs
was found with the neighbours: no vector is read again. `matching` chooses pairs by these scores, `thresholds` how many.
"""

import numpy as np

from isogloss.errors import DataError
from isogloss.search.neighbours import Neighbours
from isogloss.types import FloatArray

MARGINS = ("ratio", "distance", "absolute")
SMALLEST_MEAN = 1e-3  # a ratio to a neighbourhood at right angles, or beyond, says nothing


def margin_scores(similarity: FloatArray, left_mean: FloatArray, right_mean: FloatArray, kind: str = "ratio") -> FloatArray:
    """The margin of pairs with these cosines, whose sentences have these mean cosines to their neighbours; shapes broadcast."""
    if kind not in MARGINS:
        raise DataError(f"margin = {kind!r} is not known", hint=f"choose one of {', '.join(MARGINS)}")
    if kind == "absolute":
        return np.array(np.broadcast_arrays(similarity, left_mean, right_mean)[0], dtype=np.float32)
    around = (np.asarray(left_mean, dtype=np.float64) + right_mean) / 2
    score = similarity - around if kind == "distance" else similarity / np.maximum(around, SMALLEST_MEAN)
    return score.astype(np.float32)


def candidate_scores(left: Neighbours, right: Neighbours, kind: str = "ratio") -> tuple[FloatArray, FloatArray]:
    """The margin of every sentence with each of its neighbours, of both sides, in the shape of their ids."""
    left_mean, right_mean = left.mean, right.mean
    return (
        margin_scores(left.similarity, left_mean[:, None], right_mean[left.ids], kind),
        margin_scores(right.similarity, left_mean[right.ids], right_mean[:, None], kind),
    )
