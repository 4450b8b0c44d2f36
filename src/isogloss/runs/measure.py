"""Measure the student on the same held-out pairs and queries after each stage.

Held-out pairs: `evaluation/alignment.py`. Queries and documents (`evaluation.retrieval`): `evaluation/tasks/retrieval.py`.
The student's embeddings are stored in the run's folder under its fingerprint, so the same command, run again, only scores. The
last stage is compared with the untouched student and with the bridge (`evaluation/regressions.py`).
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from isogloss.config import EvaluationSettings
from isogloss.evaluation.alignment import AlignmentEvaluator, LanguageResult
from isogloss.evaluation.compare import Comparison, Outcome, compare
from isogloss.evaluation.data.retrieval_sets import RetrievalSet, open_retrieval_set
from isogloss.evaluation.leak_report import Scan
from isogloss.evaluation.regressions import in_words, query_regressions, regressions
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.retrieval import retrieval, teacher_space
from isogloss.evaluation.tasks.task import Task
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.roles import in_role
from isogloss.models.student import Student
from isogloss.runs.run import Run
from isogloss.storage import content_hash
from isogloss.training.data.work_files import kept_array
from isogloss.training.health import Diagnosis, better_next
from isogloss.types import SCHEMA, TEST, TRAIN, Bitext, FloatArray, PairSource, Report

logger = logging.getLogger(__name__)

UNTOUCHED, BRIDGE, BEFORE = "untouched", "bridge", "before"

# What the last stage is compared with; `isogloss add` starts from a finished student.
INPUTS = {UNTOUCHED: "the untouched student", BRIDGE: "the bridge alone", BEFORE: "the student before"}


class Measurements:
    """The scores of a student on held-out pairs and on queries, stage by stage; either may be None.

    Queries and documents are embedded with the prompts that teacher and student have for them.
    """

    def __init__(
        self,
        run: Run,
        evaluator: AlignmentEvaluator | None,
        queries: RetrievalSet | None,
        teacher: Encoder | None,
        student: Student,
    ) -> None:
        self.run, self.evaluator, self.student = run, evaluator, student
        self.stages: list[tuple[str, tuple[LanguageResult, ...]]] = []
        self._vectors: FloatArray | None = None  # of the held-out pairs, by the last stage
        self.outcomes: list[Outcome] = []  # on the queries
        self._retrieval: Task | None = None
        with run.distributed.main_process_first():
            cached = None if teacher is None else CachedEncoder(teacher, run.cache)
            if evaluator is not None and cached is not None:
                evaluator.set_teacher(cached, run.on_progress, "teacher, held out")
            if queries is not None:
                space = None if cached is None else teacher_space(queries, cached, run.on_progress)
                self._retrieval = retrieval(queries, space, own_index=space is None)
        self._held_out = [] if evaluator is None else evaluator.texts
        self._prompted: dict[str, list[str]] = {}  # queries and documents, if the student has a prompt for them
        plain = list[str]()
        for part in self._retrieval.sets if self._retrieval else ():
            own = plain if in_role(student, part.role) is student else self._prompted.setdefault(part.role, [])
            own += part.texts[0]
        self._prompted = {role: list(dict.fromkeys(texts)) for role, texts in self._prompted.items()}
        self.texts = list(dict.fromkeys([*self._held_out, *plain]))

    @property
    def reports(self) -> list[Report]:
        """The report on the held-out pairs after each stage."""
        return [] if self.evaluator is None else [self.evaluator.report(name, results) for name, results in self.stages]

    def retrieval(self, scan: Scan | None = None) -> Comparison | None:
        """The scores on the queries after each stage; `scan` says what the training text was scanned for."""
        outcomes = [replace(one, scan=scan) for one in self.outcomes]
        return compare(outcomes) if outcomes else None

    def add(self, name: str, vectors: FloatArray) -> None:
        """Score the embeddings of `texts` after a stage. Without the teacher's dimension, its index cannot be searched."""
        if self.evaluator is not None:
            self.stages.append((name, self.evaluator.score(vectors[: len(self._held_out)])))
            self._vectors = vectors[: len(self._held_out)]
        if self._retrieval is not None and self._retrieval.fits(vectors.shape[1]):
            space = Space({text: row for row, text in enumerate(self.texts)}, vectors)
            for role, texts in self._prompted.items():
                space = space.joined(role, texts, self._in_role(name, role, texts))
            self.outcomes.append(Outcome(name, tuple(self._retrieval.measure(space))))

    def measure(self, name: str) -> None:
        """Score the student as it is now. Its embeddings are stored in the run's folder."""
        self.add(name, self._kept(name, self.student, self.texts))

    def _in_role(self, name: str, role: str, texts: Sequence[str]) -> FloatArray:
        """The student's embeddings of queries or documents, with its prompt for them."""
        return self._kept(name, in_role(self.student, role), texts)

    def _kept(self, name: str, encoder: Encoder, texts: Sequence[str]) -> FloatArray:
        stage, run = f"{name} student", self.run
        file = f"student-{content_hash(encoder.fingerprint, *texts)[:16]}"
        compute = partial(encoder.encode, texts, run.on_progress, stage)
        return kept_array(run.work, file, compute, run.distributed, run.on_progress, stage)

    def uncertainty_and_bias(self) -> dict[str, Any]:
        """For the model card: intervals of the last scores, and how many neighbors are in a sentence's own language."""
        if self.evaluator is None or self._vectors is None:
            return {}
        found = self.evaluator.intervals(self.stages[-1][1])
        bounds = {language: {name: [round(x, 4) for x in one] for name, one in own.items()} for language, own in found.items()}
        shares = {language: round(share, 4) for language, share in self.evaluator.own_language_share(self._vectors).items()}
        return {"intervals": bounds, "own_language_share": shares}

    def regressions(self, follows_teacher: bool, trained: bool) -> tuple[list[dict[str, Any]], str]:
        """What the last stage does worse than the ones in `INPUTS`: as data, and in a sentence. It is logged, too."""
        found = []
        for name, results in reversed(self.stages[:-1]):
            found += regressions(INPUTS[name], results, self.stages[-1][1]) if name in INPUTS else []
        for outcome in reversed(self.outcomes[:-1]):
            found += query_regressions(INPUTS[outcome.model], outcome, self.outcomes[-1]) if outcome.model in INPUTS else []
        sentence = in_words(found)
        if sentence and trained and any(one.clear for one in found):
            sentence = str(Diagnosis(sentence, better_next(follows_teacher)))
        if sentence and self.run.distributed.is_main_process:
            logger.warning("%s", sentence)
        return [one.as_dict() for one in found], sentence


def measured_queries(settings: EvaluationSettings, languages: Sequence[str] = ()) -> RetrievalSet | None:
    """The documents and queries that a recipe names, if it does, with the queries in these languages (none: all)."""
    found = open_retrieval_set(settings.retrieval) if settings.retrieval else None
    return found.in_languages(languages) if found is not None and languages else found


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
