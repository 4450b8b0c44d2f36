"""How the student does on dev pairs while it is trained: what a checkpoint is chosen by.

Per language, with the student's own vectors: the share of translations whose nearest source sentence is their own, and the
other way round (`retrieval`, the mean of both); and against the teacher, where there is one: the mean squared distance of
both sides to the teacher's vector of the source (`mse`, the paper's measure) and the cosine; where there is none, by how much
cosine translations lead the nearest wrong sentence (`lead`). All are means over languages, so that a large language does not
speak for the others.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from isogloss.training.batches import PairRows
from isogloss.types import FloatArray, IntArray

BLOCK = 4096
TIE = 1e-5  # less than one sentence found among any number we measure


@dataclass(frozen=True, slots=True)
class DevScore:
    """Means over languages; `mse` and `cosine` are None without a teacher in the student's space."""

    retrieval: float
    mse: float | None
    cosine: float | None

    def by(self, select: str) -> float:
        """One number, higher is better. Where as many are found, the one nearer to the teacher is better."""
        if self.mse is None or self.cosine is None:
            return self.retrieval
        if select == "retrieval":
            return self.retrieval + TIE * self.cosine
        return -self.mse if select == "mse" else (self.retrieval + self.cosine) / 2

    def values(self) -> dict[str, float]:
        """For the metrics."""
        named = {"dev_retrieval": self.retrieval, "dev_mse": self.mse, "dev_cosine": self.cosine}
        return {name: value for name, value in named.items() if value is not None}

    def note(self) -> str:
        """For the screen."""
        told = f"dev {100 * self.retrieval:.1f} % found"
        return told if self.mse is None else f"{told}, mse {self.mse:.4f}"


class DevSet:
    """Dev pairs as rows, and the teacher's vectors of their sources (None if no objective follows it)."""

    def __init__(self, pairs: PairRows, teacher: NDArray[np.float16] | None) -> None:
        self.pairs, self.teacher = pairs, teacher
        self.rows = np.unique(np.concatenate([pairs.source, pairs.target]))

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def score(self, vectors_of: Callable[[IntArray], FloatArray]) -> DevScore:
        """Ask for the vectors of all dev sentences once, and measure."""
        vectors = vectors_of(self.rows)
        found: list[tuple[float, float, float]] = []
        for language in np.unique(self.pairs.language):
            mine = self.pairs.language == language
            source, target = self.pairs.source[mine], self.pairs.target[mine]
            found.append(self._language(vectors, source, target))
        retrieval, mse, cosine = (float(np.mean(column)) for column in zip(*found, strict=True))
        return DevScore(retrieval, *((None, None) if self.teacher is None else (mse, cosine)))

    def _language(self, vectors: FloatArray, source: IntArray, target: IntArray) -> tuple[float, float, float]:
        sources, source_of = np.unique(source, return_inverse=True)
        targets, target_of = np.unique(target, return_inverse=True)
        ours, theirs = (vectors[np.searchsorted(self.rows, rows)] for rows in (sources, targets))
        paired = set(zip(source_of.tolist(), target_of.tolist(), strict=True))
        there = np.mean([(place, one) in paired for place, one in enumerate(nearest(ours, theirs))])
        back = np.mean([(one, place) in paired for place, one in enumerate(nearest(theirs, ours))])
        mse = cosine = 0.0
        if self.teacher is not None:
            taught = self.teacher[source].astype(np.float32)
            seen = theirs[target_of]
            mse = float((np.square(seen - taught).sum(1) + np.square(ours[source_of] - taught).sum(1)).mean() / 2)
            lengths = np.linalg.norm(seen, axis=1) * np.linalg.norm(taught, axis=1)
            cosine = float(((seen * taught).sum(1) / np.maximum(lengths, 1e-12)).mean())
        return float((there + back) / 2), mse, cosine


@dataclass(frozen=True, slots=True)
class Won:
    """How many translations were found, and by how much cosine they lead the nearest wrong one, on average."""

    found: DevScore
    lead: float

    def by(self, _select: str) -> float:
        """What is found; of weights that find as many (good students find all of a small set), those that lead by more."""
        return self.found.retrieval + TIE * self.lead

    def values(self) -> dict[str, float]:
        """For the metrics."""
        return {**self.found.values(), "dev_lead": self.lead}

    def note(self) -> str:
        """For the screen."""
        return f"{self.found.note()}, lead {self.lead:.3f}"


class UntaughtDevSet:
    """Dev pairs as rows, of a training without a teacher."""

    def __init__(self, pairs: PairRows) -> None:
        self.pairs = DevSet(pairs, None)

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def score(self, vectors_of: Callable[[IntArray], FloatArray]) -> Won:
        """Ask for the vectors of all dev sentences once, and measure."""
        vectors = vectors_of(self.pairs.rows)
        return Won(self.pairs.score(lambda _rows: vectors), self._lead(vectors))

    def _lead(self, vectors: FloatArray) -> float:
        """Mean over languages of the mean over pairs of cos(s, t) less the largest cos(s, t') of a t' that is not s's."""
        pairs, rows, leads = self.pairs.pairs, self.pairs.rows, []
        unit = torch.nn.functional.normalize(torch.from_numpy(vectors))
        for language in np.unique(pairs.language):
            mine = pairs.language == language
            sources, source_of = np.unique(pairs.source[mine], return_inverse=True)
            targets, target_of = np.unique(pairs.target[mine], return_inverse=True)
            ours, theirs = (unit[np.searchsorted(rows, those)] for those in (sources, targets))
            found = []
            for start in range(0, len(sources), BLOCK):
                here = (start <= source_of) & (source_of < start + BLOCK)
                cosine, own = ours[start : start + BLOCK] @ theirs.T, (source_of[here] - start, target_of[here])
                right = cosine[own]
                cosine[own] = -1.0  # where all are right, the nearest wrong one is as far as can be
                found.append(right - cosine.amax(1)[own[0]])
            leads.append(float(torch.cat(found).mean()))
        return float(np.mean(leads))


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """Dev pairs, and who gives the vectors of their sentences: the engine that trains, or the student."""

    pairs: DevSet | UntaughtDevSet
    vectors_of: Callable[[IntArray], FloatArray]

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def score(self) -> DevScore | Won:
        """Measure the student as it is now."""
        return self.pairs.score(self.vectors_of)


def nearest(queries: FloatArray, candidates: FloatArray) -> list[int]:
    """The row of each query's nearest candidate by cosine."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    left, right = (torch.nn.functional.normalize(torch.from_numpy(one).to(device), dim=1) for one in (queries, candidates))
    found: list[int] = []
    for start in range(0, len(left), BLOCK):
        found += (left[start : start + BLOCK] @ right.T).argmax(1).tolist()
    return found
