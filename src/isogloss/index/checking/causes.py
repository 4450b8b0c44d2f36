"""Why stored vectors are not those that a teacher computes: the usual causes, each recognized by what it does to vectors.

A cause that changes every vector (a prompt, a subtracted mean, lower-cased text) is tried on some texts, and named if it
explains at least half of the difference. Otherwise some rows may differ (changed documents, another limit on the length), or
all rows may stand under other ids, or come from another model.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isogloss.amounts import amount
from isogloss.evaluation.metrics import Doubles, cosines
from isogloss.index.vector_index import Hits, IndexFacts, VectorIndex
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.roles import with_prompt
from isogloss.types import FloatArray

Match = Literal["same", "close", "partly", "different", "plausible", "doubtful", "unknown"]
EXACT, CLOSE, UNRELATED = 0.999, 0.98, 0.3  # cosines
FEW, HALF = 0.2, 0.5  # shares
TRIED = 24  # texts on which causes are tried
# What is often put before documents or queries: E5, Nomic, BGE, GTE, EmbeddingGemma, mxbai, Snowflake.
PROMPTS = (
    "passage: ",
    "query: ",
    "search_document: ",
    "search_query: ",
    "title: none | text: ",
    "task: search result | query: ",
    "Represent this sentence for searching relevant passages: ",
)


@dataclass(frozen=True, slots=True)
class Cause:
    """What stored vectors are, in a sentence; what to do about it; and the prompt, if one was put before documents."""

    match: Match
    text: str
    advice: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """Some rows of an index, and the teacher's vectors of their texts."""

    ids: list[str]
    texts: list[str]
    stored: FloatArray
    again: FloatArray

    def cosines(self) -> Doubles:
        """How alike the stored vector and the teacher's are, row by row."""
        return cosines(self.stored, self.again)

    def short(self) -> "Compared":
        """The rows with the shortest texts, which are embedded fast."""
        rows = sorted(range(len(self.texts)), key=lambda row: len(self.texts[row]))[:TRIED]
        return Compared([self.ids[row] for row in rows], [self.texts[row] for row in rows], self.stored[rows], self.again[rows])


def of_every_vector(teacher: Encoder, compared: Compared) -> Cause | None:
    """What was done to every text or vector, if one of the usual things explains the difference: the one that fits best."""
    before = 1 - median(compared.cosines())
    few = compared.short()
    tried = [*_prompted(teacher, few), *_lower_cased(teacher, few), *_centered(teacher, compared)]
    fit, cause = max(tried, key=lambda one: one[0], default=(0.0, None))
    return cause if fit >= CLOSE and 1 - fit <= HALF * before else None


def _prompted(teacher: Encoder, few: Compared) -> Iterator[tuple[float, Cause]]:
    used = getattr(teacher, "prompt", "")
    for prompt in _prompts(teacher):
        if (other := with_prompt(teacher, prompt)) is None:
            return
        text = f"documents were embedded by {teacher.name} " + (f"with the prompt {prompt!r}" if prompt else "without a prompt")
        advice = f"does {teacher.name} need another prompt for queries? Name it: --teacher-prompt TEXT"
        fit = median(cosines(few.stored, other.encode(few.texts)))
        yield fit, Cause("same", text, "" if used else advice, prompt or "(none)")


def _lower_cased(teacher: Encoder, few: Compared) -> Iterator[tuple[float, Cause]]:
    lower = [text.lower() for text in few.texts]
    if lower != few.texts:
        text = f"the texts were lowercased before {teacher.name} embedded them"
        yield median(cosines(few.stored, teacher.encode(lower))), Cause("different", text, "lowercase queries too")


def _centered(teacher: Encoder, compared: Compared) -> Iterator[tuple[float, Cause]]:
    """Vectors that are the teacher's but for a constant: minus their mean, or something that moved all of them alike."""
    means = [one.mean(axis=0) for one in (compared.stored, compared.again)]
    if len(compared.ids) < 3:
        return
    fit = median(cosines(compared.stored - means[0], compared.again - means[1]))
    if np.linalg.norm(means[0]) < HALF * np.linalg.norm(means[1]):
        text, advice = "minus a mean", "subtract the same mean from the queries of both models, or make the index without"
        yield fit, Cause("different", f"these are the vectors of {teacher.name} {text}", advice)
    else:
        text = f"these are the vectors of {teacher.name} plus a constant offset, as an unknown prompt would cause"
        yield fit, Cause("close", text, "queries may need a prompt too: --teacher-prompt TEXT")


def in_part(teacher: Encoder, compared: Compared) -> Cause | None:
    """Which rows differ, if others are the teacher's."""
    alike = compared.cosines()
    share = float((alike >= CLOSE).mean())
    if share < FEW:
        return None
    match: Match = "partly" if share >= HALF else "different"
    lengths = np.array([len(text) for text in compared.texts])
    others = f"{100 * (1 - share):.0f} % of the stored vectors are not those of {teacher.name}"
    cut, whole = lengths[alike < EXACT], lengths[alike >= EXACT]
    if len(whole) and (cut[:, None] > whole).mean() >= CLOSE:
        advice = f"the index was made with another maximum length: load {teacher.name} with that max_seq_length"
        return Cause(match, f"{others}: those of the longest texts", advice)
    advice = "these documents have changed since they were embedded, or come from another model: embed them again"
    return Cause(match, f"{others}, such as that of {compared.ids[int(np.argmin(alike))]!r}", advice)


def out_of_step(index: VectorIndex, facts: IndexFacts, compared: Compared) -> Cause | None:
    """Whether the teacher's vectors are in the index, but under other ids."""
    if facts.metric != "cosine" and not facts.unit_norm:
        return None
    hits = index.search(compared.again[:TRIED], 1)
    for name, one, vector in zip(compared.ids, hits, compared.again, strict=False):
        if as_cosine(one, facts, vector) >= CLOSE and one.ids[0] != name:
            text = f"texts and vectors are out of step: the vector of the text {name!r} is stored as {one.ids[0]!r}"
            return Cause("different", text, "give the index the ids and texts in the order of its vectors")
    return None


def unexplained(teacher: Encoder, middle: float) -> Cause:
    """Another model, by how unlike the vectors are."""
    if middle < UNRELATED:
        text = f"they have nothing to do with {teacher.name} (median cosine {middle:.2f}): another model made the index"
    else:
        text = (
            f"they are not those of {teacher.name} (median cosine {middle:.2f}): another version or pooling of the model, or"
            " the texts were cut or joined with others before"
        )
    return Cause("different", text, "name the model that made the index: --teacher")


def fewer_dimensions(teacher: Encoder, compared: Compared) -> tuple[Cause, float]:
    """Whether stored vectors are the first dimensions of the teacher's, and their median cosine with these."""
    stored, its = compared.stored.shape[1], teacher.dimension
    found = f"the index has {amount(stored, 'dimension')}, {teacher.name} has {its}"
    middle = median(cosines(compared.stored, compared.again[:, :stored])) if stored < its else 0.0
    if middle < CLOSE:
        return Cause("different", found, "name the model that made the index: --teacher"), middle
    text = f"{found}: the stored vectors are the first {stored} dimensions of the teacher's"
    return Cause("different", text, f"save teacher and student with truncate_dim={stored}, and check those"), middle


def _prompts(teacher: Encoder) -> list[str]:
    """Prompts to try: none if there is one, those that the model names, and the usual ones."""
    own = getattr(getattr(teacher, "model", None), "prompts", None) or {}
    used = getattr(teacher, "prompt", "")
    return [one for one in dict.fromkeys([*([""] if used else []), *filter(None, own.values()), *PROMPTS]) if one != used]


def as_cosine(hits: Hits, facts: IndexFacts, vector: FloatArray) -> float:
    """The cosine of the first result, from its score."""
    if not hits.ids:
        return 0.0
    score, length = float(hits.scores[0]), float(np.linalg.norm(vector)) or 1.0
    if facts.metric == "l2":  # |q − x|² = |q|² + 1 − 2 |q| cos
        return (length**2 + 1 - score**2) / (2 * length)
    return score if facts.metric == "cosine" else score / length


def median(values: Doubles) -> float:
    """The median; 0 if there are no values."""
    return float(np.median(values)) if len(values) else 0.0
