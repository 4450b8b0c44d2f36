"""MTEB's tasks as one more source of scores, for users who have the package mteb and the hub.

What MTEB reports is taken as it is: a task's main score, by split and subset. Its rows are not known, so there are no
intervals. Under the names Tatoeba and BUCC it measures something else than the papers: a weighted F1 of one direction, and
no threshold. The suites `tatoeba` and `bucc` are the papers'.
"""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from isogloss.errors import DataError
from isogloss.evaluation.bootstrap import Fixed
from isogloss.evaluation.metrics import Doubles, cosines, unit
from isogloss.evaluation.results import Measured
from isogloss.models.encoder import Encoder
from isogloss.types import FloatArray

Vectors = Callable[[Sequence[str]], FloatArray]


class _Model:
    """An encoder as MTEB wants to see one: its protocol, not a class of its own."""

    def __init__(self, encoder: Encoder, vectors: Vectors, package: Any) -> None:  # noqa: ANN401 - mteb, if it is installed
        self._vectors = vectors
        told = {"name": f"isogloss/{encoder.name.replace('/', '-')}", "revision": encoder.fingerprint}
        self.mteb_model_meta = package.models.model_meta.ModelMeta.create_empty(overwrites=told)

    def encode(self, inputs: Iterable[dict[str, Any]], **_: object) -> FloatArray:
        """The vectors of all texts, batch by batch as they come."""
        return self._vectors([str(text) for batch in inputs for text in batch["text"]])

    def similarity(self, embeddings1: FloatArray, embeddings2: FloatArray) -> FloatArray:
        """All cosines of two matrices."""
        left, right = (unit(np.atleast_2d(np.asarray(one, dtype=np.float32))) for one in (embeddings1, embeddings2))
        product: FloatArray = left @ right.T
        return product

    def similarity_pairwise(self, embeddings1: FloatArray, embeddings2: FloatArray) -> Doubles:
        """Cosines row by row."""
        return cosines(np.asarray(embeddings1, dtype=np.float32), np.asarray(embeddings2, dtype=np.float32))


def measure(encoder: Encoder, tasks: Sequence[Any], vectors: Vectors) -> list[Measured]:
    """Main scores of MTEB tasks: names such as `STS17`, or tasks of one's own; `vectors` embeds, with a cache or without."""
    package = _package()
    chosen = [_task(package, one) if isinstance(one, str) else one for one in tasks]
    try:
        found = package.evaluate(
            _Model(encoder, vectors, package), chosen, cache=None, show_progress_bar=False, co2_tracker=False
        )
    except (ConnectionError, OSError) as error:
        reason = str(error).strip().split("\n")[0][:160]
        raise DataError(f"MTEB could not fetch its data ({reason})", hint="its tasks need the hub") from error
    return [one for result in found.task_results for one in _measured(result)]


def _measured(result: Any) -> list[Measured]:  # noqa: ANN401 - mteb's TaskResult
    parts = []
    for split, subsets in result.scores.items():
        for one in subsets:
            name = one["hf_subset"] if len(result.scores) == 1 else f"{one['hf_subset']} ({split})"
            others = {key: float(value) for key, value in one.items() if isinstance(value, float) and key != "main_score"}
            sample = Fixed(float(one["main_score"]), f"mteb {result.task_name} {name}")
            parts.append(Measured(f"MTEB {result.task_name}", name, "MTEB's main score", sample, others))
    return parts


def _task(package: Any, name: str) -> Any:  # noqa: ANN401 - mteb's AbsTask
    try:
        return package.get_task(name)
    except (KeyError, ValueError) as error:
        reason = str(error).strip("'\" ").split("\n")[0][:160]
        raise DataError(f"MTEB has no task {name} ({reason})", hint="names are as in mteb: STS17, Tatoeba, BUCC") from error


def _package() -> Any:  # noqa: ANN401 - mteb, if it is installed
    try:
        return import_module("mteb")
    except ImportError as error:
        raise DataError("the package mteb is not installed here", hint="pip install mteb") from error
