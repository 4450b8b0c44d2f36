"""The recipes that the short commands fill in: `distill`, `finetune`, `train-dual`, `train-laser`.

Each function returns a recipe as plain data, as in a TOML file: only what was given and what the method needs. Everything else
has the default of the schema (`config`). `--set` changes any of it.

    labse   translation ranking with margin 0.3 and the first token's state            Feng et al. 2022
    muse    translation ranking with hard negatives, NLI and answers beside it; mean   Chidambaram et al. 2019, Yang et al. 2020
    laser   the paper's sizes, or (scale "lab") sizes for minutes on one GPU           Artetxe & Schwenk 2019
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from isogloss.amounts import amount
from isogloss.errors import RecipeError

Data = dict[str, Any]

HARD_NEGATIVES, ROUNDS = 5, 2
WITHOUT_TEACHER: Data = {"teacher": {"model": ""}, "bridge": {"enabled": False}}
PAPERS: dict[str, Data] = {
    "": {},
    "labse": {"losses": {"margin": 0.3}, "pooling": "cls"},
    "muse": {"losses": {"hard_negatives": HARD_NEGATIVES}, "rounds": ROUNDS, "pooling": "mean"},
}
LASER_SCALES: dict[str, Data] = {
    "paper": {},
    "lab": {
        "student": {"vocabulary": 8_000, "embedding": 128, "hidden": 256, "lstm_layers": 2},
        "stage": {"decoder": 512},
        "training": {"epochs": 10, "batch_pairs": 64},
    },
}


def distill_recipe(
    files: Sequence[str],
    out: Path | str,
    teacher_model: str = "",
    student_model: str = "",
    **other: Any,  # noqa: ANN401
) -> Data:
    """A student distilled from a teacher on pairs; `other` are tables of the recipe."""
    data = _recipe(out, files, student_model, other)
    if teacher_model:
        data["teacher"] = {"model": teacher_model} | data.get("teacher", {})
    return data


def finetune_recipe(
    model: str,
    out: Path | str,
    nli: Sequence[str] = (),
    sts: Sequence[str] = (),
    sts_dev: Sequence[str] = (),
    nli_epochs: int | None = None,
    sts_epochs: int | None = None,
    augment: Mapping[str, Any] | None = None,
    **other: Any,  # noqa: ANN401
) -> Data:
    """A sentence encoder trained on NLI, then STS; `augment` has the settings of Augmented SBERT."""
    if not nli and not sts:
        raise RecipeError("there is nothing to train on", hint="name NLI files, STS files, or both")
    if augment is not None and not sts:
        raise RecipeError("augmenting labels more STS pairs, but there are no STS pairs", hint="name STS files")
    data = _recipe(out, (), model, WITHOUT_TEACHER | other)
    data["student"] = {"trim": "off"} | data["student"]
    if sts_dev:
        data["evaluation"] = data.get("evaluation", {}) | {"sts_dev": list(sts_dev)}
    more = {} if augment is None else {"augment": True, **augment}
    stages = [
        {"task": "nli", "files": list(nli)} | _training(_given(epochs=nli_epochs)),
        {"task": "sts", "files": list(sts), **more} | _training(_given(epochs=sts_epochs)),
    ]
    return data | {"stage": [stage for stage in stages if stage["files"]]}


def dual_recipe(
    files: Sequence[str],
    out: Path | str,
    student_model: str = "",
    like: str = "",
    nli: Sequence[str] = (),
    qa: Sequence[str] = (),
    mlm: Sequence[str] = (),
    tlm: bool = False,
    shares: Sequence[float] = (),
    losses: Mapping[str, Any] | None = None,
    rounds: int | None = None,
    pooling: str | None = None,
    pretrain: Mapping[str, Any] | None = None,
    **other: Any,  # noqa: ANN401
) -> Data:
    """A dual encoder from translations, with the settings of the paper `like` and those of the other arguments."""
    _refuse_other_tasks(like, nli, qa)
    paper = PAPERS[like]
    chosen: Data = {**paper.get("losses", {}), **(losses or {})}
    rounds = paper.get("rounds") if rounds is None else rounds
    if chosen.get("hard_negatives") and rounds is None:
        rounds = ROUNDS
    if (rounds or 1) > 1:
        chosen.setdefault("hard_negatives", HARD_NEGATIVES)
    data = _recipe(out, files, student_model, WITHOUT_TEACHER | other)
    data["student"] = _given(trim="off", pooling=paper.get("pooling") if pooling is None else pooling) | data["student"]
    masked: Data = {"task": "mlm", "files": list(mlm), "pairs": tlm} if mlm else {"task": "tlm"}
    beside = [{"task": task, "files": list(some)} for task, some in (("nli", nli), ("answers", qa)) if some]
    ranking = {"task": "rank"} | _given(rounds=rounds, losses=chosen or None, beside=beside or None)
    _share(ranking, shares)
    return data | {"stage": [*([masked | _training(pretrain)] if mlm or tlm else []), ranking]}


def laser_recipe(
    files: Sequence[str],
    out: Path | str,
    scale: str = "paper",
    stage: Mapping[str, Any] | None = None,
    **other: Any,  # noqa: ANN401
) -> Data:
    """LASER: an encoder trained by translating; `stage` has the settings of the decoder."""
    if scale not in LASER_SCALES:
        raise RecipeError(f"scale = {scale!r} is not known", hint=f"choose from: {', '.join(LASER_SCALES)}")
    sizes = LASER_SCALES[scale]
    data = _recipe(out, files, "", WITHOUT_TEACHER | other)
    data["student"] = {"kind": "bilstm"} | sizes.get("student", {}) | data.get("student", {})
    data["training"] = sizes.get("training", {}) | data.get("training", {})
    return data | {"stage": [{"task": "translate"} | sizes.get("stage", {}) | dict(stage or {})]}


def _recipe(out: Path | str, files: Sequence[str], student: str, other: Mapping[str, Any]) -> Data:
    data: Data = {"name": Path(out).name, **other}
    data["output"] = {"folder": str(out)} | data.get("output", {})
    if files:
        data["pairs"] = {"files": list(files)} | data.get("pairs", {})
    data["student"] = ({"model": student} if student else {}) | data.get("student", {})
    return data


def _training(settings: Mapping[str, Any] | None) -> Data:
    return {"training": dict(settings)} if settings else {}


def _given(**values: Any) -> Data:  # noqa: ANN401
    """Those that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _share(stage: Data, shares: Sequence[float]) -> None:
    """Set the share of steps of each task of a ranking stage."""
    if not shares:
        return
    tasks = [stage, *stage.get("beside", ())]
    if len(shares) != len(tasks):
        named = ", ".join(str(task["task"]) for task in tasks)
        counts = f"{amount(len(shares), 'share')} for {amount(len(tasks), 'task')}"
        raise RecipeError(f"{counts} ({named})", hint="one number above 0 for each")
    for task, share in zip(tasks, shares, strict=True):
        task["share"] = share


def _refuse_other_tasks(like: str, nli: Sequence[str], qa: Sequence[str]) -> None:
    if like not in PAPERS:
        raise RecipeError(f"like = {like!r} is not known", hint=f"choose from: {', '.join(name for name in PAPERS if name)}")
    if like == "labse" and (nli or qa):
        raise RecipeError(
            "LaBSE has no task beside translations, but files of others are given",
            hint="leave them out, or use a margin of 0.3 without naming LaBSE",
        )
    missing = [name for name, some in (("NLI", nli), ("question-answer", qa)) if not some]
    if like == "muse" and missing:
        files = " and ".join(f"{name} files" for name in missing)
        raise RecipeError(
            f"mUSE trains on NLI and answers as well as translations; missing: {files}",
            hint="name such files, or use hard negatives without naming mUSE",
        )
