"""Whether a model's embeddings can search an index: dimension, metric and norm, each misfit explained in a sentence.

`isogloss index build` and `search` check this first; an error is raised before anything is written or searched.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import DataError, IsoglossError
from isogloss.index.vector_index import IndexFacts, VectorIndex, has_unit_norm
from isogloss.models.encoder import Encoder

Level = Literal["error", "warning", "note"]
PROBES = ("A man is eating food.", "The weather is nice today, so the children play outside.", "Where is the station?", "42")
CHECKED = 64  # stored vectors that are looked at for NaN


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known about the embeddings of a model."""

    name: str
    dimension: int
    unit_norm: bool | None = None
    fingerprint: str = ""
    teacher: str = ""  # the fingerprint of the teacher that it learned from, as far as its run says


@dataclass(frozen=True, slots=True)
class IndexFinding:
    """Something about an index and a model. With an error, results would be wrong."""

    level: Level
    message: str
    hint: str


def model_facts(encoder: Encoder, unit_norm: bool | None = None) -> ModelFacts:
    """The facts about a model; its norm is judged by a few sentences if it is not known."""
    unit = has_unit_norm(encoder.encode(PROBES)) if unit_norm is None else unit_norm
    return ModelFacts(encoder.name, encoder.dimension, unit, encoder.fingerprint, _teacher_of(encoder.name))


def check_before_search(index: VectorIndex, facts: IndexFacts, model: ModelFacts) -> list[IndexFinding]:
    """Everything that `check_fit` finds, and stored vectors that are not finite."""
    found = check_fit(index.address, facts, model)
    sample = index.sample(CHECKED)
    broken = [name for name, vector in zip(sample.ids, sample.vectors, strict=True) if not np.isfinite(vector).all()]
    if broken:
        message = (
            f"{index.address}: the vector of {broken[0]!r} has NaN or infinity ({len(broken)} of {len(sample.ids)} looked at)"
        )
        found.append(IndexFinding("error", message, "these rows are never found: embed their documents again"))
    return found


def refuse_errors(findings: list[IndexFinding]) -> list[IndexFinding]:
    """Raise for the first error; return what is left."""
    for finding in findings:
        if finding.level == "error":
            raise DataError(finding.message, hint=finding.hint)
    return findings


def check_fit(shown: str, facts: IndexFacts, model: ModelFacts) -> list[IndexFinding]:
    """What a person should know before this model searches this index."""
    if not facts.size:
        return [IndexFinding("error", f"{shown}: the index is empty", "isogloss index build fills one with your documents")]
    found = [*_dimension(shown, facts, model), *_build(shown, facts, model)]
    if not found or found[0].level != "error":
        found += _norm(shown, facts, model)
    if facts.note:
        found.append(IndexFinding("note", f"{shown}: {facts.note}", ""))
    return found


def _dimension(shown: str, facts: IndexFacts, model: ModelFacts) -> Iterator[IndexFinding]:
    if facts.dimension == model.dimension:
        return
    maker = f"{facts.built.model} or a student of it" if facts.built else "the model that made it or a student of that model"
    hint = f"search it with {maker}"
    if facts.dimension < model.dimension:
        hint += "; if that is a Matryoshka model, the index has its first columns: save the model with truncate_dim"
    wanted = amount(facts.dimension, "dimension")
    yield IndexFinding("error", f"{shown} holds vectors of {wanted}, but {model.name} makes vectors of {model.dimension}", hint)


def _build(shown: str, facts: IndexFacts, model: ModelFacts) -> Iterator[IndexFinding]:
    """What the note of `isogloss index build` says."""
    if facts.built is None:
        return
    if not facts.built.complete:
        yield IndexFinding(
            "warning",
            f"{shown}: the build has not finished, so documents are missing",
            "run the same isogloss index build again: it continues",
        )
    if model.fingerprint and facts.built.fingerprint not in (model.fingerprint, model.teacher):
        yield IndexFinding(
            "warning",
            f"{shown} was built with {facts.built.model}, and {model.name} is another model",
            f"results are only good if {model.name} is a student of that model",
        )


def _norm(shown: str, facts: IndexFacts, model: ModelFacts) -> Iterator[IndexFinding]:
    """What the metric makes of the lengths. With unit vectors in the index, every metric ranks documents by the cosine."""
    if facts.metric == "cosine" or facts.unit_norm is None or model.unit_norm is None:
        return
    measure = "dot product" if facts.metric == "dot" else "Euclidean distance"
    if facts.unit_norm and not model.unit_norm:
        yield IndexFinding(
            "warning",
            f"{shown} compares by {measure} and its vectors have length 1, but those of {model.name} have not",
            "the ranking is that of the cosine, but scores are scaled by the length of the query: normalize the model's output "
            "if you compare scores with a threshold",
        )
    elif not facts.unit_norm and model.unit_norm:
        why = "long vectors rank first" if facts.metric == "dot" else "distances depend mostly on the lengths in the index"
        yield IndexFinding(
            "warning",
            f"{shown} compares by {measure} and its vectors do not have length 1, but those of {model.name} have: {why}",
            "use the teacher's own normalization for the student, or an index that compares by cosine",
        )


def _teacher_of(name: str) -> str:
    """The fingerprint of the teacher of a finished run; empty if the model is not one."""
    from isogloss.runs.finished import open_finished

    try:
        return open_finished(name).teacher
    except (IsoglossError, OSError, ValueError):
        return ""
