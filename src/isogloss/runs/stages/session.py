"""What every stage works with: the student, the teacher, the data, the run, and the training of tasks."""

import importlib
import logging
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from isogloss.config import Recipe, Stage
from isogloss.errors import IsoglossError
from isogloss.evaluation.sts_dev import STSDev
from isogloss.models.encoder import Encoder
from isogloss.models.student import Student
from isogloss.models.tokenizer_checks import refuse_unknown_text
from isogloss.runs.measure import UNTOUCHED, Measurements
from isogloss.runs.run import Run, StageResult
from isogloss.runs.stages.data import StageData
from isogloss.storage import content_hash
from isogloss.training.batches import PairRows
from isogloss.training.data.pair_dataset import PairDataset
from isogloss.training.dev_split import split_dev
from isogloss.training.distillation import Distillation
from isogloss.training.tasks.protocol import Task
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.training.train import TaskSettings, train
from isogloss.training.trainer import Evaluator, TrainingSummary
from isogloss.types import FloatArray, PairSource

logger = logging.getLogger(__name__)


class StageSession:
    """A student and the stages of its recipe."""

    def __init__(
        self,
        run: Run,
        student: Student,
        teacher: Encoder | None,
        pairs: PairSource | None,
        data: StageData,
        measurements: Measurements | None,
    ) -> None:
        self.run, self.student, self.teacher, self.pairs, self.data = run, student, teacher, pairs, data
        self.recipe, self.measurements = run.recipe, measurements
        self.results: list[StageResult] = []
        self.details: dict[str, Any] = {}
        self._weights: dict[str, dict[str, Tensor]] = {}
        self._distillation: Distillation | None = None
        self._pair_data: PairDataset | None = None

    # ── the stages ──────────────────────────────────────────────────────────────────────────────────────

    def train_all(self) -> None:
        """Measure the untouched student, then train and measure stage by stage."""
        stages = self.recipe.stages
        vectors: FloatArray | None = None
        with self.run.timed("vectors"):
            if self.measurements is not None and stages and stages[0].task == "bridge":
                vectors = self.distillation(0).untouched_vectors(self.measurements.texts)  # with those of the bridge
        with self.run.timed("measure"):
            self.measure(UNTOUCHED, vectors)
        self._remember(UNTOUCHED)
        for number, stage in enumerate(stages):
            if stage.start:
                self.student.model.load_state_dict(self.weights_after(stage.start, stage.name))
            with self.run.timed(stage.name):
                module = importlib.import_module(f"isogloss.runs.stages.{stage.task}")
                vectors = module.train(stage, self, number)
            if not self._is_bridged(number + 1):
                self._distillation = None
            with self.run.timed("measure"):
                self.measure(stage.name, vectors)
            self._remember(stage.name)

    def measure(self, name: str, vectors: FloatArray | None = None) -> None:
        """Score the student on the held-out pairs, if there are any; `vectors` are its embeddings of them, if known."""
        if self.measurements is None:
            return
        if vectors is None:
            self.measurements.measure(name)
        else:
            self.measurements.add(name, vectors)

    def _remember(self, name: str) -> None:
        """Keep the weights if a later stage starts from them or averages them."""
        if any(name in (stage.start, *getattr(stage, "of", ())) for stage in self.recipe.stages):
            self._weights[name] = {key: value.detach().cpu().clone() for key, value in self.student.model.state_dict().items()}

    def weights_after(self, name: str, stage: str) -> dict[str, Tensor]:
        """The weights after an earlier stage, for use by `stage`. Raises if layers were added since then."""
        found, now = self._weights[name], self.student.model.state_dict()
        if found.keys() != now.keys() or any(found[key].shape != now[key].shape for key in now):
            raise IsoglossError(
                f"stage {stage}: the student has other layers now than after {name} (a bridge or a normalization was added)",
                hint=f"name a stage after that one instead of {name}",
            )
        return found

    # ── bridge and distillation ─────────────────────────────────────────────────────────────────────────────────────────

    def distillation(self, number: int) -> Distillation:
        """The distillation of a stage, shared by a bridge and the distill stage right after it."""
        if self._distillation is None:
            self._distillation = Distillation(
                self.student,
                self.teacher,
                self._pairs,
                self.stage_recipe(number),
                self.run.work,
                self.run.cache,
                self.run.on_progress,
            )
        return self._distillation

    def _is_bridged(self, number: int) -> bool:
        """Whether a stage distills with the bridge that the stage before it solved."""
        stages = self.recipe.stages
        if not 0 < number < len(stages):
            return False
        return stages[number - 1].task == "bridge" and stages[number].task == "distill" and not stages[number].start

    def stage_recipe(self, number: int) -> Recipe:
        """The recipe of a bridge or distill stage alone, without a list of stages."""
        stage = self.recipe.stages[number]
        has_bridge = stage.task == "bridge" or self._is_bridged(number)
        if self._is_bridged(number + 1):
            stage = self.recipe.stages[number + 1]
        recipe = self.recipe.of_stage(stage, has_bridge)
        return recipe if stage.task == "distill" else recipe.replace(training=recipe.training.replace(epochs=0))

    @property
    def _pairs(self) -> PairSource:
        assert self.pairs is not None, "the recipe was checked: a stage that needs pairs has them"
        return self.pairs

    # ── training by tasks ───────────────────────────────────────────────────────────────────────────────────────────────

    def train_tasks(
        self, stage: Stage, tasks: Sequence[Task], dev: Evaluator | None, key: str, name: str = "", shares: Sequence[float] = ()
    ) -> TrainingSummary:
        """Train the student on tasks with the settings of a stage; `key` is a hash of the examples and of other inputs."""
        name = name or stage.name
        settings = self.task_settings(stage, shares)
        summary = train(self.student, tasks, settings, dev, self.run.work, self.run.on_progress, name, key)
        self.results.append(StageResult(name, summary, {task.name: len(task) for task in tasks}))
        return summary

    def task_settings(self, stage: Stage, shares: Sequence[float] = ()) -> TaskSettings:
        """How the tasks of a stage are trained."""
        return TaskSettings(**dict(self.recipe.training_of(stage)), weights=tuple(shares), seed=self.recipe.seed)

    def sts_dev(self) -> STSDev | None:
        """The STS dev set, if the recipe names one."""
        dev = self.data.sts_dev
        if dev is None:
            return None
        return STSDev(self.student, SentencePairs.of(self.student, dev.first, dev.second), dev.gold)

    def pair_data(self) -> PairDataset:
        """The training pairs as rows of tokens."""
        if self._pair_data is None:
            with self.run.distributed.main_process_first():
                self._pair_data = PairDataset.build(
                    self._pairs, self.student.text_tokenizer, self.run.work, self.run.on_progress
                )
            refuse_unknown_text(self._pair_data.tokens, self.student.tokenizer, self.student.name)
        return self._pair_data

    def dev_split(self, stage: Stage) -> tuple[PairRows, PairRows | None]:
        """The training pairs, and the dev pairs that the best checkpoint is chosen by; None if there are too few pairs."""
        training, data = self.recipe.training_of(stage), self.pair_data()
        seed = self.recipe.seed
        pairs, _, dev = split_dev(data.pairs, data.source_keys, training.dev_pairs, training.dev_share, seed)
        if training.dev_pairs and dev is None:
            logger.warning(
                "%s: no language has enough pairs to hold out %g of them as dev pairs; the last weights are kept, not the best",
                stage.name,
                training.dev_share,
            )
        return pairs, dev

    def key(self, *parts: str) -> str:
        """A hash of what a stage is trained on and of its dev set."""
        dev = self.data.sts_dev
        return content_hash("" if dev is None else dev.hash, *parts)
