"""The student measured on held-out pairs after each stage, always by the same questions.

`evaluation/alignment.py` has the questions. Vectors are kept in the run's folder under the student's fingerprint, so the same
command, run again, only scores. The last stage is compared with what went in (`evaluation/regressions.py`).
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isogloss.checksums import load_array, save_array
from isogloss.config import EvaluationSettings
from isogloss.evaluation.alignment import AlignmentEvaluator, LanguageResult
from isogloss.evaluation.regressions import in_words, regressions
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.training.distributed import Distributed
from isogloss.training.health import Diagnosis, better_next
from isogloss.training.work_files import use
from isogloss.types import SCHEMA, TEST, TRAIN, Bitext, FloatArray, PairSource, Report

logger = logging.getLogger(__name__)

UNTOUCHED, BRIDGE = "untouched", "bridge"
INPUTS = {UNTOUCHED: "the untouched student", BRIDGE: "the bridge alone"}  # what a trained student is compared with


@dataclass(frozen=True, slots=True)
class Measured:
    """A report on one stage, and its values per query."""

    report: Report
    results: tuple[LanguageResult, ...]


class Measurements:
    """Reports on a student, stage by stage."""

    def __init__(
        self,
        evaluator: AlignmentEvaluator,
        teacher: Encoder | None,
        cache: Path,
        folder: Path,
        on_progress: OnProgress = silent,
    ) -> None:
        self.evaluator, self.folder, self.on_progress = evaluator, folder, on_progress
        self.distributed = Distributed.here()
        self.texts = evaluator.texts
        self.stages: list[Measured] = []
        if teacher is not None:
            with self.distributed.main_process_first():
                evaluator.set_teacher(CachedEncoder(teacher, cache), on_progress, "teacher, held out")

    @property
    def reports(self) -> list[Report]:
        """The report on each stage."""
        return [stage.report for stage in self.stages]

    def add(self, name: str, vectors: FloatArray) -> None:
        """Score vectors of `texts` as those of the stage `name`."""
        results = self.evaluator.score(vectors)
        self.stages.append(Measured(self.evaluator.report(name, results), results))

    def measure(self, name: str, student: Student) -> None:
        """Score the student as it is now."""
        self.add(name, self.vectors(student, f"{name} student"))

    def vectors(self, student: Student, stage: str, compute: Callable[[], FloatArray] | None = None) -> FloatArray:
        """The student's vectors of `texts` as it is now: found in the folder, or computed (by `compute`) and kept there."""
        path = self.folder / f"student-{content_hash(student.fingerprint, *self.texts)[:16]}.npy"
        use(path)
        with self.distributed.main_process_first():
            kept = load_array(path)
            if kept is not None:
                self.on_progress(Step(stage, len(kept), len(kept), "sentences", "reused"))
                return np.asarray(kept)
            vectors = student.encode(self.texts, self.on_progress, stage) if compute is None else compute()
            save_array(path, vectors)
            return vectors

    def after_growing(self, student: Student, before: FloatArray, tokens_before: list[bytes], stage: str) -> FloatArray:
        """Vectors of a student whose vocabulary grew and nothing else: a text with the same tokens has the same vector."""

        def compute() -> FloatArray:
            changed = [row for row, ids in enumerate(self.tokens(student)) if ids != tokens_before[row]]
            vectors = before.copy()
            vectors[changed] = student.encode([self.texts[row] for row in changed], self.on_progress, stage)
            return vectors

        return self.vectors(student, stage, compute)

    def tokens(self, student: Student) -> list[bytes]:
        """The token ids of each text, to be compared."""
        tokens = student.tokenize(self.texts)
        return [tokens.ids[start:end].tobytes() for start, end in pairwise(tokens.offsets.tolist())]

    def regressions(self, follows_teacher: bool, trained: bool) -> tuple[list[dict[str, Any]], str]:
        """What the last stage does worse than the untouched student or the bridge: as data, and in a sentence."""
        *earlier, last = self.stages
        compared = [stage for stage in reversed(earlier) if stage.report.model in INPUTS]
        found = [one for stage in compared for one in regressions(INPUTS[stage.report.model], stage.results, last.results)]
        sentence = in_words(found)
        if sentence and trained and any(one.clear for one in found):
            sentence = str(Diagnosis(sentence, better_next(follows_teacher)))
        if sentence and self.distributed.is_main_process:
            logger.warning("%s", sentence)
        return [one.as_dict() for one in found], sentence


def evaluator_for(pairs: PairSource, settings: EvaluationSettings) -> AlignmentEvaluator:
    """The questions that a student is asked about these pairs."""
    return AlignmentEvaluator(measured_pairs(pairs, settings), settings.max_candidates)


def measured_pairs(pairs: PairSource, settings: EvaluationSettings) -> Bitext:
    """What is measured: held-out pairs of each language, and others to search among."""
    limits = {TEST: settings.max_queries, TRAIN: settings.max_candidates}
    available = pairs.pair_counts()
    splits = [(language, split) for language in pairs.languages for split in limits]
    wanted = sum(min(limits[split], available.total(language=language, split=split)) for language, split in splits)
    taken: dict[tuple[str, str], int] = {}
    kept = [SCHEMA.empty_table()]
    for block in pairs.in_blocks():
        if sum(taken.values()) == wanted:
            break
        columns = zip(block.column("language").to_pylist(), block.column("split").to_pylist(), strict=True)
        mask = np.zeros(block.num_rows, dtype=np.bool_)
        for place, key in enumerate(columns):
            count = taken.get(key, 0)
            if count < limits[key[1]]:
                taken[key], mask[place] = count + 1, True
        kept.append(block.filter(pa.array(mask)).select(SCHEMA.names))
    return Bitext(pa.concat_tables(kept).combine_chunks(), pairs.source_language)


def pair_counts(pairs: PairSource) -> dict[str, int]:
    """How many pairs are trained on, held out, and source text without translation."""
    counts = pairs.pair_counts()
    source_only = counts.total(language=pairs.source_language)
    return {"train": counts.total(split=TRAIN), "test": counts.total(split=TEST), "source_only": source_only}
