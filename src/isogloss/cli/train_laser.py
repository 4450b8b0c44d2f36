"""`isogloss train-laser`: an encoder that learns by translating, without any model to start from."""

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

Number = int | None


def train_laser(
    pairs: PairFiles,
    targets: Annotated[str, Option(metavar="en,es", help="The two languages to translate into.")] = "en,es",
    scale: Annotated[str, Option(metavar="paper|lab", help="The paper's sizes, or small ones.")] = "paper",
    vocabulary: Annotated[Number, Option(help="Shared vocabulary size.  [default: 50000; lab: 8000]")] = None,
    vocabulary_kind: Annotated[str | None, Option(metavar="bpe|unigram", help="How it is learned.")] = None,
    embedding: Annotated[Number, Option(help="Token embedding size.  [default: 320; lab: 128]")] = None,
    hidden: Annotated[Number, Option(help="LSTM size per direction.  [default: 512; lab: 256]")] = None,
    layers: Annotated[Number, Option(help="Layers of the encoder.  [default: 5; lab: 2]")] = None,
    decoder: Annotated[Number, Option(help="Decoder LSTM size.  [default: 2048; lab: 512]")] = None,
    epochs: Annotated[Number, Option(help="Epochs.  [default: 17; lab: 10]")] = None,
    steps: Annotated[Number, Option(help="Steps instead of epochs.")] = None,
    batch: Annotated[Number, Option(help="Examples in a batch.  [default: 4096; lab: 64]")] = None,
    learning_rate: Annotated[float | None, Option(help="Learning rate of Adam.  [default: 0.001]")] = None,
    dropout: Annotated[float | None, Option(help="Dropout probability.  [default: 0.1]")] = None,
    smoothing: Annotated[float | None, Option(help="Label smoothing.  [default: 0]")] = None,
    max_tokens: Annotated[Number, Option(help="Longer sentences are truncated.  [default: 128]")] = None,
    dev_pairs: Annotated[Number, Option(help="Dev pairs per language; 0 keeps the last weights.")] = None,
    select: Annotated[str | None, Option(metavar="retrieval|loss", help="What the best weights are best at.")] = None,
    checkpoint_seconds: Annotated[float | None, Option(help="Seconds between checkpoints.")] = None,
    seed: Annotated[Number, Option(help="The same seed gives the same weights.  [default: 17]")] = None,
    device: Annotated[str | None, Option(help="auto, cpu, cuda or mps.  [default: auto]")] = None,
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    on_error: OnErrorOption = None,
    out: OutFolder = Path("runs/laser"),
    set_: SetOption = None,
    print_recipe: PrintRecipeFlag = False,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Train LASER: an encoder that learns by translating.

    isogloss train-laser en-de.tsv en-es.tsv --scale lab --out runs/laser
    """
    from isogloss.runs.presets import laser_recipe

    decoding = {"decoder": decoder, "dropout": dropout, "smoothing": smoothing}
    given = {name: value for name, value in decoding.items() if value is not None}
    data = laser_recipe(pairs, out, scale, {"targets": list(as_languages(targets)), **given})
    options = {
        "student.vocabulary": ("--vocabulary", vocabulary),
        "student.vocabulary_kind": ("--vocabulary-kind", vocabulary_kind),
        "student.embedding": ("--embedding", embedding),
        "student.hidden": ("--hidden", hidden),
        "student.lstm_layers": ("--layers", layers),
        "student.lstm_dropout": ("--dropout", dropout),
        "student.max_tokens": ("--max-tokens", max_tokens),
        "training.epochs": ("--epochs", epochs),
        "training.steps": ("--steps", steps),
        "training.batch_pairs": ("--batch", batch),
        "training.learning_rate": ("--learning-rate", learning_rate),
        "training.dev_pairs": ("--dev-pairs", dev_pairs),
        "training.select": ("--select", select),
        "training.checkpoint_seconds": ("--checkpoint-seconds", checkpoint_seconds),
        "languages": ("--languages", list(as_languages(languages)) or None),
        "pairs.language": ("--language", language),
        "pairs.on_error": ("--on-error", on_error),
        "seed": ("--seed", seed),
        "device": ("--device", device),
    }
    run_recipe(data, "train-laser", options, set_, fresh=fresh, replace=replace, json=json, print_recipe=print_recipe)
