"""Settings that contradict each other, refused by name when a recipe is constructed.

Contradictions that depend on the models or the pairs are found by `training.engines.choose`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from isogloss.amounts import listed
from isogloss.config.sections import BATCH_LOSSES, TEACHER_LOSSES, LossSettings, StudentSettings, TrainingSettings
from isogloss.config.stages import NEEDS_PAIRS, UNTOUCHED, AverageStage, DistillStage, RankStage, Stage, TrainedStage
from isogloss.errors import RecipeError

if TYPE_CHECKING:
    from isogloss.config.recipe import Recipe

Found = Iterator[tuple[str, str]]  # messages and hints


def refuse_contradictions(recipe: "Recipe") -> None:
    """Raise for the first settings that exclude each other or have no effect together."""
    for message, hint in _contradictions(recipe):
        raise RecipeError(message, hint=hint)
    if not recipe.teacher.model:
        refuse_without_teacher(recipe)


def _contradictions(recipe: "Recipe") -> Found:
    yield from _nothing_to_do(recipe)
    yield from _student(recipe)
    yield from _stage_names(recipe)
    for stage in recipe.stages:
        yield from _task(recipe, stage)
        if isinstance(stage, TrainedStage):
            where, training = _prefix(recipe, stage), recipe.training_of(stage)
            yield from _training(stage, where, training)
            yield from _batch_parts(where, training)
        if isinstance(stage, DistillStage | RankStage):
            yield from _single_pairs(where, training, recipe.losses_of(stage))
        if isinstance(stage, RankStage):
            yield from _ranking(stage, recipe.losses_of(stage))


def refuse_without_teacher(recipe: "Recipe") -> None:
    """Raise if anything in a recipe needs a teacher, with everything that does and what to set instead."""
    found = list(dict.fromkeys(_needs_teacher(recipe)))
    if found:
        names, remedies = (listed(column) for column in zip(*found, strict=True))
        raise RecipeError(
            f"{names} {'needs' if len(found) == 1 else 'need'} a teacher, but there is none",
            hint=f"set teacher.model, or {remedies}",
        )


def _needs_teacher(recipe: "Recipe") -> Found:
    """Settings that need a teacher, and what to set instead."""
    for stage in recipe.stages:
        yield from _stage_needs_teacher(recipe, stage)
    if recipe.student.kind == "teacher-body":
        yield 'student.kind = "teacher-body"', 'set student.kind = "encoder"'
    for name in ("prompt", "query_prompt", "document_prompt"):
        if getattr(recipe.teacher, name):
            yield f"teacher.{name}", f'set teacher.{name} = ""'
    if recipe.teacher.precision != "auto":
        yield f'teacher.precision = "{recipe.teacher.precision}"', 'set teacher.precision = "auto"'


def _stage_needs_teacher(recipe: "Recipe", stage: Stage) -> Found:
    where = _prefix(recipe, stage)
    if stage.task == "bridge":
        yield (f"stage {stage.name}", "leave it out") if recipe.stage else ("bridge.enabled", "set bridge.enabled = false")
    if stage.task in ("distill", "rank"):
        weights = recipe.losses_of(stage).weights
        for name in (name for name in TEACHER_LOSSES if name in weights):
            yield f"{where}losses.{name}", f"set losses.{name} = 0"
    if isinstance(stage, TrainedStage) and recipe.training_of(stage).select == "mse":
        yield f'{where}training.select = "mse"', 'set training.select = "both"'


def _prefix(recipe: "Recipe", stage: Stage) -> str:
    """The stage in front of a key in messages; empty if the recipe lists no stages."""
    return f"stage {stage.name}: " if recipe.stage else ""


def _nothing_to_do(recipe: "Recipe") -> Found:
    if not recipe.stages:
        yield (
            "bridge.enabled is false and training.epochs is 0: there is nothing to do",
            "turn the bridge on or train for at least one epoch",
        )
    if any(stage.task in NEEDS_PAIRS for stage in recipe.stages) and not recipe.pairs.files and not recipe.pairs.corpora:
        yield "pairs.files is empty", 'name files of pairs, or "phrasebook" for the bundled pairs'
    if not recipe.output.folder.strip() or "\0" in recipe.output.folder:
        yield "output.folder is empty or not a path", 'for example "runs/mine"'


def _student(recipe: "Recipe") -> Found:
    student = recipe.student
    if student.dimension and student.kind != "static":
        yield (
            f'student.dimension = {student.dimension} is for static students, but student.kind is "{student.kind}"',
            'set student.kind = "static", or student.dimension = 0; losses.dimensions makes embeddings that can be truncated',
        )
    for name, field in StudentSettings.model_fields.items():
        value, is_for_bilstm = getattr(student, name), str(field.description).startswith("bilstm: ")
        if is_for_bilstm and student.kind != "bilstm" and value != field.default:
            yield (
                f'student.{name} = {value!r} is for BiLSTM students, but student.kind is "{student.kind}"',
                f'set student.kind = "bilstm", or leave student.{name} out',
            )


def _stage_names(recipe: "Recipe") -> Found:
    earlier = [UNTOUCHED]
    for stage in recipe.stages:
        if stage.name in earlier:
            yield f"two stages are named {stage.name}", "give every stage a name of its own"
        for name in (*(stage.of if isinstance(stage, AverageStage) else ()), stage.start):
            if name and name not in earlier:
                yield f"stage {stage.name}: {name} is not an earlier stage", f"stages before it are: {', '.join(earlier)}"
        earlier.append(stage.name)


def _task(recipe: "Recipe", stage: Stage) -> Found:
    if stage.task == "bridge" and not recipe.bridge.enabled:
        yield "there is a bridge stage, but bridge.enabled is false", "leave one of them out"
    if stage.task == "translate" and recipe.student.kind != "bilstm":
        yield (
            f'stage {stage.name} trains a BiLSTM by translating, but student.kind is "{recipe.student.kind}"',
            'set student.kind = "bilstm"',
        )


def _training(stage: TrainedStage, where: str, training: TrainingSettings) -> Found:
    if stage.task == "translate" and not training.dropout:  # cuDNN has no gradients of an LSTM that is not in training mode
        yield (
            f"{where}training.dropout = false is not for LSTMs, whose dropout is a probability",
            "set dropout = 0.0 in the stage and student.lstm_dropout = 0.0",
        )
    if not training.epochs and not training.steps:
        yield f"{where}training.epochs is 0: there is nothing to do", "train for at least one epoch, or leave the stage out"
    if training.select == "loss" and stage.task != "translate":
        yield f'{where}training.select = "loss" is for translate stages', 'set training.select = "both"'
    if training.patience and stage.task in NEEDS_PAIRS and not (training.dev_pairs and training.dev_share):
        name = "dev_share" if training.dev_pairs else "dev_pairs"
        yield (
            f"{where}training.patience = {training.patience} waits for a gain on dev pairs, but training.{name} = 0 keeps none",
            f"raise training.{name}, or set training.patience = 0 to train to the end",
        )


def _batch_parts(where: str, training: TrainingSettings) -> Found:
    """Two ways to save memory exclude each other, and a part has at least one pair."""
    if training.accumulate > 1 and training.chunk_pairs:
        yield (
            f"{where}training.accumulate = {training.accumulate} and training.chunk_pairs = {training.chunk_pairs}"
            " both split a batch",
            "leave one out: chunk_pairs keeps the negatives of the whole batch, accumulate encodes it only once",
        )
    if training.accumulate > training.batch_pairs and not training.batch_tokens:
        yield (
            f"{where}training.accumulate = {training.accumulate} is more parts than training.batch_pairs ="
            f" {training.batch_pairs} has pairs",
            "lower training.accumulate, or raise training.batch_pairs",
        )


def _single_pairs(where: str, training: TrainingSettings, losses: LossSettings) -> Found:
    """Losses that compare a pair with the others of its batch have no gradient if there are no others."""
    if training.batch_pairs > training.accumulate or training.batch_tokens:
        return
    parts = f" in {training.accumulate} parts (training.accumulate)" if training.accumulate > 1 else ""
    for name in BATCH_LOSSES:
        if name not in losses.weights or (name == "ranking" and losses.hard_negatives):  # hard negatives are others, too
            continue
        yield (
            f"{where}losses.{name} compares a pair with the others of its batch, but training.batch_pairs ="
            f" {training.batch_pairs}{parts} leaves no others",
            f"raise training.batch_pairs, or set losses.{name} = 0",
        )


def _ranking(stage: RankStage, losses: LossSettings) -> Found:
    if not losses.ranking:
        yield f"stage {stage.name} ranks translations, but losses.ranking is 0", "set losses.ranking = 1 in this stage"
    if losses.hard_negatives and stage.rounds == 1:
        yield (
            f"stage {stage.name}: losses.hard_negatives = {losses.hard_negatives} needs a second round: the first model"
            " finds them",
            "set rounds = 2",
        )
    if stage.rounds > 1 and not losses.hard_negatives:
        yield (
            f"stage {stage.name}: rounds = {stage.rounds} needs hard negatives; without them every round is the same",
            "set losses.hard_negatives = 5",
        )
