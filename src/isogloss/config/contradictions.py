"""Settings that contradict each other, refused by name when a recipe is constructed.

What only shows with a model or the pairs at hand is for `training.engines.choose`: it refuses what cannot be trained, and
says what changes nothing.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from isogloss.config.sections import BATCH_LOSSES, TEACHER_LOSSES, StudentSettings
from isogloss.config.stages import NEEDS_PAIRS, UNTOUCHED, AverageStage, RankStage, Stage, TrainedStage
from isogloss.errors import RecipeError

if TYPE_CHECKING:
    from isogloss.config.recipe import Recipe

BILSTM_KEYS = ("vocabulary", "vocabulary_kind", "vocabulary_sentences", "embedding", "hidden", "lstm_layers", "lstm_dropout")
Found = Iterator[tuple[str, str]]  # messages and hints


def refuse_contradictions(recipe: "Recipe") -> None:
    """Raise for the first settings that exclude each other or have no effect together."""
    for check in (_nothing_to_do, _unusable_values, _student, _stage_names, _averages):
        _refuse(check(recipe))
    for stage in recipe.stages:
        for stage_check in (_stage_task, _stage_losses, _batch_parts, _single_pairs, _patience, _rounds):
            _refuse(stage_check(recipe, stage))
    if not recipe.teacher.model:
        refuse_without_teacher(recipe)


def _refuse(found: Found) -> None:
    for message, hint in found:
        raise RecipeError(message, hint=hint)


def refuse_without_teacher(recipe: "Recipe") -> None:
    """Raise if anything in a recipe needs a teacher: all of it in one sentence, and what to set instead."""
    found = list(dict.fromkeys(_needs_teacher(recipe)))
    if found:
        names, remedies = (_listed(column) for column in zip(*found, strict=True))
        raise RecipeError(
            f"{names} {'needs' if len(found) == 1 else 'need'} a teacher, but there is none",
            hint=f"set teacher.model, or {remedies}",
        )


def _needs_teacher(recipe: "Recipe") -> Found:
    """What needs a teacher, and how to do without."""
    for stage in recipe.stages:
        yield from _stage_needs_teacher(recipe, stage)
    if recipe.student.kind == "teacher-body":
        yield 'student.kind = "teacher-body"', 'set student.kind = "encoder"'
    if recipe.teacher.prompt:
        yield "teacher.prompt", 'set teacher.prompt = ""'
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
    """What the key of a stage begins with in a message: nothing if the recipe has no stages of its own."""
    return f"stage {stage.name}: " if recipe.stage else ""


def _listed(parts: Sequence[str]) -> str:
    """As in a sentence: a, b and c."""
    *others, last = parts
    return f"{', '.join(others)} and {last}" if others else last


def _nothing_to_do(recipe: "Recipe") -> Found:
    if not recipe.stages:
        yield (
            "bridge.enabled is false and training.epochs is 0: there is nothing to do",
            "turn the bridge on or train for at least one epoch",
        )
    if any(stage.task in NEEDS_PAIRS for stage in recipe.stages) and not recipe.pairs.files and not recipe.pairs.corpora:
        yield "pairs.files is empty", 'name files of pairs, or "phrasebook" for the bundled pairs'


def _unusable_values(recipe: "Recipe") -> Found:
    if any(strength <= 0 for strength in recipe.bridge.strengths) or not recipe.bridge.strengths:
        yield "bridge.strengths: every ridge strength must be above 0", "for example [1e-4, 1e-2]"
    if not recipe.output.folder.strip() or "\0" in recipe.output.folder:
        yield "output.folder is empty or not a path", 'for example "runs/mine"'


def _student(recipe: "Recipe") -> Found:
    student, default = recipe.student, StudentSettings()
    if student.dimension and student.kind != "static":
        yield (
            f'student.dimension = {student.dimension} is for static students, but student.kind is "{student.kind}"',
            'set student.kind = "static", or student.dimension = 0; losses.dimensions makes embeddings that can be truncated',
        )
    for name in BILSTM_KEYS:
        value = getattr(student, name)
        if student.kind != "bilstm" and value != getattr(default, name):
            yield (
                f'student.{name} = {value!r} is for BiLSTM students, but student.kind is "{student.kind}"',
                f'set student.kind = "bilstm", or leave student.{name} out',
            )


def _stage_names(recipe: "Recipe") -> Found:
    names = [stage.name for stage in recipe.stage if stage.name]
    for name in names:
        if names.count(name) > 1:
            yield f"two stages are named {name}", "give every stage a name of its own"


def _averages(recipe: "Recipe") -> Found:
    earlier = [UNTOUCHED]
    for stage in recipe.stages:
        named = [*(stage.of if isinstance(stage, AverageStage) else ()), *([stage.start] if stage.start else [])]
        for name in named:
            if name not in earlier:
                yield f"stage {stage.name}: {name} is not an earlier stage", f"stages before it are: {', '.join(earlier)}"
        earlier.append(stage.name)


def _stage_task(recipe: "Recipe", stage: Stage) -> Found:
    if stage.task == "bridge" and not recipe.bridge.enabled:
        yield "there is a bridge stage, but bridge.enabled is false", "leave one of them out"
    if stage.task == "translate" and recipe.student.kind != "bilstm":
        yield (
            f'stage {stage.name} trains a BiLSTM by translating, but student.kind is "{recipe.student.kind}"',
            'set student.kind = "bilstm"',
        )
    if not isinstance(stage, TrainedStage):
        return
    training, where = recipe.training_of(stage), _prefix(recipe, stage)
    if stage.task == "translate" and not training.dropout:  # cuDNN has no gradients of an LSTM that is not in training mode
        yield (
            f"{where}training.dropout = false is not for LSTMs, whose dropout is a probability",
            "set dropout = 0.0 in the stage and student.lstm_dropout = 0.0",
        )
    if not training.epochs and not training.steps:
        yield f"{where}training.epochs is 0: there is nothing to do", "train for at least one epoch, or leave the stage out"
    if training.select == "loss" and stage.task != "translate":
        yield f'{where}training.select = "loss" is for translate stages', 'set training.select = "both"'


def _stage_losses(recipe: "Recipe", stage: Stage) -> Found:
    if stage.task in ("distill", "rank"):
        losses = recipe.losses_of(stage)  # refuses losses that train nothing
        if stage.task == "rank" and not losses.ranking:
            yield f"stage {stage.name} ranks translations, but losses.ranking is 0", "set losses.ranking = 1 in this stage"


def _batch_parts(recipe: "Recipe", stage: Stage) -> Found:
    """Two ways to save memory of which only one can be used; a part has at least one pair."""
    training, where = recipe.training_of(stage), _prefix(recipe, stage)
    if not isinstance(stage, TrainedStage) or training.accumulate == 1:
        return
    if training.chunk_pairs:
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


def _single_pairs(recipe: "Recipe", stage: Stage) -> Found:
    """Losses that compare a pair with the others of its batch have no gradient if there are no others."""
    training, where = recipe.training_of(stage), _prefix(recipe, stage)
    if stage.task not in ("distill", "rank") or training.batch_pairs > training.accumulate or training.batch_tokens:
        return
    losses = recipe.losses_of(stage)
    parts = f" in {training.accumulate} parts (training.accumulate)" if training.accumulate > 1 else ""
    for name in BATCH_LOSSES:
        if name not in losses.weights or (name == "ranking" and losses.hard_negatives):  # hard negatives are others, too
            continue
        yield (
            f"{where}losses.{name} compares a pair with the others of its batch, but training.batch_pairs ="
            f" {training.batch_pairs}{parts} leaves no others",
            f"raise training.batch_pairs, or set losses.{name} = 0",
        )


def _patience(recipe: "Recipe", stage: Stage) -> Found:
    training, where = recipe.training_of(stage), _prefix(recipe, stage)
    if stage.task not in NEEDS_PAIRS or not isinstance(stage, TrainedStage):
        return
    for name in ("dev_pairs", "dev_share"):
        if training.patience and not getattr(training, name):
            yield (
                f"{where}training.patience = {training.patience} waits for a gain on dev pairs, but training.{name} = 0"
                " keeps none",
                f"raise training.{name}, or set training.patience = 0 to train to the end",
            )


def _rounds(recipe: "Recipe", stage: Stage) -> Found:
    if not isinstance(stage, RankStage):
        return
    negatives = recipe.losses_of(stage).hard_negatives
    if negatives and stage.rounds == 1:
        yield (
            f"stage {stage.name}: losses.hard_negatives = {negatives} needs a second round: the first model finds them",
            "set rounds = 2",
        )
    if stage.rounds > 1 and not negatives:
        yield (
            f"stage {stage.name}: rounds = {stage.rounds} needs hard negatives; without them every round is the same",
            "set losses.hard_negatives = 5",
        )
