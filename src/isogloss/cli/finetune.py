"""`isogloss finetune`: an encoder becomes a sentence encoder, from NLI and STS pairs."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import FreshFlag, JsonFlag, OutFolder, PrintRecipeFlag, ReplaceFlag, SetOption
from isogloss.cli.recipe_runner import run_recipe

Files = list[str] | None


def finetune(
    model: Annotated[str, Argument(metavar="MODEL", help="The encoder to start from: hub name or folder.")],
    nli: Annotated[Files, Option("--nli", metavar="FILE", help="Premise, hypothesis, label; repeatable.")] = None,
    sts: Annotated[Files, Option("--sts", metavar="FILE", help="Two sentences and a score from 0 to 5; repeatable.")] = None,
    sts_dev: Annotated[Files, Option("--sts-dev", metavar="FILE", help="STS pairs to choose the best weights by.")] = None,
    augment: Annotated[bool, Option("--augment", help="Label more STS pairs with a cross-encoder.")] = False,
    cross_encoder: Annotated[
        str | None, Option(metavar="MODEL", help="With --augment: the encoder to train as one, or a trained one.")
    ] = None,
    cross_epochs: Annotated[int | None, Option(help="With --augment: epochs of the cross-encoder.")] = None,
    neighbours: Annotated[int | None, Option(help="With --augment: neighbours to label per sentence.")] = None,
    search_by: Annotated[str | None, Option(metavar="MODEL", help="With --augment: the model that finds them.")] = None,
    out: OutFolder = Path("runs/finetuned"),
    nli_epochs: Annotated[int | None, Option(help="Epochs over the NLI pairs.  [default: 1]")] = None,
    sts_epochs: Annotated[int | None, Option(help="Epochs over the STS pairs.  [default: 4]")] = None,
    steps: Annotated[int | None, Option(help="Steps of each stage instead of epochs.")] = None,
    batch: Annotated[int | None, Option(help="Pairs in a batch.  [default: 16]")] = None,
    learning_rate: Annotated[float | None, Option(help="Peak learning rate.  [default: 2e-05]")] = None,
    warmup: Annotated[float | None, Option(help="Warm-up: a share of the steps, or a number from 1 on.")] = None,
    max_tokens: Annotated[int | None, Option(help="Longer sentences are truncated.  [default: 128]")] = None,
    prompt: Annotated[str | None, Option(help="Text put before every sentence; saved with the model.")] = None,
    dev_checks: Annotated[int | None, Option(help="How often each stage measures the dev set.  [default: 10]")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.  [default: auto]")] = None,
    precision: Annotated[str | None, Option(help="auto (bf16 on CUDA), bf16 or float32.")] = None,
    seed: Annotated[int | None, Option(help="The same seed gives the same weights.  [default: 17]")] = None,
    set_: SetOption = None,
    print_recipe: PrintRecipeFlag = False,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Train a sentence encoder on NLI, then STS, as SBERT does.

    isogloss finetune xlm-roberta-base --nli nli.tsv --sts sts.tsv --out sbert
    """
    from isogloss.runs.presets import finetune_recipe

    labels = {"cross_encoder": cross_encoder, "cross_epochs": cross_epochs, "neighbours": neighbours, "search_by": search_by}
    data = finetune_recipe(model, out, nli or (), sts or (), sts_dev or (), nli_epochs, sts_epochs, _augment(augment, labels))
    options = {
        "training.steps": ("--steps", steps),
        "training.batch_pairs": ("--batch", batch),
        "training.learning_rate": ("--learning-rate", learning_rate),
        "training.warmup": ("--warmup", warmup),
        "training.dev_checks": ("--dev-checks", dev_checks),
        "training.precision": ("--precision", precision),
        "student.max_tokens": ("--max-tokens", max_tokens),
        "student.prompt": ("--prompt", prompt),
        "device": ("--device", device),
        "seed": ("--seed", seed),
    }
    run_recipe(data, "finetune", options, set_, fresh=fresh, replace=replace, json=json, print_recipe=print_recipe)


def _augment(wanted: bool, labels: dict[str, Any]) -> dict[str, Any] | None:
    from isogloss.errors import RecipeError

    given = {name: value for name, value in labels.items() if value is not None}
    if given and not wanted:
        option = f"--{next(iter(given)).replace('_', '-')}"
        raise RecipeError(f"{option} has no effect without --augment", hint="add --augment, or leave it out")
    return given if wanted else None
