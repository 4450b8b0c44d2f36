"""Candidates and what they cost and give: which fit, which are on the frontier, which is the best.

A candidate is on the frontier if no other one is at least as small, as fast and as good, and better in one of the three.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from isogloss.config.exporting import Precision, Trim


@dataclass(frozen=True, slots=True)
class Candidate:
    """A form of the model: which vocabulary and layers are left, the size of embeddings, and the precision of the file."""

    trim: Trim
    layers: int  # 0 if the model has no layers
    dimension: int
    precision: Precision
    rows: int  # of the token table

    @property
    def name(self) -> str:
        """A short name: "corpus-l6-d384-int8"."""
        return f"{self.trim}-l{self.layers}-d{self.dimension}-{self.precision}"


@dataclass(frozen=True, slots=True)
class Scores:
    """Accuracy on one half of the held-out queries, averaged over languages. Shares are between 0 and 1."""

    teacher_index: float | None  # None if no teacher is known
    retrieval: float  # of translations, mean of both directions

    @property
    def mean(self) -> float:
        """What candidates are compared by: the mean of both, or of the one that is known."""
        return self.retrieval if self.teacher_index is None else (self.teacher_index + self.retrieval) / 2


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate with its size, and its speed and scores if it was measured.

    The best is chosen by `chosen_by`; the scores that are shown are `shown`, on the other half of the held-out queries.
    """

    candidate: Candidate
    predicted: int  # bytes of the folder
    size: int | None = None  # bytes that were written
    sentences_per_second: float | None = None
    chosen_by: Scores | None = None
    shown: Scores | None = None
    cosine: float | None = None  # mean, to the embeddings of the original

    @property
    def bytes(self) -> int:
        """The size: measured, or else predicted."""
        return self.predicted if self.size is None else self.size

    @property
    def megabytes(self) -> float:
        """The size in units of 1,000,000 bytes."""
        return self.bytes / 1e6

    @property
    def measured(self) -> bool:
        """Whether its speed and scores are known."""
        return self.chosen_by is not None

    def gains(self) -> tuple[float, float, float]:
        """Size, speed and score as numbers of which more is better."""
        if self.chosen_by is None or self.sentences_per_second is None:
            raise ValueError(f"{self.candidate.name} was not measured")
        return -float(self.bytes), self.sentences_per_second, self.chosen_by.mean

    def as_dict(self) -> dict[str, Any]:
        """For frontier.json."""
        candidate = self.candidate

        def scores(found: Scores | None) -> dict[str, float | None] | None:
            if found is None:
                return None
            index = None if found.teacher_index is None else round(found.teacher_index, 4)
            return {"teacher_index": index, "retrieval": round(found.retrieval, 4), "score": round(found.mean, 4)}

        speed = self.sentences_per_second
        return {
            "name": candidate.name,
            "trim": candidate.trim,
            "layers": candidate.layers,
            "dimension": candidate.dimension,
            "precision": candidate.precision,
            "vocabulary": candidate.rows,
            "megabytes": round(self.megabytes, 3),
            "predicted_megabytes": round(self.predicted / 1e6, 3),
            "sentences_per_second": None if speed is None else round(speed, 1),
            "chosen_by": scores(self.chosen_by),
            "shown": scores(self.shown),
            "cosine": None if self.cosine is None else round(self.cosine, 4),
        }


def frontier(tried: Sequence[Tried]) -> list[Tried]:
    """The measured candidates that no other one beats, the smallest first. Of equals, the first stays."""
    measured = [one for one in tried if one.measured]
    gains = [one.gains() for one in measured]

    def beaten(place: int) -> bool:
        own = gains[place]
        return any(
            all(theirs >= mine for theirs, mine in zip(other, own, strict=True)) and (other != own or rival < place)
            for rival, other in enumerate(gains)
            if rival != place
        )

    return sorted((one for place, one in enumerate(measured) if not beaten(place)), key=lambda one: one.bytes)


def best_within(tried: Sequence[Tried], budget: int) -> Tried | None:
    """The measured candidate with the highest score that fits; of equals the smaller, then the faster one."""
    fitting = [one for one in tried if one.measured and one.bytes <= budget]
    return max(fitting, key=lambda one: (one.gains()[2], one.gains()[0], one.gains()[1]), default=None)
