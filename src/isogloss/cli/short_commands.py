"""The commands that fill in a recipe and run it: `distill`, `finetune`, `train-dual`, `train-laser`.

Each function has the options that its preset (`runs/presets.py`) needs and returns the recipe as plain data. `short_command`
adds options for keys of the recipe and the flags that all these commands have.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli import options
from isogloss.cli.options import (
    PAIRS,
    Command,
    OutFolder,
    PairFiles,
    as_languages,
    option_for,
    recipe_option,
    recipe_options,
    with_options,
)
from isogloss.config import StudentSettings, TeacherSettings
from isogloss.config.stages import StsStage, TranslateStage
from isogloss.runs.presets import LASER_SCALES, PAPERS, ROUNDS

Data = dict[str, Any]
Files = list[str] | None
FLAGS: dict[str, tuple[Any, Any]] = {
    "set_": (options.SetOption, None),
    "print_recipe": (options.PrintRecipeFlag, False),
    "fresh": (options.FreshFlag, False),
    "replace": (options.ReplaceFlag, False),
    "json": (options.JsonFlag, False),
}
STEPS = {"--steps": "training.steps", "--batch": "training.batch_pairs", "--learning-rate": "training.learning_rate"}
MACHINE = {"--max-tokens": "student.max_tokens", "--seed": "seed", "--device": "device"}
CROSS_HELP = "With augment: the cross-encoder, or a model to train it from; empty: the student."
NliOption = Annotated[Files, Option("--nli", metavar="FILE", help="Premise, hypothesis, label; repeatable.")]


def short_command(
    keys: Mapping[str, str], task: str = "", presets: Mapping[str, Data] | None = None
) -> Callable[[Callable[..., Data]], Command]:
    """Make a command of a function that returns a recipe as plain data; the arguments are those of `recipe_options`."""

    def decorate(fill: Callable[..., Data]) -> Command:
        def command(given: list[str], set_: Files, print_recipe: bool, **options: Any) -> None:  # noqa: ANN401
            from isogloss import recipes
            from isogloss.cli.run import run_and_show

            how = {name: options.pop(name) for name in ("fresh", "replace", "json")}
            recipe = recipes.parse(fill(**options), [*given, *(set_ or [])], fill.__name__.replace("_", "-"))
            if print_recipe:
                sys.stdout.write(recipes.dump(recipe, comments=False, defaults=False))
            else:
                run_and_show(recipe, **how)

        return recipe_options(keys, task, presets)(with_options(command, fill, {"given": (list[str], None), **FLAGS}))

    return decorate


def _given(**values: Any) -> Data:  # noqa: ANN401
    return {name: value for name, value in values.items() if value is not None}


@short_command(PAIRS)
def distill(
    pairs: PairFiles,
    teacher: str = option_for(TeacherSettings, "model", metavar="MODEL", help=options.TEACHER_HELP),
    student: str = option_for(StudentSettings, "model", metavar="MODEL", help=options.STUDENT_HELP),
    out: OutFolder = Path("runs/distilled"),
) -> Data:
    """Distill a teacher into a student without writing a recipe.

    isogloss distill en-de.tsv --teacher all-MiniLM-L6-v2 --out runs/german
    """
    from isogloss.runs.presets import distill_recipe

    return distill_recipe(pairs, out, teacher, student)


_FINETUNE = {
    **STEPS,
    "--warmup": "training.warmup",
    "--prompt": "student.prompt",
    "--dev-checks": "training.dev_checks",
    "--precision": "training.precision",
    **MACHINE,
}


@short_command(_FINETUNE, task="sts")
def finetune(
    model: Annotated[str, Argument(metavar="MODEL", help="The encoder to fine-tune: hub name or folder.")],
    nli: NliOption = None,
    sts: Annotated[Files, Option("--sts", metavar="FILE", help="Two sentences and a score from 0 to 5; repeatable.")] = None,
    sts_dev: Annotated[
        Files, Option("--sts-dev", metavar="FILE", help="STS file to choose the best weights with; repeatable.")
    ] = None,
    augment: bool = option_for(StsStage, "augment", "--augment"),
    cross_encoder: str | None = option_for(StsStage, "cross_encoder", default=None, metavar="MODEL", help=CROSS_HELP),
    cross_epochs: int | None = option_for(StsStage, "cross_epochs", default=None),
    neighbors: int | None = option_for(StsStage, "neighbors", default=None),
    search_by: str | None = option_for(StsStage, "search_by", default=None, metavar="MODEL"),
    nli_epochs: int | None = recipe_option("training.epochs", task="nli", help="Epochs over the NLI pairs."),
    sts_epochs: int | None = recipe_option("training.epochs", task="sts", help="Epochs over the STS pairs."),
    out: OutFolder = Path("runs/finetuned"),
) -> Data:
    """Fine-tune an encoder on NLI, then on STS, like SBERT.

    isogloss finetune xlm-roberta-base --nli nli.tsv --sts sts.tsv --out sbert
    """
    from isogloss.errors import RecipeError
    from isogloss.runs.presets import finetune_recipe

    labels = _given(cross_encoder=cross_encoder, cross_epochs=cross_epochs, neighbors=neighbors, search_by=search_by)
    if labels and not augment:
        option = f"--{next(iter(labels)).replace('_', '-')}"
        raise RecipeError(f"{option} has no effect without --augment", hint=f"add --augment, or leave {option} out")
    chosen = labels if augment else None
    return finetune_recipe(model, out, nli or (), sts or (), sts_dev or (), nli_epochs, sts_epochs, chosen)


_DUAL = {
    "--epochs": "training.epochs",
    **STEPS,
    "--warmup": "training.warmup",
    "--max-candidates": "evaluation.max_candidates",
    "--trim": "student.trim",
    **PAIRS,
    **MACHINE,
}


@short_command(_DUAL, task="rank", presets={"": {"student": {"trim": "off"}}})
def train_dual(
    pairs: PairFiles,
    student: str = option_for(StudentSettings, "model", metavar="MODEL", help=options.STUDENT_HELP),
    out: OutFolder = Path("runs/dual"),
    like: Annotated[str, Option(metavar="muse|labse", help="Use the settings of that paper.")] = "",
    nli: NliOption = None,
    qa: Annotated[Files, Option("--qa", metavar="FILE", help="question<TAB>answer, or JSONL; repeatable.")] = None,
    margin: float | None = recipe_option("losses.margin", presets=PAPERS),
    hard_negatives: int | None = recipe_option("losses.hard_negatives", presets=PAPERS),
    rounds: Annotated[
        int | None,
        Option(metavar="N", help=f"Training rounds, each from the same start.  [default: 1; with hard negatives: {ROUNDS}]"),
    ] = None,
    mlm: Annotated[Files, Option("--mlm", metavar="TEXT", help="Text for masked language modeling; repeatable.")] = None,
    tlm: Annotated[bool, Option("--tlm", help="Translation language modeling on the pairs.")] = False,
    shares: Annotated[
        str, Option(metavar="2,1,1", help="Relative number of steps on translations, NLI and QA.  [default: by size]")
    ] = "",
    pooling: str | None = recipe_option("student.pooling"),
    temperature: float | None = recipe_option("losses.ranking_temperature", "--temperature"),
    pretrain_epochs: int | None = recipe_option("training.epochs", task="mlm", help="Epochs over --mlm and --tlm."),
) -> Data:
    """Train a dual encoder like mUSE or LaBSE.

    --mlm and --tlm train first; --nli and --qa are trained with the pairs.

    isogloss train-dual en-de.tsv --like labse --out runs/labse

    isogloss train-dual en-de.tsv --like muse --nli nli.tsv --qa questions.tsv
    """
    from isogloss.runs.presets import dual_recipe

    losses = _given(margin=margin, hard_negatives=hard_negatives, ranking_temperature=temperature)
    tasks = nli or (), qa or (), mlm or (), tlm
    pretrain = _given(epochs=pretrain_epochs)
    return dual_recipe(pairs, out, student, like, *tasks, _numbers(shares), losses, rounds, pooling, pretrain)


def _numbers(text: str) -> tuple[float, ...]:
    from isogloss.errors import RecipeError

    try:
        return tuple(float(part) for part in text.split(",") if text)
    except ValueError as error:
        raise RecipeError(f"--shares {text}: expected numbers with commas between them", hint="--shares 2,1,1") from error


_LASER = {
    "--vocabulary": "student.vocabulary",
    "--vocabulary-kind": "student.vocabulary_kind",
    "--embedding": "student.embedding",
    "--hidden": "student.hidden",
    "--layers": "student.lstm_layers",
    "--epochs": "training.epochs",
    **STEPS,
    "--dev-pairs": "training.dev_pairs",
    "--select": "training.select",
    "--checkpoint-seconds": "training.checkpoint_seconds",
    **PAIRS,
    **MACHINE,
}


@short_command(_LASER, task="translate", presets=LASER_SCALES)
def train_laser(
    pairs: PairFiles,
    targets: Annotated[str, Option(metavar="en,es", help="Languages that the decoder translates into.")] = "en,es",
    scale: Annotated[str, Option(metavar="paper|lab", help="Model size: that of the paper, or a small one.")] = "paper",
    decoder: int | None = option_for(TranslateStage, "decoder", default=None, presets=LASER_SCALES),
    dropout: float | None = option_for(TranslateStage, "dropout", default=None),
    smoothing: float | None = option_for(TranslateStage, "smoothing", default=None),
    out: OutFolder = Path("runs/laser"),
) -> Data:
    """Train LASER: an encoder that learns by translating.

    isogloss train-laser en-de.tsv en-es.tsv --scale lab --out runs/laser
    """
    from isogloss.runs.presets import laser_recipe

    stage = {"targets": list(as_languages(targets)), **_given(decoder=decoder, dropout=dropout, smoothing=smoothing)}
    student = {} if dropout is None else {"student": {"lstm_dropout": dropout}}
    return laser_recipe(pairs, out, scale, stage, **student)
