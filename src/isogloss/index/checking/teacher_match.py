"""Whether an index was made by this teacher: stored texts are embedded again and compared with the stored vectors.

If they differ, the usual causes are tried one by one, and the first that explains the vectors is named: a prompt before
documents, fewer dimensions, a mean that was subtracted, lower-cased text, ids out of step with the vectors, texts that have
changed or were cut elsewhere, another model. Without texts in the index only a weaker check is possible: whether the teacher's
queries are nearer to the stored vectors than chance would have it.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np

from isogloss.amounts import amount
from isogloss.evaluation.metrics import Doubles, cosines, unit
from isogloss.index.vector_index import Hits, IndexFacts, StoredRows, VectorIndex
from isogloss.models.encoder import Encoder, SentenceEncoder
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray

Match = Literal["same", "close", "different", "plausible", "doubtful", "unknown"]
SAME, CLOSE, RELATED, UNRELATED = 0.999, 0.98, 0.9, 0.3  # median cosines
MANY, FEW = 0.9, 0.2  # shares of the rows
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
class TeacherMatch:
    """How stored vectors compare with the teacher's: a sentence, what to do, and the median cosine of the texts checked.

    same       the same vectors, perhaps with a prompt before documents (`prompt`)
    close      the same model, with vectors that were compressed
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


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """Some rows of an index, and the teacher's vectors of their texts."""

    ids: list[str]
    texts: list[str]
    stored: FloatArray
    again: FloatArray

    def cosines(self) -> Doubles:
        return cosines(self.stored, self.again)


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
    compared = _Compared([stored.ids[row] for row in rows], texts, stored.vectors[rows], again)
    if compared.stored.shape[1] != teacher.dimension:
        return _other_dimension(teacher, compared)
    alike = compared.cosines()
    median = _median(alike)

    def result(match: Match, text: str, advice: str = "", prompt: str = "") -> TeacherMatch:
        return TeacherMatch(match, text, advice, len(texts), round(median, 4), prompt)

    counted = f"{amount(len(texts), 'stored text')} embedded again"
    if median >= CLOSE and (alike >= CLOSE).mean() >= MANY:
        if median >= SAME:
            return result("same", f"{counted}: the stored vectors are those of {teacher.name} (median cosine {median:.4f})")
        return result("close", f"{counted}: the stored vectors are those of {teacher.name}, compressed (cosine {median:.4f})")
    if found := _explained(teacher, compared):
        text, advice, prompt = found
        return result("same" if prompt else "different", f"{counted}: {text}", advice, prompt)
    text, advice = _in_part(teacher, compared) or _out_of_step(index, facts, compared) or _unexplained(teacher, median)
    if median >= RELATED and not facts.exact and not advice:
        return result("close", f"{counted}: median cosine {median:.2f}, as if the vectors were strongly compressed")
    return result("different", f"{counted}: {text}", advice or "name the model that made the index: --teacher")


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
    first = _median(np.array([_as_cosine(one, facts, vector) for one, vector in zip(hits, asked, strict=True)]))
    return Nearness(first, chance, deviation)


def _explained(teacher: Encoder, compared: _Compared) -> tuple[str, str, str] | None:
    """What explains the vectors, what to do about it, and the prompt if it is one; None if nothing does."""
    texts, vectors, again = compared.texts, compared.stored, compared.again
    chosen = sorted(range(len(texts)), key=lambda row: len(texts[row]))[:TRIED]  # short texts are fast
    few, its = [texts[row] for row in chosen], vectors[chosen]

    def fits(encoder: Encoder, change: Callable[[str], str] = str) -> bool:
        return _median(cosines(its, encoder.encode([change(text) for text in few]))) >= CLOSE

    for prompt in _prompts(teacher):
        other = with_prompt(teacher, prompt)
        if other is not None and fits(other):
            if not prompt:
                return f"documents were embedded by {teacher.name} without a prompt", "", "(none)"
            advice = f"does {teacher.name} need another prompt for queries? Name it: --teacher-prompt TEXT"
            used = getattr(teacher, "prompt", "")
            return f"documents were embedded by {teacher.name} with the prompt {prompt!r}", "" if used else advice, prompt
    if len(texts) > 2 and _median(cosines(vectors - vectors.mean(axis=0), again - again.mean(axis=0))) >= CLOSE:
        return (
            f"these are the vectors of {teacher.name} minus a mean",
            "subtract the same mean from the queries of both models, or make the index without",
            "",
        )
    if any(text != text.lower() for text in few) and fits(teacher, str.lower):
        return f"the texts were lower-cased before {teacher.name} embedded them", "lower-case queries, too", ""
    return None


def _in_part(teacher: Encoder, compared: _Compared) -> tuple[str, str] | None:
    """Which rows differ, if others are the teacher's."""
    alike = compared.cosines()
    matching = alike >= CLOSE
    share = float(matching.mean())
    if share < FEW:
        return None
    lengths = np.array([len(text) for text in compared.texts])
    others = f"{100 * (1 - share):.0f} % of the stored vectors are not those of {teacher.name}"
    cut, whole = lengths[alike < SAME], lengths[alike >= SAME]
    if len(whole) and (cut[:, None] > whole).mean() >= CLOSE:
        return (
            f"{others}: those of the longest texts",
            f"the index was made with another limit on the length: load {teacher.name} with that max_seq_length",
        )
    return (
        f"{others}, such as that of {compared.ids[int(np.argmin(alike))]!r}",
        "these documents have changed since they were embedded, or come from another model: embed them again",
    )


def _out_of_step(index: VectorIndex, facts: IndexFacts, compared: _Compared) -> tuple[str, str] | None:
    """Whether the teacher's vectors are in the index, but under other ids."""
    if facts.metric != "cosine" and not facts.unit_norm:
        return None
    hits = index.search(compared.again[:TRIED], 1)
    for name, one, vector in zip(compared.ids, hits, compared.again, strict=False):
        if _as_cosine(one, facts, vector) >= CLOSE and one.ids[0] != name:
            return (
                f"texts and vectors are out of step: the vector of the text {name!r} is stored as {one.ids[0]!r}",
                "give the index the ids and texts in the order of its vectors",
            )
    return None


def _unexplained(teacher: Encoder, median: float) -> tuple[str, str]:
    if median < UNRELATED:
        return f"they have nothing to do with {teacher.name} (median cosine {median:.2f}): another model made the index", ""
    return (
        f"they are not those of {teacher.name} (median cosine {median:.2f}): another version or pooling of the model,"
        " or the texts were cut or joined with others before",
        "",
    )


def _other_dimension(teacher: Encoder, compared: _Compared) -> TeacherMatch:
    """Whether stored vectors are the first dimensions of the teacher's."""
    vectors, again = compared.stored, compared.again
    stored, its = vectors.shape[1], teacher.dimension
    found = f"the index has {amount(stored, 'dimension')}, {teacher.name} has {its}"
    if stored < its and (median := _median(cosines(vectors, again[:, :stored]))) >= CLOSE:
        return TeacherMatch(
            "different",
            f"{found}: the stored vectors are the first {stored} dimensions of the teacher's",
            f"save teacher and student with truncate_dim={stored}, and check those",
            len(vectors),
            round(median, 4),
        )
    return TeacherMatch("different", found, "name the model that made the index: --teacher", len(vectors))


def _prompts(teacher: Encoder) -> list[str]:
    """Prompts to try: none if there is one, those that the model names, and the usual ones."""
    own = getattr(getattr(teacher, "model", None), "prompts", None) or {}
    used = getattr(teacher, "prompt", "")
    return [one for one in dict.fromkeys([*([""] if used else []), *filter(None, own.values()), *PROMPTS]) if one != used]


def with_prompt(encoder: Encoder, prompt: str) -> Encoder | None:
    """The same model with another prompt; None if it takes none."""
    if isinstance(encoder, SentenceEncoder):
        return SentenceEncoder(encoder.model, encoder.name, prompt, encoder.batch_size, encoder.precision)
    if isinstance(encoder, ExternalEncoder):
        other = copy(encoder)
        other.prompt = prompt
        return other
    return None


def _as_cosine(hits: Hits, facts: IndexFacts, vector: FloatArray) -> float:
    """The cosine of the first result, from its score."""
    if not hits.ids:
        return 0.0
    score, length = float(hits.scores[0]), float(np.linalg.norm(vector)) or 1.0
    if facts.metric == "l2":  # |q − x|² = |q|² + 1 − 2 |q| cos
        return (length**2 + 1 - score**2) / (2 * length)
    return score if facts.metric == "cosine" else score / length


def _median(values: Doubles) -> float:
    return float(np.median(values)) if len(values) else 0.0
