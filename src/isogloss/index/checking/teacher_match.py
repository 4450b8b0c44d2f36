"""Whether an index was made by this teacher: stored texts are embedded again and compared with the stored vectors.

If they differ, `causes` says why. Without texts in the index only a weaker check is possible: whether the teacher's queries are
nearer to the stored vectors than chance would have it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isogloss.amounts import amount
from isogloss.evaluation.metrics import unit
from isogloss.index.checking.causes import (
    CLOSE,
    Cause,
    Compared,
    Match,
    as_cosine,
    fewer_dimensions,
    in_part,
    median,
    of_every_vector,
    out_of_step,
    unexplained,
)
from isogloss.index.vector_index import Hits, IndexFacts, StoredRows, VectorIndex
from isogloss.models.encoder import Encoder
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray

SAME, RELATED = 0.999, 0.9  # median cosines
MANY = 0.9  # share of the rows


@dataclass(frozen=True, slots=True)
class TeacherMatch:
    """How stored vectors compare with the teacher's: a sentence, what to do, and the median cosine of the texts checked.

    same       the same vectors, perhaps with a prompt before documents (`prompt`)
    close      the same model, with vectors that were compressed
    partly     most vectors are the same
    different  not this model, or not as it is used here
    plausible  there are no texts, but the teacher's queries are near stored vectors
    doubtful   there are no texts, and its queries are no nearer than chance
    unknown    there is nothing to check
    """

    match: Match
    text: str
    advice: str = ""
    checked: int = 0
    cosine: float | None = None
    prompt: str = ""


def match_teacher(
    index: VectorIndex, facts: IndexFacts, teacher: Encoder, stored: StoredRows, on_progress: OnProgress = silent
) -> TeacherMatch | None:
    """Compare stored vectors with the teacher's of the stored texts; None if there are no texts."""
    given = stored.texts or []
    rows = [row for row, text in enumerate(given) if text.strip()]
    if not rows:
        return None
    texts = [given[row] for row in rows]
    again = teacher.encode(texts, on_progress, "stored texts, again")
    compared = Compared([stored.ids[row] for row in rows], texts, stored.vectors[rows], again)
    if compared.stored.shape[1] != teacher.dimension:
        cause, middle = fewer_dimensions(teacher, compared)
    else:
        cause, middle = _cause(index, facts, teacher, compared), median(compared.cosines())
    text = f"{amount(len(texts), 'stored text')} embedded again: {cause.text}"
    return TeacherMatch(cause.match, text, cause.advice, len(texts), round(middle, 4), cause.prompt)


def _cause(index: VectorIndex, facts: IndexFacts, teacher: Encoder, compared: Compared) -> Cause:
    """What the stored vectors are: the likelier explanations first."""
    alike = compared.cosines()
    middle, most = median(alike), bool((alike >= CLOSE).mean() >= MANY)
    its = f"the stored vectors are those of {teacher.name}"
    if middle >= SAME and most:
        return Cause("same", f"{its} (median cosine {middle:.4f})")
    if cause := of_every_vector(teacher, compared):
        return cause
    if middle >= CLOSE and most:
        return Cause("close", f"{its}, compressed or of a version that is nearly the same (median cosine {middle:.4f})")
    if cause := in_part(teacher, compared) or out_of_step(index, facts, compared):
        return cause
    if middle >= RELATED and not facts.exact:
        return Cause("close", f"{its} if the index compresses them strongly (median cosine {middle:.2f})")
    return unexplained(teacher, middle)


def match_without_texts(
    facts: IndexFacts, teacher: Encoder, stored: StoredRows, asked: FloatArray, hits: Sequence[Hits]
) -> TeacherMatch:
    """Compare how near the teacher's queries come to the index with what chance would give; `hits` are what they found."""
    weaker = "the index has no texts, so it is not verified that this teacher made it"
    advice = "name the texts where you can: docs.npy?texts=FILE"
    near = nearness(facts, stored, asked, hits)
    if near is None:
        return TeacherMatch("unknown", weaker, advice)
    compared = (
        f"first results have a median cosine of {near.first:.2f}, where unrelated vectors would have about {near.chance:.2f}"
    )
    if near.above_chance:
        return TeacherMatch("plausible", f"{weaker}; it seems so: {compared}", advice)
    return TeacherMatch(
        "doubtful", f"{weaker}, and it does not seem so, or the queries are not about its documents: {compared}", advice
    )


@dataclass(frozen=True, slots=True)
class Nearness:
    """The median cosine of queries with their first result, what chance would give, and how much cosines deviate."""

    first: float
    chance: float
    deviation: float

    @property
    def above_chance(self) -> bool:
        """Whether queries are clearly nearer to the index than unrelated vectors."""
        return self.first > self.chance + self.deviation


def nearness(facts: IndexFacts, stored: StoredRows, asked: FloatArray, hits: Sequence[Hits]) -> Nearness | None:
    """How near queries come to the documents of an index; None if its scores cannot be compared with cosines.

    Among N independent similarities with mean μ and deviation σ, the largest is near μ + σ·√(2 ln N).
    """
    comparable = facts.metric == "cosine" or facts.unit_norm
    if not comparable or not len(asked) or len(stored.ids) < 2:
        return None
    random = unit(asked) @ unit(stored.vectors).T
    deviation = float(random.std())
    chance = float(random.mean()) + deviation * float(np.sqrt(2 * np.log(max(facts.size, 2))))
    first = median(np.array([as_cosine(one, facts, vector) for one, vector in zip(hits, asked, strict=True)]))
    return Nearness(first, chance, deviation)
