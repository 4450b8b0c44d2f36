"""`isogloss train-dual`: a dual encoder from translations, as mUSE and LaBSE are, without a teacher."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from isogloss.cli.options import (
    FreshFlag,
    JsonFlag,
    LanguageOption,
    LanguagesOption,
    OnErrorOption,
    OutFolder,
    PairFiles,
    ReplaceFlag,
)

if TYPE_CHECKING:
    from isogloss.runs.dual import DualResult

Files = list[str] | None


def train_dual(
    pairs: PairFiles,
    student: Annotated[str, Option(help="The encoder that is trained: hub name or folder.")] = "multilingual-e5-small",
    out: OutFolder = Path("runs/dual"),
    like: Annotated[str, Option(metavar="muse|labse", help="Take a paper's choices.")] = "",
    nli: Annotated[Files, Option("--nli", metavar="FILE", help="Premise, hypothesis, label; repeatable.")] = None,
    qa: Annotated[Files, Option("--qa", metavar="FILE", help="question<TAB>answer, or JSONL; repeatable.")] = None,
    margin: Annotated[float | None, Option(help="Cosine by which a translation must win.  [default: 0; labse: 0.3]")] = None,
    hard_negatives: Annotated[int | None, Option(help="Hard negatives per pair.  [default: 0; muse: 5]")] = None,
    rounds: Annotated[int | None, Option(help="Trainings, each from the start.  [default: 1; with hard negatives: 2]")] = None,
    mlm: Annotated[Files, Option("--mlm", metavar="TEXT", help="First learn masked words of this text.")] = None,
    tlm: Annotated[bool, Option("--tlm", help="First learn masked words of the pairs.")] = False,
    shares: Annotated[str, Option(metavar="2,1,1", help="Steps for translations, NLI and QA.  [default: by size]")] = "",
    pooling: Annotated[str | None, Option(help="mean, cls or max.  [default: the student's; muse: mean; labse: cls]")] = None,
    temperature: Annotated[float | None, Option(help="Of the ranking loss.  [default: 0.05]")] = None,
    epochs: Annotated[int | None, Option(help="Epochs of a round.  [default: 1]")] = None,
    steps: Annotated[int | None, Option(help="Steps of a round instead of epochs.")] = None,
    batch: Annotated[int | None, Option(help="Examples in a batch.  [default: 64]")] = None,
    learning_rate: Annotated[float | None, Option(help="Peak learning rate.  [default: 5e-05]")] = None,
    warmup: Annotated[float | None, Option(help="As a share of the steps.  [default: 0.1]")] = None,
    pretrain_epochs: Annotated[int | None, Option(help="Epochs of --mlm and --tlm.  [default: 1]")] = None,
    max_candidates: Annotated[int | None, Option(help="Sentences to search among.  [default: 10000]")] = None,
    max_tokens: Annotated[int | None, Option(help="Longer text is truncated.  [default: 128]")] = None,
    trim: Annotated[str | None, Option(help="By alphabet or corpus.  [default: off]")] = None,
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    on_error: OnErrorOption = None,
    seed: Annotated[int | None, Option(help="Random seed.  [default: 17]")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.  [default: auto]")] = None,
    set_: Annotated[Files, Option("--set", metavar="KEY=VALUE", help="A setting, or one of [cleaning], [pairs], …")] = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Train a dual encoder by ranking translations: mUSE, LaBSE.

    Other tasks (NLI, answers, masked words) are trained beside it if there are files.

    isogloss train-dual en-de.tsv --like labse --out runs/labse

    isogloss train-dual en-de.tsv --like muse --nli nli.tsv --qa questions.tsv
    """
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.progress import progress
    from isogloss.runs import dual

    given: dict[str, Any] = {
        "nli": tuple(nli) if nli else None,
        "qa": tuple(qa) if qa else None,
        "mlm": tuple(mlm) if mlm else None,
        "tlm": tlm or None,
        "margin": margin,
        "hard_negatives": hard_negatives,
        "rounds": rounds,
        "shares": _numbers(shares) if shares else None,
        "pooling": pooling,
        "temperature": temperature,
        "epochs": epochs,
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "pretrain_epochs": pretrain_epochs,
        "max_candidates": max_candidates,
        "max_tokens": max_tokens,
        "trim": trim,
        "languages": as_languages(languages) or None,
        "language": language,
        "on_error": on_error,
        "seed": seed,
        "device": device,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    with progress() as bars:
        result = dual.train_dual(pairs, student, out, like, bars, fresh, set_ or (), replace, **settings)
    _show(result, json)


def _numbers(text: str) -> tuple[float, ...]:
    from isogloss.errors import RecipeError

    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise RecipeError(f"--shares {text}: expected numbers with commas between them", hint="--shares 2,1,1") from error


def _show(result: "DualResult", as_json: bool) -> None:
    from isogloss.amounts import duration
    from isogloss.cli.screens.progress import output, score_table, show_json, what_was_asked

    if as_json:
        show_json(result.as_dict())
        return
    if result.reports:
        output.print()
        output.print(score_table(result.reports, what_was_asked(result.reports[-1])))
    output.print(
        f"\nDone in {duration(result.seconds)}. Model: {result.model}\n\n"
        f'    isogloss evaluate {result.folder} --pairs {result.folder}/pairs --teacher ""\n'
        f"    isogloss mine SRC TGT --model {result.folder}",
        highlight=False,
        markup=False,
    )
