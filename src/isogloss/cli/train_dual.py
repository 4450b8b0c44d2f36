"""`isogloss train-dual`: a dual encoder from translations, as mUSE and LaBSE are, without a teacher."""

from pathlib import Path
from typing import Annotated

from typer import Option

from isogloss.cli.options import (
    FreshFlag,
    JsonFlag,
    LanguageOption,
    LanguagesOption,
    OnErrorOption,
    OutFolder,
    PairFiles,
    PrintRecipeFlag,
    ReplaceFlag,
    SetOption,
    as_languages,
)
from isogloss.cli.recipe_runner import run_recipe

Files = list[str] | None


def train_dual(
    pairs: PairFiles,
    student: Annotated[str, Option(help="The encoder that is trained: hub name or folder.")] = "multilingual-e5-small",
    out: OutFolder = Path("runs/dual"),
    like: Annotated[str, Option(metavar="muse|labse", help="Use a paper's settings.")] = "",
    nli: Annotated[Files, Option("--nli", metavar="FILE", help="Premise, hypothesis, label; repeatable.")] = None,
    qa: Annotated[Files, Option("--qa", metavar="FILE", help="question<TAB>answer, or JSONL; repeatable.")] = None,
    margin: Annotated[float | None, Option(help="Additive margin on the cosine.  [default: 0; labse: 0.3]")] = None,
    hard_negatives: Annotated[int | None, Option(help="Hard negatives per pair.  [default: 0; muse: 5]")] = None,
    rounds: Annotated[int | None, Option(help="Trainings from the start.  [default: 1; hard negatives: 2]")] = None,
    mlm: Annotated[Files, Option("--mlm", metavar="TEXT", help="First train masked tokens of this text.")] = None,
    tlm: Annotated[bool, Option("--tlm", help="First train masked tokens of the pairs.")] = False,
    shares: Annotated[str, Option(metavar="2,1,1", help="Steps for translations, NLI and QA.  [default: by size]")] = "",
    pooling: Annotated[str | None, Option(help="mean, cls or max.  [default: the student's]")] = None,
    temperature: Annotated[float | None, Option(help="Of the ranking loss.  [default: 0.05]")] = None,
    epochs: Annotated[int | None, Option(help="Epochs of a round.  [default: 1]")] = None,
    steps: Annotated[int | None, Option(help="Steps of a round instead of epochs.")] = None,
    batch: Annotated[int | None, Option(help="Examples in a batch.  [default: 64]")] = None,
    learning_rate: Annotated[float | None, Option(help="Peak learning rate.  [default: 5e-05]")] = None,
    warmup: Annotated[float | None, Option(help="Warm-up as a share of the steps.  [default: 0.1]")] = None,
    pretrain_epochs: Annotated[int | None, Option(help="Epochs of --mlm and --tlm.  [default: 1]")] = None,
    max_candidates: Annotated[int | None, Option(help="Sentences to search among.  [default: 10000]")] = None,
    max_tokens: Annotated[int | None, Option(help="Longer text is truncated.  [default: 128]")] = None,
    trim: Annotated[str | None, Option(help="Vocabulary: alphabet, corpus or off.  [default: off]")] = None,
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    on_error: OnErrorOption = None,
    seed: Annotated[int | None, Option(help="Random seed.  [default: 17]")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.  [default: auto]")] = None,
    set_: SetOption = None,
    print_recipe: PrintRecipeFlag = False,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Train a dual encoder by ranking translations: mUSE, LaBSE.

    Other tasks (NLI, answers, masked tokens) are trained too if there are files.

    isogloss train-dual en-de.tsv --like labse --out runs/labse

    isogloss train-dual en-de.tsv --like muse --nli nli.tsv --qa questions.tsv
    """
    from isogloss.runs.presets import dual_recipe

    losses = {"margin": margin, "hard_negatives": hard_negatives, "ranking_temperature": temperature}
    data = dual_recipe(
        pairs,
        out,
        student,
        like,
        nli or (),
        qa or (),
        mlm or (),
        tlm,
        _numbers(shares),
        {name: value for name, value in losses.items() if value is not None},
        rounds,
        pooling,
        {} if pretrain_epochs is None else {"epochs": pretrain_epochs},
        training={} if epochs is None else {"epochs": epochs},
    )
    options = {
        "training.steps": ("--steps", steps),
        "training.batch_pairs": ("--batch", batch),
        "training.learning_rate": ("--learning-rate", learning_rate),
        "training.warmup": ("--warmup", warmup),
        "evaluation.max_candidates": ("--max-candidates", max_candidates),
        "student.max_tokens": ("--max-tokens", max_tokens),
        "student.trim": ("--trim", trim),
        "languages": ("--languages", list(as_languages(languages)) or None),
        "pairs.language": ("--language", language),
        "pairs.on_error": ("--on-error", on_error),
        "seed": ("--seed", seed),
        "device": ("--device", device),
    }
    run_recipe(data, "train-dual", options, set_, fresh=fresh, replace=replace, json=json, print_recipe=print_recipe)


def _numbers(text: str) -> tuple[float, ...]:
    from isogloss.errors import RecipeError

    try:
        return tuple(float(part) for part in text.split(",") if text)
    except ValueError as error:
        raise RecipeError(f"--shares {text}: expected numbers with commas between them", hint="--shares 2,1,1") from error
