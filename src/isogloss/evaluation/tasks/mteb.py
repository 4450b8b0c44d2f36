"""MTEB's tasks as a suite, for users with the package mteb and access to the hub.

MTEB's main score of a task is reported by split and subset. Its rows are unknown, so there are no intervals. MTEB's Tatoeba and
BUCC are not those of the papers: a weighted F1 in one direction, without a threshold. The suites `tatoeba` and `bucc` are.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from isogloss.errors import DataError, optional_package
from isogloss.evaluation.bootstrap import fixed
from isogloss.evaluation.compare import TaskScore
from isogloss.evaluation.metrics import Doubles, cosines, unit
from isogloss.models.encoder import Encoder
from isogloss.types import FloatArray

Vectors = Callable[[Sequence[str]], FloatArray]


class _Model:
    """An encoder with MTEB's protocol."""

    def __init__(self, encoder: Encoder, vectors: Vectors, package: Any) -> None:  # noqa: ANN401 - mteb, if it is installed
        self._vectors = vectors
        meta = {"name": f"isogloss/{encoder.name.replace('/', '-')}", "revision": encoder.fingerprint}
        self.mteb_model_meta = package.models.model_meta.ModelMeta.create_empty(overwrites=meta)

    def encode(self, inputs: Iterable[dict[str, Any]], **_: object) -> FloatArray:
        """The embeddings of all texts of all batches."""
        return self._vectors([str(text) for batch in inputs for text in batch["text"]])

    def similarity(self, embeddings1: FloatArray, embeddings2: FloatArray) -> FloatArray:
        """All cosines of two matrices."""
        left, right = (unit(np.atleast_2d(np.asarray(one, dtype=np.float32))) for one in (embeddings1, embeddings2))
        product: FloatArray = left @ right.T
        return product

    def similarity_pairwise(self, embeddings1: FloatArray, embeddings2: FloatArray) -> Doubles:
        """Cosines row by row."""
        return cosines(np.asarray(embeddings1, dtype=np.float32), np.asarray(embeddings2, dtype=np.float32))


def measure(encoder: Encoder, tasks: Sequence[Any], vectors: Vectors) -> list[TaskScore]:
    """Main scores of MTEB tasks, given by name (`STS17`) or as task objects; `vectors` embeds texts."""
    package = optional_package("mteb", DataError("the package mteb is not installed here", "pip install mteb"))
    chosen = [_task(package, one) if isinstance(one, str) else one for one in tasks]
    try:
        found = package.evaluate(
            _Model(encoder, vectors, package), chosen, cache=None, show_progress_bar=False, co2_tracker=False
        )
    except (ConnectionError, OSError) as error:
        reason = str(error).strip().split("\n")[0][:160]
        raise DataError(f"MTEB could not fetch its data ({reason})", hint="its tasks need the hub") from error
    return [one for result in found.task_results for one in _measured(result)]


def _measured(result: Any) -> list[TaskScore]:  # noqa: ANN401 - mteb's TaskResult
    parts = []
    for split, subsets in result.scores.items():
        for one in subsets:
            name = one["hf_subset"] if len(result.scores) == 1 else f"{one['hf_subset']} ({split})"
            others = {key: float(value) for key, value in one.items() if isinstance(value, float) and key != "main_score"}
            sample = fixed(float(one["main_score"]), f"mteb {result.task_name} {name}")
            parts.append(TaskScore(f"MTEB {result.task_name}", name, "MTEB's main score", sample, others))
    return parts


def _task(package: Any, name: str) -> Any:  # noqa: ANN401 - mteb's AbsTask
    try:
        return package.get_task(name)
    except (KeyError, ValueError) as error:
        reason = str(error).strip("'\" ").split("\n")[0][:160]
        raise DataError(f"MTEB has no task {name} ({reason})", hint="names are as in mteb: STS17, Tatoeba, BUCC") from error
