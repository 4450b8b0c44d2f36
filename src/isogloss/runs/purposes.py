"""The recipes that `isogloss init --for` writes: what to train for which use. docs/presets.md has the evidence.

similarity   distances to the teacher: the student's cosines are the teacher's
retrieval    distances, and similarities to a bank of the teacher's embeddings: searching an index that the teacher made
mining       ranking: finding the translation among other sentences
balanced     the first and the third from the same bridge, and the average of their weights
"""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

from isogloss.config import LossSettings, TrainingSettings, as_dict
from isogloss.errors import RecipeError

Data = dict[str, Any]
BALANCED = "balanced"
CHUNK = 128  # pairs of a batch that are in memory at once, on any machine; the gradient is that of the whole batch
TO_POINTS: Data = {"mse": 1.0, "soft_similarity": 0.1}
TO_RANKS: Data = {"mse": 0.2, "soft_similarity": 0.1, "ranking": 1.0}
POINTS: Data = {"batch_pairs": 512, "chunk_pairs": CHUNK, "learning_rate": 4e-4}
RANKS: Data = {"batch_pairs": 1024, "chunk_pairs": CHUNK, "learning_rate": 3e-4}
SHARES = (0.7, 0.3)  # of the weights trained on points and on ranks


class Purpose(NamedTuple):
    """What a recipe is best for, in a sentence, and its own part of the recipe."""

    best_for: str
    data: Data


PURPOSES: dict[str, Purpose] = {
    "similarity": Purpose(
        "Best for semantic similarity within a language; languages that it is not trained on get worse.",
        {"losses": TO_POINTS, "training": POINTS},
    ),
    "retrieval": Purpose(
        "Best for searching documents in an index that the teacher made.", {"losses": {"mse": 1.0, "bank_similarity": 4.0}}
    ),
    "mining": Purpose("Best for finding translations: mining, deduplication.", {"losses": TO_RANKS, "training": RANKS}),
    BALANCED: Purpose(
        "Best for similarity across languages, and nearly the best for finding translations; trains twice.",
        {
            "losses": as_dict(LossSettings()) | TO_POINTS,
            "training": as_dict(TrainingSettings()) | POINTS,
            "stage": [
                {"task": "bridge"},
                {"task": "distill", "name": "points"},
                {"task": "distill", "name": "ranks", "start": "bridge", "losses": TO_RANKS, "training": RANKS},
                {"task": "average", "of": ["points", "ranks"], "weights": list(SHARES)},
            ],
        },
    ),
}


def recipe_for(purpose: str, other: Mapping[str, Any]) -> Data:
    """The recipe for a purpose, with other tables beside its own."""
    return {**other, **chosen(purpose).data}


def chosen(purpose: str) -> Purpose:
    """The purpose of this name."""
    if purpose not in PURPOSES:
        close = difflib.get_close_matches(purpose, PURPOSES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"choose from: {', '.join(PURPOSES)}"
        raise RecipeError(f"--for {purpose}: not a purpose that there is a recipe for", hint=hint)
    return PURPOSES[purpose]
