"""The same questions to one student again and again: before, between and after what is done to it.

`evaluation/alignment.py` has the questions. Here are the vectors that answer them, kept in a folder so that a session that
goes on only measures. `pipeline` asks an untouched student on its way; this one asks a finished student that grows.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np

from isogloss.checksums import load_array, save_array
from isogloss.evaluation.alignment import AlignmentEvaluator, Rows
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.training.distributed import Distributed
from isogloss.types import FloatArray, Report


def taught_rows(
    questions: AlignmentEvaluator, teacher: Encoder, cache: Path, distributed: Distributed, on_progress: OnProgress
) -> Rows:
    """The teacher's vectors of what is searched, from the cache as far as they are there."""
    sources = list(dict.fromkeys(questions.sources + questions.test.sources()))
    with distributed.main_process_first():
        taught = CachedEncoder(teacher, cache).encode(sources, on_progress, "teacher, held out")
    return Rows({text: row for row, text in enumerate(sources)}, taught)


class Exam:
    """Questions, the teacher's answers to them if there is one, and the reports on the student's."""

    def __init__(
        self,
        questions: AlignmentEvaluator,
        teacher: Encoder | None,
        cache: Path,
        folder: Path,
        on_progress: OnProgress = silent,
    ) -> None:
        self.questions, self.folder, self.tell, self.distributed = questions, folder, on_progress, Distributed.here()
        self.texts = questions.texts()
        self.reports: list[Report] = []
        self._row_of = {text: row for row, text in enumerate(self.texts)}
        self._last: tuple[list[bytes], FloatArray] | None = None  # how texts were cut, and the vectors that gave
        self._teacher = None if teacher is None else taught_rows(questions, teacher, cache, self.distributed, on_progress)

    def ask(self, name: str, vectors: FloatArray) -> None:
        """Score vectors of `texts`, and keep the report."""
        self.reports.append(self.questions.ask(name, Rows(self._row_of, vectors), self._teacher))

    def vectors(self, student: Student, stage: str) -> FloatArray:
        """The student's vectors of `texts` as it is now.

        Between two calls it may have grown, and nothing else: a text that is cut as before has the vector it had.
        """
        tokens = student.tokenize(self.texts)
        cut = [tokens.ids[start:end].tobytes() for start, end in pairwise(tokens.offsets.tolist())]
        path = self.folder / f"student-{content_hash(student.fingerprint, *self.texts)[:16]}.npy"
        with self.distributed.main_process_first():
            kept = load_array(path)
            if kept is None:
                vectors = self._computed(student, cut, stage)
                save_array(path, vectors)
            else:
                vectors = np.asarray(kept)
                self.tell(Step(stage, len(kept), len(kept), "sentences", "reused"))
        self._last = cut, vectors
        return vectors

    def _computed(self, student: Student, cut: list[bytes], stage: str) -> FloatArray:
        if self._last is None:
            return student.encode(self.texts, self.tell, stage)
        before, vectors = self._last[0], self._last[1].copy()
        changed = [row for row, ids in enumerate(cut) if ids != before[row]]
        vectors[changed] = student.encode([self.texts[row] for row in changed], self.tell, stage)
        return vectors
