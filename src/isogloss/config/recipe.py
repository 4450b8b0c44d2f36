"""The recipe: everything a run depends on."""

from typing import Any, Literal, Self

from pydantic import model_validator

from isogloss.config.contradictions import refuse_contradictions
from isogloss.config.sections import (
    AddSettings,
    BalanceSettings,
    BridgeSettings,
    CleaningSettings,
    EvaluationSettings,
    LeakSettings,
    LossSettings,
    OutputSettings,
    PairsSettings,
    StudentSettings,
    TeacherSettings,
    TrainingSettings,
)
from isogloss.config.settings import Settings, setting, table
from isogloss.config.stages import (
    NEEDS_PAIRS,
    TASK_DEFAULTS,
    TASK_LOSSES,
    AnyStage,
    BridgeStage,
    DistillStage,
    RankStage,
    Stage,
    TrainedStage,
    with_names,
)


class Recipe(Settings):
    """One run: the data, the models, the training and the output folder."""

    name: str = setting("run", "Name of the run.")
    seed: int = setting(17, "Random seed; on the same machine it gives the same weights.", at_least=0, at_most=2**32 - 1)
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "Device to run on.")
    threads: int = setting(0, "CPU threads; 0 leaves it to torch.", at_least=0, at_most=1024)
    languages: tuple[str, ...] = setting((), "Target languages to train on; empty: all.")
    pairs: PairsSettings = table(PairsSettings, "Where the parallel sentences come from.")
    cleaning: CleaningSettings = table(CleaningSettings, "Which pairs are dropped.")
    leaks: LeakSettings = table(LeakSettings, "Which evaluation text must not be trained on.")
    balance: BalanceSettings = table(BalanceSettings, "How much of each corpus and language an epoch has.")
    teacher: TeacherSettings = table(TeacherSettings, "The model whose embedding space the student learns.")
    student: StudentSettings = table(StudentSettings, "The model that is trained.")
    bridge: BridgeSettings = table(BridgeSettings, "The linear layer solved before training.")
    losses: LossSettings = table(LossSettings, "The training loss: a weighted sum.")
    training: TrainingSettings = table(TrainingSettings, "How the student is trained.")
    evaluation: EvaluationSettings = table(EvaluationSettings, "How the result is measured.")
    output: OutputSettings = table(OutputSettings, "Where the results are written.")
    add: AddSettings | None = setting(None, "The finished student that this run adds languages to; isogloss add writes it.")
    stage: tuple[AnyStage, ...] = setting((), "What is trained, in order; empty: the bridge, then distillation.")

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        refuse_contradictions(self)
        return self

    def values(self) -> dict[str, Any]:
        """The values that are written. In a recipe with stages, [training] and [losses] have only what was given."""
        values = super().values()
        if self.add is None:
            del values["add"]
        if self.stage:
            return values | {"training": self.training.given(), "losses": self.losses.given()}
        del values["stage"]
        return values

    def models(self) -> list[str]:
        """Every model that the recipe names."""
        others = [getattr(stage, name, "") for stage in self.stages for name in ("cross_encoder", "search_by")]
        student = "" if self.student.kind == "bilstm" else self.student.model
        return [name for name in (self.teacher.model, student, *others) if name]

    @property
    def needs_pairs(self) -> bool:
        """Whether pairs are read: a stage trains on them, or the recipe names some to measure on."""
        return any(stage.task in NEEDS_PAIRS for stage in self.stages) or (
            "pairs" in self.model_fields_set and bool(self.pairs.files or self.pairs.corpora)
        )

    @property
    def is_measured(self) -> bool:
        """Whether held-out pairs are measured; a recipe without a teacher may hold none out."""
        return bool(self.pairs.held_out) or bool(self.teacher.model)

    @property
    def leaks_scanned(self) -> LeakSettings:
        """What training text is scanned for: [leaks], and the text that the run measures retrieval on."""
        measured, against = self.evaluation.retrieval, self.leaks.against
        return self.leaks.replace(against=(*against, measured)) if measured and measured not in against else self.leaks

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages with their names; by default the bridge, then distillation, unless they are turned off."""
        if self.stage:
            return with_names(self.stage)
        default: list[Stage] = [BridgeStage()] if self.bridge.enabled else []
        return with_names([*default, *([DistillStage()] if self.training.epochs or self.training.steps else [])])

    def of_stage(self, stage: Stage, bridge: bool) -> Self:
        """The recipe with the settings of one stage and no list of stages; `bridge` says whether a bridge is solved."""
        own = {"training": self.training_of(stage), "losses": self.losses_of(stage)}
        return self.replace(stage=(), bridge=self.bridge.replace(enabled=bridge), **own)

    def training_of(self, stage: Stage) -> TrainingSettings:
        """How a stage is trained: the task's defaults, then the keys set in [training], then the stage's own."""
        own = stage.training.given() if isinstance(stage, TrainedStage) else {}
        return TrainingSettings(**(TASK_DEFAULTS.get(stage.task, {}) | self.training.given() | own))

    def losses_of(self, stage: Stage) -> LossSettings:
        """The losses of a stage: the task's defaults, then the keys set in [losses], then the stage's own."""
        own = stage.losses.given() if isinstance(stage, DistillStage | RankStage) else {}
        return LossSettings(**(TASK_LOSSES.get(stage.task, {}) | self.losses.given() | own))
