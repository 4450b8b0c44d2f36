"""What is exported: a model, with pairs to measure copies of it on, and text like that it was trained on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path

from isogloss.config import EvaluationSettings
from isogloss.config.exporting import ExportSettings
from isogloss.corpora import phrasebook
from isogloss.corpora.reading.readers import bitext_of, read
from isogloss.evaluation.alignment import AlignmentEvaluator
from isogloss.evaluation.teachers import open_teacher_of
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.student import AS_STORED, Student
from isogloss.progress import OnProgress, silent
from isogloss.runs.finished import Finished, open_finished
from isogloss.runs.measure import measured_pairs
from isogloss.runs.record import RECORD
from isogloss.runs.replay import together
from isogloss.storage import cache_folder
from isogloss.types import TEST, TRAIN, Bitext, PairSource


@dataclass(eq=False)
class ExportSource:
    """A model by name: a finished run, a folder, or a hub name.

    `pairs` are what copies are measured on, and what a smaller model learns from: by default those of the run, or else the
    phrasebook. Nothing is loaded before it is used.
    """

    name: str
    settings: ExportSettings
    pairs_from: Sequence[str] = ()
    teacher_name: str | None = None
    on_progress: OnProgress = silent

    @cached_property
    def run(self) -> Finished | None:
        """The run that made the model, if it is that of a run."""
        folder = Path(self.name).expanduser()
        is_run = any((place / RECORD).is_file() for place in (folder, folder.parent)) if folder.is_dir() else False
        return open_finished(self.name) if is_run else None

    @property
    def title(self) -> str:
        """What the model is called: the name of its run, as in its card, or the last part of its name."""
        if self.run is not None:
            return str(self.run.recipe.get("name") or self.run.folder.resolve().name)
        folder = Path(self.name).expanduser()
        return folder.resolve().name if folder.is_dir() else folder.name

    @cached_property
    def student(self) -> Student:
        """The model, on the CPU. Who changes it takes a copy."""
        return Student.from_pretrained(self.name, prompt=None, max_tokens=AS_STORED, device="cpu")

    @cached_property
    def teacher(self) -> Encoder | None:
        """The teacher whose space the model is in, with cached embeddings; None if it is unknown."""
        found = open_teacher_of([self.name], self.teacher_name)
        return None if found is None else CachedEncoder(found, cache_folder())

    @cached_property
    def pairs(self) -> PairSource:
        """The pairs of the run, those that were named, or the phrasebook."""
        if self.pairs_from:
            named = read(list(self.pairs_from))
            splits = named.table.column("split").unique().to_pylist()
            return named if TEST in splits else named.with_column("split", [TEST] * len(named))
        if self.run is not None and self.run.stores:
            return together([store for store, _languages in self.run.old_pairs()])
        return bitext_of(str(phrasebook.path()))

    @cached_property
    def measured(self) -> Bitext:
        """Held-out pairs of each language, and pairs that are searched with them."""
        limits = EvaluationSettings(max_queries=self.settings.max_queries, max_candidates=self.settings.max_candidates)
        return measured_pairs(self.pairs, limits)

    @cached_property
    def calibration_texts(self) -> list[str]:
        """Training sentences of each language in turn, for int8; those of the phrasebook if only test pairs are known."""
        count = self.settings.calibration
        pairs = self.measured.where(split=TRAIN)
        if not len(pairs):
            pairs = bitext_of(str(phrasebook.path()))
        sides = [pairs.sources(), *(pairs.where(language=language).column("target") for language in pairs.languages)]
        in_turn = (text for row in zip_longest(*sides) for text in row if text)
        return list(islice(dict.fromkeys(in_turn), count))

    @cached_property
    def evaluator(self) -> AlignmentEvaluator:
        """Measures the original and its copies on the same pairs, in the teacher's index if the teacher is known."""
        evaluator = AlignmentEvaluator(self.measured, self.settings.max_candidates)
        if self.teacher is not None:
            evaluator.set_teacher(self.teacher, self.on_progress, "teacher, held out")
        return evaluator
