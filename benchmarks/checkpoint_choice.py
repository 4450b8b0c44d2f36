"""Which checkpoint each rule keeps, and what that costs: in simulated trainings, where the truth is known, and recorded ones.

`python benchmarks/checkpoint_choice.py`            simulate; writes results/checkpoint_choice.json
`python benchmarks/checkpoint_choice.py RUN …`      what the rules would have kept in finished runs, from their metrics.jsonl

In the simulation a training is measured eleven times. Whether a sentence is found depends on how hard it is, on chance, which
changes slowly from one measurement to the next, and on how good the student is; the distance to the teacher halves on the way.
The dev set is small, so a rule can be misled; what a checkpoint really finds is computed from the formula.

metrics.jsonl has shares, not answers. For a recorded run, "one standard error" is therefore that of the best share itself,
which is larger than that of a difference if most answers stay the same; --dev-sources is the number of source sentences.
"""

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from provenance import provenance

from isogloss.runs.run_folder import METRICS
from isogloss.training.selection import SelectionScore, choose, standard_errors

RESULT = Path(__file__).with_name("results") / "checkpoint_choice.json"
SEED, TRAININGS, CHECKS = 17, 400, 11
SOURCES, LANGUAGES = 500, 4
DIFFICULTY, OF_A_LANGUAGE, CHANCE, MEMORY = 0.8, 0.5, 0.7, 0.9  # spreads, and the correlation of chance between measurements
PROGRESS = np.linspace(0.0, 1.0, CHECKS)
COURSES: dict[str, NDArray[np.float64]] = {  # how good the student is, step by step
    "nearly all found from the start": np.full(CHECKS, 2.6),
    "as good at every step": np.full(CHECKS, 0.4),
    "better and better": 0.3 + 1.2 * np.sqrt(PROGRESS),
    "a little worse after a third": 1.5 - 0.15 * np.maximum(PROGRESS - 0.3, 0) / 0.7,
    "much worse after a third": 1.5 - 0.6 * np.maximum(PROGRESS - 0.3, 0) / 0.7,
}
Rule = Callable[[Sequence[SelectionScore]], int]


class Training(NamedTuple):
    """The measurements of a training, and what each checkpoint really finds."""

    measured: list[SelectionScore]
    truth: NDArray[np.float64]


def trained(course: NDArray[np.float64], random: np.random.Generator) -> Training:
    """One simulated training."""
    hard = DIFFICULTY * random.normal(size=(SOURCES, 1)) + OF_A_LANGUAGE * random.normal(size=(SOURCES, LANGUAGES))
    chance = random.normal(size=hard.shape)
    measured = []
    for skill, nearness in zip(course, PROGRESS, strict=True):
        found = (skill + hard + CHANCE * chance > 0).mean(1) / SOURCES
        measured.append(SelectionScore(found, -1 + 0.5 * nearness + 0.002 * random.normal()))
        chance = MEMORY * chance + math.sqrt(1 - MEMORY**2) * random.normal(size=hard.shape)
    spread = math.sqrt(DIFFICULTY**2 + OF_A_LANGUAGE**2 + CHANCE**2)
    return Training(measured, np.array([NormalDist().cdf(skill / spread) for skill in course]))


def most_found(scores: Sequence[SelectionScore]) -> int:
    """The first of those that found most: the default before, which looked at retrieval alone."""
    return int(np.argmax([round(score.found.sum(), 9) for score in scores]))


def nearest(scores: Sequence[SelectionScore]) -> int:
    """The nearest to the teacher."""
    return int(np.argmax([score.value for score in scores]))


def within(errors: float, paired: bool) -> Rule:
    """The nearest of those at most so many standard errors below the best: of the difference, or of the best score."""

    def rule(scores: Sequence[SelectionScore]) -> int:
        best = scores[most_found(scores)].found
        own = math.sqrt(np.square(best - best.mean()).sum())
        below = [standard_errors(best - score.found) if paired else (best - score.found).sum() / own for score in scores]
        allowed = [place for place, much in enumerate(below) if much <= errors + 1e-9]
        return max(allowed, key=lambda place: scores[place].value)

    return rule


RULES: dict[str, Rule] = {
    "most found, the first of equals": most_found,
    "nearest to the teacher": nearest,
    "within one standard error of the best score": within(1, paired=False),
    "within two standard errors of the difference": within(2, paired=True),
    "within one standard error of the difference (ours)": choose,
}


def simulate() -> dict[str, Any]:
    """For each course and rule: points of what is found that are lost, distance left, share of early checkpoints kept."""
    rows: dict[str, dict[str, Any]] = {}
    for course, skill in COURSES.items():
        random = np.random.default_rng(SEED)
        trainings = [trained(skill, random) for _ in range(TRAININGS)]
        rows[course] = {}
        for name, rule in RULES.items():
            kept = np.array([rule(one.measured) for one in trainings])
            lost = [100 * (one.truth.max() - one.truth[place]) for one, place in zip(trainings, kept, strict=True)]
            far = [0.5 * (1 - PROGRESS[place]) for place in kept]
            rows[course][name] = {
                "lost_points": round(float(np.mean(lost)), 3),
                "distance_left": round(float(np.mean(far)), 3),
                "early": round(float(np.mean(kept <= CHECKS // 3)), 4),
            }
    return rows


def recorded(run: Path, dev_sources: int) -> list[dict[str, Any]]:
    """For each stage of a finished run that was measured against a teacher: the step that each rule keeps, and its scores."""
    lines = [json.loads(line) for line in (run / METRICS).read_text(encoding="utf-8").splitlines()]
    stages: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        if "dev_mse" in line:
            stages.setdefault(line["stage"], []).append(line)
    return [_replayed(run, stage, measured, dev_sources) for stage, measured in stages.items()]


def _replayed(run: Path, stage: str, measured: list[dict[str, Any]], dev_sources: int) -> dict[str, Any]:
    found = np.array([(line["dev_retrieval"] + line["dev_teacher_index"]) / 2 for line in measured])
    mse, best = np.array([line["dev_mse"] for line in measured]), found.max()
    error = math.sqrt(best * (1 - best) / dev_sources)
    allowed = np.flatnonzero(found >= best - error - 1e-9)
    kept = {
        "most translations found": int(np.argmax([line["dev_retrieval"] for line in measured])),
        "nearest to the teacher": int(mse.argmin()),
        "within one standard error of the best score": int(allowed[mse[allowed].argmin()]),
    }
    scores = ("step", "dev_retrieval", "dev_teacher_index", "dev_mse")
    steps = {name: {score: measured[place][score] for score in scores} for name, place in kept.items()}
    return {"run": run.name, "stage": stage, "measurements": len(measured), "kept": steps}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="folders of finished runs")
    parser.add_argument("--dev-sources", type=int, default=500, help="source sentences of their dev sets")
    arguments = parser.parse_args()
    if arguments.runs:
        for one in arguments.runs:
            for replay in recorded(one, arguments.dev_sources):
                print(json.dumps(replay, indent=1))
    else:
        about = {"trainings": TRAININGS, "measurements": CHECKS, "sources": SOURCES, "languages": LANGUAGES}
        result = {**provenance(SEED), **about, "courses": simulate()}
        RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        print(RESULT)
