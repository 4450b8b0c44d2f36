"""`isogloss finetune`: an encoder becomes a sentence encoder, from NLI and STS pairs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from isogloss.cli.options import FreshFlag, JsonFlag, OutFolder, ReplaceFlag

if TYPE_CHECKING:
    from isogloss.runs.finetuning import FinetuneResult


def finetune(
    model: Annotated[str, Argument(metavar="MODEL", help="The encoder to start from: hub name or folder.")],
    nli: Annotated[list[str] | None, Option("--nli", metavar="FILE", help="Premise, hypothesis, label; repeatable.")] = None,
    sts: Annotated[
        list[str] | None, Option("--sts", metavar="FILE", help="Two sentences and a score from 0 to 5; repeatable.")
    ] = None,
    sts_dev: Annotated[
        list[str] | None, Option("--sts-dev", metavar="FILE", help="The same, to choose the best weights by; repeatable.")
    ] = None,
    augment: Annotated[bool, Option("--augment", help="Label more STS pairs with a cross-encoder.")] = False,
    cross_encoder: Annotated[
        str,
        Option(
            "--cross-encoder",
            metavar="MODEL",
            help="With --augment: the encoder to train as one, or a trained one.  [default: MODEL]",
        ),
    ] = "",
    cross_epochs: Annotated[
        int, Option("--cross-epochs", help="With --augment: its epochs over the STS pairs; 0: as --sts-epochs.")
    ] = 0,
    neighbours: Annotated[int, Option(help="With --augment: how many nearest sentences of each are labelled.")] = 10,
    search_by: Annotated[
        str,
        Option("--search-by", metavar="MODEL", help="With --augment: the model that finds them.  [default: MODEL after NLI]"),
    ] = "",
    out: OutFolder = Path("runs/finetuned"),
    nli_epochs: Annotated[int, Option("--nli-epochs", help="Epochs over the NLI pairs.")] = 1,
    sts_epochs: Annotated[int, Option("--sts-epochs", help="Epochs over the STS pairs.")] = 4,
    steps: Annotated[int, Option(help="Steps of each stage instead of epochs; 0: epochs.")] = 0,
    batch: Annotated[int, Option(help="Pairs in a batch.")] = 16,
    learning_rate: Annotated[float, Option("--learning-rate", help="Peak learning rate.")] = 2e-5,
    warmup: Annotated[float, Option(help="Warm-up: a share of the steps, or from 1 on a number of steps.")] = 0.1,
    max_tokens: Annotated[int, Option("--max-tokens", help="Longer sentences are truncated.")] = 128,
    prompt: Annotated[str, Option(help="Text put before every sentence; saved with the model.")] = "",
    dev_checks: Annotated[int, Option("--dev-checks", help="How often each stage measures the dev set.")] = 10,
    device: Annotated[str, Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, Option(help="auto (bf16 on CUDA), bf16 or float32.")] = "auto",
    seed: Annotated[int, Option(help="The same seed gives the same weights.")] = 17,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Train a sentence encoder on NLI, then STS, as SBERT does.

    isogloss finetune xlm-roberta-base --nli nli.tsv --sts sts.tsv --out sbert
    """
    from isogloss.cli.screens.progress import progress
    from isogloss.runs import finetuning
    from isogloss.runs.finetune_settings import FinetuneSettings

    settings = FinetuneSettings(
        model=model,
        nli=tuple(nli or ()),
        sts=tuple(sts or ()),
        sts_dev=tuple(sts_dev or ()),
        out=str(out),
        nli_epochs=nli_epochs,
        sts_epochs=sts_epochs,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        warmup=warmup,
        max_tokens=max_tokens,
        prompt=prompt,
        augment=augment,
        cross_encoder=cross_encoder,
        cross_epochs=cross_epochs,
        neighbours=neighbours,
        search_by=search_by,
        dev_checks=dev_checks,
        device=device,
        precision=precision,
        seed=seed,
    )
    with progress() as bars:
        result = finetuning.finetune(settings, bars, fresh, replace)
    _show(result, json)


def _show(result: "FinetuneResult", as_json: bool) -> None:
    from rich.table import Table

    from isogloss.cli.screens.progress import output, show_json

    if as_json:
        show_json(result.as_dict())
        return
    measured = any(stage.after is not None for stage in result.stages)
    title = "Spearman × 100 on the STS dev set" if measured else ""
    table = Table(title=title, title_justify="left", title_style="", header_style="bold", box=None, padding=(0, 2, 0, 0))
    for name in ("stage", "examples", "steps", *(("before", "after", "best step") if measured else ("loss",))):
        table.add_column(name, justify="left" if name == "stage" else "right")
    for stage in result.stages:
        told = stage.training
        cells = [stage.name, f"{stage.examples:,}", f"{told.steps:,}"]
        cells += [_score(stage.before), _score(stage.after), f"{told.best_step:,}"] if measured else [f"{told.loss:.4f}"]
        table.add_row(*cells)
    output.print()
    output.print(table)
    for line in _told(result):
        output.print(line)


def _score(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"


def _told(result: "FinetuneResult") -> list[str]:
    from isogloss.amounts import amount, duration

    data = result.details["data"]
    lines = []
    if "augmented" in data:
        lines.append(
            f"\nA cross-encoder from {data['augmented']['cross_encoder']} labelled"
            f" {amount(data['augmented']['pairs'], 'near pair')}."
        )
    without = sum(one.get("without_judgement", 0) for one in data.values())
    if without:
        lines.append(f"{amount(without, 'row')} had no judgement and {'was' if without == 1 else 'were'} left out.")
    if shared := data.get("sts_dev", {}).get("shared_with_training"):
        lines.append(f"! {shared:,} of {amount(data['sts_dev']['pairs'], 'dev row')} share a sentence with training.")
    lines.append(f"\nDone in {duration(result.seconds)}. Model: {result.model}")
    lines.append(f"Next: isogloss evaluate {result.folder} --suite stsb --data FOLDER   (or --data hub)")
    return lines
