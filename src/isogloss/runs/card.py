"""The model card of a run, and the saved student that it belongs to."""

import json
import re
from pathlib import Path
from typing import Any

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.config.sections import TEACHER_LOSSES, OutputSettings
from isogloss.corpora.store import leak_scan_of, leaks_in_words
from isogloss.evaluation.sts_dev import SPEARMAN
from isogloss.models.saving import set_matryoshka_dimensions
from isogloss.models.student import Student
from isogloss.report.card import CardInfo, StageScore, example_sentences, model_card
from isogloss.runs.run import RunResult
from isogloss.shown import without_folders
from isogloss.types import PairSource

TOML_TEXT = re.compile(r'(prompt = )?("(?:[^"\\]|\\.)*")')  # prompts are no names of files


def card_info(
    recipe: Recipe, result: RunResult, pairs: PairSource | None, training: dict[str, Any], trained_on: str
) -> CardInfo:
    """What the card says. `training` is stored beside the model; `trained_on` is the same in words."""
    is_new, start = recipe.student.kind == "bilstm", without_folders(recipe.student.model)
    teacher = without_folders(recipe.teacher.model) if _uses_teacher(recipe) else ""
    how = f"distilled from `{teacher}`" if teacher else f"trained ({', '.join(stage.name for stage in recipe.stages)})"
    return CardInfo(
        name=recipe.name,
        description=f"`{recipe.name if is_new else start}` {how} with isogloss on {trained_on}.",
        base_model="" if is_new else recipe.student.model,
        teacher=teacher,
        languages=sorted(recipe.languages if pairs is None else {*pairs.languages, pairs.source_language}),
        tags=_tags(recipe, teacher),
        reports=result.reports,
        stages=_dev_scores(result),
        license=recipe.output.license,
        intervals=result.details.get("intervals", {}),
        own_language_share=result.details.get("own_language_share", {}),
        regressions=result.details.get("regressions", []),
        retrieval=result.retrieval,
        corpora=training.get("corpora", {}),
        leak_scan=leaks_in_words(leak_scan_of(training)) if "leak_scan" in training else "",
        examples=() if pairs is None else example_sentences(pairs),
        recipe=published_recipe(recipe),
    )


def published_recipe(recipe: Recipe) -> str:
    """The recipe as a card shows it: without the folders of this machine."""
    anywhere = recipe.replace(output=OutputSettings(license=recipe.output.license))

    def shown(found: re.Match[str]) -> str:
        return found[0] if found[1] else json.dumps(without_folders(json.loads(found[2])), ensure_ascii=False)

    return TOML_TEXT.sub(shown, recipes.dump(anywhere, comments=False, defaults=False))


def save_student(recipe: Recipe, student: Student, folder: Path, info: CardInfo, training: dict[str, Any]) -> None:
    """Save the model with its card, what it was trained on, and the sizes that its embeddings can be truncated to."""
    student.model.to("cpu")
    trained = [stage for stage in recipe.stages if stage.task in ("distill", "rank")]
    if trained or any(stage.task == "bridge" for stage in recipe.stages):
        set_matryoshka_dimensions(student.model, recipe.losses_of(trained[-1]).dimensions if trained else ())
    student.save_pretrained(folder, model_card(info, student.model), training or None)


def _uses_teacher(recipe: Recipe) -> bool:
    """Whether a bridge or a loss uses the teacher, or the student has its body."""
    losses = [recipe.losses_of(stage).weights for stage in recipe.stages if stage.task == "distill"]
    follows = any(name in weights for weights in losses for name in TEACHER_LOSSES)
    has_bridge = any(stage.task == "bridge" for stage in recipe.stages)
    return bool(recipe.teacher.model) and (follows or has_bridge or recipe.student.kind == "teacher-body")


def _tags(recipe: Recipe, teacher: str) -> tuple[str, ...]:
    """The tag of the method, for the hub."""
    tasks = {stage.task for stage in recipe.stages}
    named = {"distillation": bool(teacher), "laser": "translate" in tasks, "dual-encoder": tasks & {"rank", "distill"}}
    return tuple(name for name, fits in named.items() if fits)[:1]


def _dev_scores(result: RunResult) -> list[StageScore]:
    """Spearman's correlation on the STS dev set, before and after each stage that was measured by it."""
    scores = []
    for stage in result.stages:
        before, after = stage.summary.dev_before.get(SPEARMAN, 0.0), stage.summary.dev.get(SPEARMAN)
        if after is not None:
            scores.append(StageScore(stage.name, sum(stage.examples.values()), before, after))
    return scores
