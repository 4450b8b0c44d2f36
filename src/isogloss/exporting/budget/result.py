"""What a search within a budget found, and how it is written: frontier.json, frontier.html and frontier.svg."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from isogloss.evaluation.regressions import Regression, in_words
from isogloss.exporting.budget.frontier import Scores, Tried, frontier
from isogloss.exporting.budget.megabytes import in_megabytes
from isogloss.report.frontier_page import Point, frontier_page, frontier_picture
from isogloss.storage import write_json, write_text

NAME = "frontier"
SCORE = {  # by whether a teacher is known
    True: "mean of accuracy in the teacher's index and in translation retrieval",
    False: "accuracy in translation retrieval",
}


@dataclass(frozen=True, slots=True)
class Original:
    """The original, run by torch: its bytes if it is a folder, its speed, and its scores where candidates have theirs."""

    size: int | None
    sentences_per_second: float
    shown: Scores
    languages: Mapping[str, Scores]


@dataclass(frozen=True, slots=True)
class Lost:
    """A score of the original and of the best candidate, in one language or on average. Shares are between 0 and 1."""

    language: str
    before: Scores
    after: Scores

    @property
    def points(self) -> float:
        """Percentage points lost; negative if the candidate is better."""
        return 100 * (self.before.mean - self.after.mean)


@dataclass(frozen=True, slots=True)
class Budgeted:
    """The best form within a budget, everything that was tried, and what the best one loses."""

    folder: Path
    model: Path
    budget: int
    best: Tried
    size: int  # bytes of the model's folder
    tried: tuple[Tried, ...]  # the smallest first
    original: Original
    languages: Mapping[str, Scores]  # of the best
    halves: bool  # whether the best was chosen on other sentences than those that scores are shown of
    cut_index: bool  # whether the teacher's index has to be cut like the embeddings
    all_layers: int
    losses: tuple[Regression, ...] = ()  # scores of the best that are clearly lower than the original's
    name: str = ""  # of the original

    @property
    def frontier(self) -> list[Tried]:
        """The candidates that no other one beats in size, speed and score."""
        return frontier(self.tried)

    @property
    def lost(self) -> list[Lost]:
        """What the best loses: on average, then in each language."""
        assert self.best.shown is not None, "the best was measured"
        rows = [Lost("average", self.original.shown, self.best.shown)]
        return rows + [Lost(code, self.original.languages[code], own) for code, own in self.languages.items()]

    @property
    def warning(self) -> str:
        """What the best does clearly worse than the original, and what to do; or nothing."""
        if not self.losses:
            return ""
        smaller = self.best.candidate.trim == "corpus"
        advice = "leave the corpus vocabulary out (--trims off,alphabet)" if smaller else "raise --budget"
        return f"{in_words(self.losses)}. If these languages matter, {advice}."

    def note(self) -> str:
        """How the scores were measured."""
        what = SCORE[self.original.shown.teacher_index is not None]
        split = "the best was chosen on one half of the held-out sentences and is scored on the other"
        same = "the best was chosen on the sentences that it is scored on: there are too few to split"
        return f"Score: {what}, in %; {split if self.halves else same}."

    def as_dict(self) -> dict[str, Any]:
        """For frontier.json and --json."""
        on_frontier = {one.candidate for one in self.frontier}

        def row(one: Tried) -> dict[str, Any]:
            marks = {"fits": one.bytes <= self.budget, "frontier": one.candidate in on_frontier, "best": one is self.best}
            return one.as_dict() | marks

        size = self.original.size
        return {
            "folder": str(self.folder),
            "model": str(self.model),
            "budget_megabytes": self.budget / 1e6,
            "megabytes": round(self.size / 1e6, 3),
            "best": self.best.candidate.name,
            "chosen_on": "one half of the held-out sentences" if self.halves else "all held-out sentences",
            "index_cut": self.cut_index,
            "original": {
                "megabytes": None if size is None else round(size / 1e6, 3),
                "sentences_per_second": round(self.original.sentences_per_second, 1),
                "score": round(self.original.shown.mean, 4),
            },
            "lost": {one.language: round(one.points, 2) for one in self.lost},
            "regressions": [one.as_dict() for one in self.losses],
            "tried": [row(one) for one in self.tried],
        }


def write_frontier(result: Budgeted) -> None:
    """Write the numbers, the page and the picture beside the model."""
    points = [_point(one, result) for one in result.tried if one.measured]
    mark = result.budget / 1e6, f"budget: {in_megabytes(result.budget)}"
    title = f"{result.name}: what fits into {in_megabytes(result.budget)}"
    languages = [(one.language, one.before.mean, one.after.mean, one.points) for one in result.lost]
    write_json(result.folder / f"{NAME}.json", result.as_dict())
    write_text(result.folder / f"{NAME}.svg", frontier_picture(points, mark))
    write_text(result.folder / f"{NAME}.html", frontier_page(title, result.note(), result.warning, points, mark, languages))


def _point(one: Tried, result: Budgeted) -> Point:
    candidate, speed, shown = one.candidate, one.sentences_per_second, one.shown
    assert speed is not None, "it was measured"
    assert shown is not None, "it was measured"
    kind = "dropped" if one is result.best else "train" if one in result.frontier else "quiet"
    layers = f"{candidate.layers} of {result.all_layers} layers" if result.all_layers else "no layers"
    vocabulary = "whole" if candidate.trim == "off" else f"{candidate.trim}: {candidate.rows:,} tokens"
    return Point(one.megabytes, speed, shown.mean, kind, vocabulary, layers, candidate.dimension, candidate.precision)
