"""Scores of the student on dev pairs during training: what a checkpoint is chosen by.

Per language, with the student's vectors: the share of translations whose nearest source sentence is their own, and the other
way round (`retrieval`, the mean of both). With a teacher in the student's space: the share of translations that find their
source among the teacher's vectors (`teacher_index`), the mean squared distance of both sides to the teacher's vector of the
source (`mse`, the paper's measure) and the cosine. Without one: by how much cosine translations lead the nearest wrong
sentence (`lead`). All are means over languages.

Results are also kept per source sentence, so that `selection` can tell whether two steps differ by more than noise.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from isogloss.search.neighbors import nearest
from isogloss.training.batches import PairRows
from isogloss.training.selection import NOTHING_COUNTED, Doubles, SelectionScore
from isogloss.types import BoolArray, FloatArray, IntArray

BLOCK = 4096


@dataclass(frozen=True, slots=True, eq=False)
class TeacherScores:
    """How near the teacher is: `indexed` adds up to `teacher_index`, as `translated` of `DevScore` to `retrieval`."""

    teacher_index: float
    mse: float
    cosine: float
    indexed: Doubles


@dataclass(frozen=True, slots=True, eq=False)
class DevScore:
    """Means over languages; `teacher` is None without a teacher in the student's space, and only then there is a `lead`.

    `translated` has a number for each source sentence: what its queries add to `retrieval`.
    """

    retrieval: float
    translated: Doubles
    teacher: TeacherScores | None = None
    lead: float = 0.0

    def selection_score(self, select: str) -> SelectionScore:
        """By "both", what is found among translations and in the teacher's index; "retrieval" leaves the index out.

        Where that is within noise, the weights nearer to the teacher are better; by "mse" they always are. Without a teacher
        in the student's space, translations are counted, and then how far they lead.
        """
        if self.teacher is None:
            return SelectionScore(self.translated, self.lead)
        if select == "mse":
            return SelectionScore(NOTHING_COUNTED, -self.teacher.mse)
        found = self.translated if select == "retrieval" else (self.translated + self.teacher.indexed) / 2
        return SelectionScore(found, -self.teacher.mse)

    def values(self) -> dict[str, float]:
        """For the metrics."""
        if self.teacher is None:
            return {"dev_retrieval": self.retrieval, "dev_lead": self.lead}
        near = self.teacher
        named = {"dev_teacher_index": near.teacher_index, "dev_mse": near.mse, "dev_cosine": near.cosine}
        return {"dev_retrieval": self.retrieval, **named}

    def note(self) -> str:
        """For the screen."""
        found = f"dev {100 * self.retrieval:.1f} % found"
        if self.teacher is None:
            return f"{found}, lead {self.lead:.3f}"
        return f"{found}, {100 * self.teacher.teacher_index:.1f} % in the teacher's index, mse {self.teacher.mse:.4f}"


@dataclass(frozen=True, slots=True)
class _LanguagePairs:
    """The dev pairs of one language: distinct rows of each side, and for each pair the place of its rows among them."""

    sources: IntArray
    targets: IntArray
    source_of: IntArray
    target_of: IntArray

    @classmethod
    def of(cls, pairs: PairRows) -> "_LanguagePairs":
        sources, source_of = np.unique(pairs.source, return_inverse=True)
        targets, target_of = np.unique(pairs.target, return_inverse=True)
        return cls(sources, targets, source_of, target_of)

    def has(self, sources: IntArray, targets: IntArray) -> BoolArray:
        """Which of these are pairs; sources and targets are given by their places."""
        wanted = self.source_of * len(self.targets) + self.target_of
        return np.isin(sources * len(self.targets) + targets, wanted)

    def right_sources(self, found: IntArray) -> BoolArray:
        """For each target whether the source that was found is one of its own."""
        return self.has(found, np.arange(len(self.targets)))

    def first_sources(self) -> IntArray:
        """For each target the row of a source of it: the sentence that its queries are counted with."""
        first = np.full(len(self.targets), len(self.sources))
        np.minimum.at(first, self.target_of, self.source_of)
        rows: IntArray = self.sources[first]
        return rows


class DevSet:
    """Dev pairs as rows, and the teacher's vectors of their sources (None if no loss follows it)."""

    def __init__(self, pairs: PairRows, teacher: NDArray[np.float16] | None) -> None:
        self.pairs, self.teacher = pairs, teacher
        self.rows = np.unique(np.concatenate([pairs.source, pairs.target]))
        self._all_sources = np.unique(pairs.source)

    def __len__(self) -> int:
        return len(self.pairs)

    def score(self, vectors_of: Callable[[IntArray], FloatArray]) -> DevScore:
        """Compute the vectors of all dev sentences once, and measure."""
        vectors = vectors_of(self.rows)
        languages = np.unique(self.pairs.language)
        translated, indexed = (np.zeros(len(self._all_sources)) for _ in range(2))
        retrieval, near, leads = [], [], []
        for language in languages:
            pairs = _LanguagePairs.of(self.pairs.where(self.pairs.language == language))
            ours, theirs = (vectors[np.searchsorted(self.rows, rows)] for rows in (pairs.sources, pairs.targets))
            there = pairs.has(np.arange(len(pairs.sources)), nearest(ours, theirs))
            back = pairs.right_sources(nearest(theirs, ours))
            retrieval.append((there.mean() + back.mean()) / 2)
            translated += (self._by_source(pairs.sources, there) + self._by_source(pairs.first_sources(), back)) / 2
            if self.teacher is None:
                leads.append(_lead(ours, theirs, pairs))
                continue
            taught = self.teacher[pairs.sources].astype(np.float32)
            right = pairs.right_sources(nearest(theirs, taught))
            indexed += self._by_source(pairs.first_sources(), right)
            near.append((right.mean(), *_nearness(ours, theirs, taught, pairs)))
        found, translated, indexed = float(np.mean(retrieval)), translated / len(languages), indexed / len(languages)
        if self.teacher is None:
            return DevScore(found, translated, lead=float(np.mean(leads)))
        index, mse, cosine = (float(np.mean(column)) for column in zip(*near, strict=True))
        return DevScore(found, translated, TeacherScores(index, mse, cosine, indexed))

    def _by_source(self, sources: IntArray, right: BoolArray) -> Doubles:
        """What each source sentence adds to the share of right answers of one language."""
        places = np.searchsorted(self._all_sources, sources)
        return np.bincount(places, right / len(right), len(self._all_sources)).astype(np.float64)


def _nearness(ours: FloatArray, theirs: FloatArray, taught: FloatArray, pairs: _LanguagePairs) -> tuple[float, float]:
    """Mean squared distance of both sides to the teacher's vectors of the sources, and mean cosine of the translations."""
    wanted, seen = taught[pairs.source_of], theirs[pairs.target_of]
    mse = float((np.square(seen - wanted).sum(1) + np.square(ours[pairs.source_of] - wanted).sum(1)).mean() / 2)
    lengths = np.linalg.norm(seen, axis=1) * np.linalg.norm(wanted, axis=1)
    return mse, float(((seen * wanted).sum(1) / np.maximum(lengths, 1e-12)).mean())


def _lead(ours: FloatArray, theirs: FloatArray, pairs: _LanguagePairs) -> float:
    """Mean over pairs of cos(s, t) less the largest cos(s, t') of a t' that is not s's."""
    left, right = (torch.nn.functional.normalize(torch.from_numpy(side)) for side in (ours, theirs))
    found = []
    for start in range(0, len(left), BLOCK):
        here = (start <= pairs.source_of) & (pairs.source_of < start + BLOCK)
        cosine, own = left[start : start + BLOCK] @ right.T, (pairs.source_of[here] - start, pairs.target_of[here])
        of_own = cosine[own]
        cosine[own] = -1.0  # own translations are not wrong; −1 if there are no others
        found.append(of_own - cosine.amax(1)[own[0]])
    return float(torch.cat(found).mean())


@dataclass(frozen=True, slots=True)
class MeasuredBy:
    """Dev pairs, and a function that computes the vectors of their sentences."""

    pairs: DevSet
    vectors_of: Callable[[IntArray], FloatArray]

    def __len__(self) -> int:
        return len(self.pairs)

    def score(self) -> DevScore:
        """Measure the current student."""
        return self.pairs.score(self.vectors_of)
