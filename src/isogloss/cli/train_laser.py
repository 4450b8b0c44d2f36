"""`isogloss train-laser`: an encoder that learns by translating, without any model to start from."""

from pathlib import Path
from typing import Annotated, Any

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


def train_laser(
    pairs: PairFiles,
    targets: Annotated[str, Option(metavar="en,es", help="The two languages to translate into.")] = "en,es",
    scale: Annotated[str, Option(metavar="paper|lab", help="The paper's sizes, or small ones.")] = "paper",
    vocabulary: Annotated[
        int | None, Option(metavar="N", help="Size of the shared vocabulary.  [default: 50000; lab: 8000]")
    ] = None,
    vocabulary_kind: Annotated[str | None, Option(metavar="bpe|unigram", help="How it is learnt.  [default: bpe]")] = None,
    embedding: Annotated[int | None, Option(metavar="N", help="Token embedding size.  [default: 320; lab: 128]")] = None,
    hidden: Annotated[
        int | None, Option(metavar="N", help="LSTM size per direction; vectors have twice that.  [default: 512; lab: 256]")
    ] = None,
    layers: Annotated[int | None, Option(metavar="N", help="Layers of the encoder.  [default: 5; lab: 2]")] = None,
    decoder: Annotated[int | None, Option(metavar="N", help="Decoder LSTM size.  [default: 2048; lab: 512]")] = None,
    epochs: Annotated[int | None, Option(metavar="N", help="Epochs.  [default: 17; lab: 10]")] = None,
    steps: Annotated[int | None, Option(metavar="N", help="Steps instead of epochs.")] = None,
    batch: Annotated[int | None, Option(metavar="N", help="Examples in a batch.  [default: 4096; lab: 64]")] = None,
    learning_rate: Annotated[float | None, Option(metavar="X", help="Learning rate of Adam.  [default: 0.001]")] = None,
    dropout: Annotated[float | None, Option(metavar="X", help="Dropout probability.  [default: 0.1]")] = None,
    smoothing: Annotated[float | None, Option(metavar="X", help="Label smoothing.  [default: 0]")] = None,
    max_tokens: Annotated[int | None, Option(metavar="N", help="Longer sentences are truncated.  [default: 128]")] = None,
    dev_pairs: Annotated[
        int | None, Option(metavar="N", help="Dev pairs per language, to choose the best weights; 0: the last.  [default: 500]")
    ] = None,
    select: Annotated[
        str | None, Option(metavar="retrieval|loss", help="What the best weights are best at.  [default: retrieval]")
    ] = None,
    checkpoint_seconds: Annotated[float | None, Option(metavar="X", help="Seconds between checkpoints.  [default: 20]")] = None,
    seed: Annotated[int, Option(help="The same seed on the same machine gives the same weights.")] = 17,
    device: Annotated[str, Option(metavar="auto|cpu|cuda|mps", help="Where it runs.")] = "auto",
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    on_error: OnErrorOption = None,
    out: OutFolder = Path("runs/laser"),
    set_: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="A value of [pairs], [cleaning], [leaks] or [evaluation]; repeatable."),
    ] = None,
    fresh: FreshFlag = False,
    replace: ReplaceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Train LASER: an encoder that learns by translating.

    isogloss train-laser en-de.tsv en-es.tsv --scale lab --out runs/laser
    """
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.outcome import show_run
    from isogloss.cli.screens.progress import progress
    from isogloss.recipes import FromOption
    from isogloss.runs import laser

    asked: dict[str, Any] = {
        "vocabulary": vocabulary,
        "vocabulary_kind": vocabulary_kind,
        "embedding": embedding,
        "hidden": hidden,
        "layers": layers,
        "decoder": decoder,
        "epochs": epochs,
        "steps": steps,
        "batch": batch,
        "learning_rate": learning_rate,
        "dropout": dropout,
        "smoothing": smoothing,
        "max_tokens": max_tokens,
        "dev_pairs": dev_pairs,
        "select": select,
        "checkpoint_seconds": checkpoint_seconds,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    settings = laser.LaserSettings.at(scale, targets=as_languages(targets), **given)
    recipe = [f"seed={seed}", FromOption("--device", "device", device)]
    recipe += [FromOption("--on-error", "pairs.on_error", on_error)] if on_error else []
    recipe += [f"languages=[{', '.join(repr(one) for one in as_languages(languages))}]"] if languages else []
    recipe += [FromOption("--language", "pairs.language", language)] if language else []
    with progress() as bars:
        result = laser.train_laser(pairs, out, settings, [*recipe, *(set_ or [])], bars, fresh, replace)
    show_run(result, json)
