"""The stages of a recipe, `[[stage]]` in TOML: which task is trained, on what, and what is different for this one.

    [[stage]]
    task = "nli"
    files = ["allnli.tsv.gz"]
    training = { epochs = 2 }

A stage's training settings are, each over the one before: the class's defaults, `TASK_DEFAULTS`, the keys that the recipe
sets in [training], and the stage's own `training`. See `Recipe.training_of`.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from isogloss.amounts import amount
from isogloss.config.sections import LossOverrides, TrainingOverrides
from isogloss.config.settings import Settings, setting, table
from isogloss.errors import RecipeError

UNTOUCHED = "untouched"  # the student as it was before the first stage, in an average
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SBERT = {"batch_pairs": 16, "learning_rate": 2e-5, "dropout": True}  # Reimers & Gurevych 2019
_RANKING = {"epochs": 1, "learning_rate": 5e-5, "dropout": True}

# What [training] is for a task where neither the recipe nor the stage says otherwise.
TASK_DEFAULTS: dict[str, dict[str, Any]] = {
    "nli": {**_SBERT, "epochs": 1},
    "sts": {**_SBERT, "epochs": 4},
    "rank": _RANKING,
    "answers": _RANKING,
    "mlm": _RANKING,
    "tlm": _RANKING,
    "translate": {  # LASER (Artetxe & Schwenk 2019); clip_norm and precision are ours
        "epochs": 17,
        "batch_pairs": 4096,
        "learning_rate": 1e-3,
        "schedule": "constant",
        "warmup": 0.0,
        "weight_decay": 0.0,
        "clip_norm": 5.0,
        "precision": "float32",
        "dropout": True,
        "select": "retrieval",
    },
}
# The same for [losses].
TASK_LOSSES: dict[str, dict[str, Any]] = {"rank": {"mse": 0.0, "ranking": 1.0}}


class Stage(Settings):
    """The settings of every stage."""

    task: str = ""
    name: str = setting("", "Name of the stage, for messages and results; empty: the task's name, numbered if repeated.")
    start: str = setting(
        "", f'Start from the weights after this earlier stage, or "{UNTOUCHED}"; empty: after the stage before.'
    )

    @model_validator(mode="after")
    def _refuse_bad_name(self) -> Self:
        if self.name and (self.name == UNTOUCHED or not _NAME.fullmatch(self.name)):
            raise RecipeError(
                f"stage name {self.name!r} cannot be used",
                hint=f'use letters, digits, ".", "_" and "-"; "{UNTOUCHED}" is the student before the first stage',
            )
        return self


class TrainedStage(Stage):
    """A stage that trains the student."""

    training: TrainingOverrides = table(TrainingOverrides, "Keys of [training] that are different in this stage.")


class BridgeStage(Stage):
    """Solve the linear layer of [bridge]."""

    task: Literal["bridge"] = "bridge"


class DistillStage(TrainedStage):
    """Train on the pairs with [losses]."""

    task: Literal["distill"] = "distill"
    losses: LossOverrides = table(LossOverrides, "Keys of [losses] that are different in this stage.")


class Beside(Settings):
    """A task that is trained in turns with a rank stage, as in mUSE."""

    task: Literal["nli", "answers"] = setting(..., "Which task.")
    files: tuple[str, ...] = setting(..., "Its files, as in a stage of that task.", min_length=1)
    share: float = setting(1.0, "How many batches it has, relative to the other tasks.", above=0.0)


class RankStage(TrainedStage):
    """Rank translations in the batch (LaBSE, mUSE)."""

    task: Literal["rank"] = "rank"
    losses: LossOverrides = table(LossOverrides, "Keys of [losses] that are different; here mse is 0 and ranking 1.")
    rounds: int = setting(1, "Trainings from the same weights, each with hard negatives of the model before.", at_least=1)
    beside: tuple[Beside, ...] = setting((), "Tasks to train in turns with this one.")
    share: float = setting(1.0, "How many batches this task has, relative to those in `beside`.", above=0.0)


class NliStage(TrainedStage):
    """Classify sentence pairs: entailment, neutral, contradiction (SBERT)."""

    task: Literal["nli"] = "nli"
    files: tuple[str, ...] = setting(..., "Files or folders with premise, hypothesis and label.", min_length=1)


class StsStage(TrainedStage):
    """Predict the similarity of sentence pairs (SBERT), optionally with labels of a cross-encoder."""

    task: Literal["sts"] = "sts"
    files: tuple[str, ...] = setting(..., "Files or folders with two sentences and a score from 0 to 5.", min_length=1)
    augment: bool = setting(False, "Label more pairs with a cross-encoder (Augmented SBERT).")
    cross_encoder: str = setting("", "With augment: the model to train as cross-encoder, or a trained one; empty: the student.")
    cross_epochs: int = setting(0, "With augment: epochs of the cross-encoder; 0: those of the stage.", at_least=0)
    neighbors: int = setting(10, "With augment: how many nearest sentences each sentence is paired with.", at_least=1)
    search_by: str = setting("", "With augment: model to find nearest sentences with; empty: the student at this stage.")

    @model_validator(mode="after")
    def _refuse_unused(self) -> Self:
        unused = next((name for name in ("cross_encoder", "search_by", "cross_epochs") if getattr(self, name)), "")
        if unused and not self.augment:
            raise RecipeError(f"{unused} is set, but augment is false", hint=f"set augment = true, or leave {unused} out")
        return self


class AnswersStage(TrainedStage):
    """Rank the answers to questions in the batch (mUSE)."""

    task: Literal["answers"] = "answers"
    files: tuple[str, ...] = setting(..., "Files with question and answer.", min_length=1)


class MlmStage(TrainedStage):
    """Masked language modeling on text."""

    task: Literal["mlm"] = "mlm"
    files: tuple[str, ...] = setting(..., "Text files with one sentence per line.", min_length=1)
    pairs: bool = setting(False, "Also train on pairs: mask a sentence and its translation together, as tlm does.")


class TlmStage(TrainedStage):
    """Translation language modeling: masked language modeling on the pairs."""

    task: Literal["tlm"] = "tlm"


class TranslateStage(TrainedStage):
    """Train the encoder by translating (LASER)."""

    task: Literal["translate"] = "translate"
    targets: tuple[str, ...] = setting(("en", "es"), "The two languages to translate into; one is the pairs' source language.")
    decoder: int = setting(2048, "LSTM hidden size of the decoder.", at_least=1)
    decoder_layers: int = setting(1, "Layers of the decoder.", at_least=1)
    language: int = setting(32, "Size of the embedding that tells the decoder the target language.", at_least=1)
    smoothing: float = setting(0.0, "Label smoothing.", at_least=0.0, at_most=0.9)
    dropout: float = setting(0.1, "Dropout probability.", at_least=0.0, at_most=0.9)

    @model_validator(mode="after")
    def _refuse_other_than_two(self) -> Self:
        if len(self.targets) != 2 or len({target.lower() for target in self.targets}) != 2:
            raise RecipeError(
                f"targets are {', '.join(self.targets) or 'not given'}: there must be two different languages",
                hint="sentences of a target language are translated into the other one; for example en,es",
            )
        return self


class AverageStage(Stage):
    """Average the weights of earlier stages."""

    task: Literal["average"] = "average"
    of: tuple[str, ...] = setting(..., f'Names of earlier stages, or "{UNTOUCHED}" for the student before them.', min_length=2)
    weights: tuple[Annotated[float, Field(gt=0.0)], ...] = setting((), "Weight of each stage in `of`; empty: equal weights.")

    @model_validator(mode="after")
    def _refuse_uneven(self) -> Self:
        if self.weights and len(self.weights) != len(self.of):
            raise RecipeError(
                f"weights has {amount(len(self.weights), 'number')} for {amount(len(self.of), 'stage')}",
                hint="one weight above 0 for each name in `of`, or leave weights out",
            )
        if len(set(self.of)) != len(self.of):
            raise RecipeError("an average names a stage twice", hint="give it a larger weight instead")
        return self


AnyStage = Annotated[
    BridgeStage
    | DistillStage
    | RankStage
    | NliStage
    | StsStage
    | AnswersStage
    | MlmStage
    | TlmStage
    | TranslateStage
    | AverageStage,
    Field(discriminator="task"),
]
STAGES: tuple[type[Stage], ...] = get_args(get_args(AnyStage)[0])
NEEDS_PAIRS = ("bridge", "distill", "rank", "tlm", "translate")


def with_names(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages with every name filled in: nli, sts, distill, distill-2."""
    taken, named = {stage.name for stage in stages}, []
    for stage in stages:
        name, number = stage.name or stage.task, 1
        while not stage.name and name in taken:
            number += 1
            name = f"{stage.task}-{number}"
        taken.add(name)
        named.append(stage if stage.name else stage.replace(name=name))
    return tuple(named)
