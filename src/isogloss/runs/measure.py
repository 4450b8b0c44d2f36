"""Measure the student on the same held-out pairs after each stage (`evaluation/alignment.py`).

The student's embeddings are stored in the run's folder under its fingerprint, so the same command, run again, only scores. The
last stage is compared with the untouched student and with the bridge (`evaluation/regressions.py`).
"""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from isogloss.config import EvaluationSettings
from isogloss.evaluation.alignment import AlignmentEvaluator, LanguageResult
from isogloss.evaluation.regressions import in_words, regressions
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.student import Student
from isogloss.progress import OnProgress, silent
from isogloss.storage import content_hash
from isogloss.training.data.work_files import kept_array
from isogloss.training.distributed import Distributed
from isogloss.training.health import Diagnosis, better_next
from isogloss.types import SCHEMA, TEST, TRAIN, Bitext, FloatArray, PairSource, Report

logger = logging.getLogger(__name__)

UNTOUCHED, BRIDGE = "untouched", "bridge"
INPUTS = {UNTOUCHED: "the untouched student", BRIDGE: "the bridge alone"}  # what a trained student is compared with


class Measurements:
    """The scores of a student on the evaluator's questions, stage by stage."""

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
        self.stages: list[tuple[str, tuple[LanguageResult, ...]]] = []
        if teacher is not None:
            with self.distributed.main_process_first():
                evaluator.set_teacher(CachedEncoder(teacher, cache), on_progress, "teacher, held out")

    @property
    def reports(self) -> list[Report]:
        """The report on each stage."""
        return [self.evaluator.report(name, results) for name, results in self.stages]

    def add(self, name: str, vectors: FloatArray) -> None:
        """Score the embeddings of `texts` after a stage."""
        self.stages.append((name, self.evaluator.score(vectors)))

    def measure(self, name: str, student: Student) -> None:
        """Score the student as it is now. Its embeddings are stored in the run's folder."""
        stage = f"{name} student"
        file = f"student-{content_hash(student.fingerprint, *self.texts)[:16]}"
        compute = partial(student.encode, self.texts, self.on_progress, stage)
        self.add(name, kept_array(self.folder, file, compute, self.distributed, self.on_progress, stage))

    def regressions(self, follows_teacher: bool, trained: bool) -> tuple[list[dict[str, Any]], str]:
        """What the last stage does worse than the untouched student or the bridge: as data, and in a sentence."""
        *earlier, (_, last) = self.stages
        compared = [(INPUTS[name], results) for name, results in reversed(earlier) if name in INPUTS]
        found = [one for name, results in compared for one in regressions(name, results, last)]
        sentence = in_words(found)
        if sentence and trained and any(one.clear for one in found):
            sentence = str(Diagnosis(sentence, better_next(follows_teacher)))
        if sentence and self.distributed.is_main_process:
            logger.warning("%s", sentence)
        return [one.as_dict() for one in found], sentence


def measured_pairs(pairs: PairSource, settings: EvaluationSettings) -> Bitext:
    """Held-out pairs of each language, and training pairs that are searched with them."""
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
    """The number of training pairs, of held-out pairs, and of source sentences without a translation."""
    counts = pairs.pair_counts()
    source_only = counts.total(language=pairs.source_language)
    return {"train": counts.total(split=TRAIN), "test": counts.total(split=TEST), "source_only": source_only}
