"""`isogloss score`: which lines of a bitext are translations of each other."""

from pathlib import Path
from typing import Annotated

from typer import Option

from isogloss.cli.mine import DeviceOption, KOption, MarginOption, MemoryOption, ModelOption, OutOption, PrecisionOption
from isogloss.cli.options import JsonFlag, LanguageOption, OnErrorOption, PairFiles


def score(
    pairs: PairFiles,
    model: ModelOption,
    out: OutOption = Path("scored.tsv"),
    margin: MarginOption = "ratio",
    k: KOption = 4,
    threshold: Annotated[str, Option(metavar="none|auto|NUMBER", help="Least score of a pair; none keeps all.")] = "none",
    precision: PrecisionOption = 0.9,
    language: LanguageOption = None,
    source_language: Annotated[str, Option(help="Language of the source side.")] = "en",
    on_error: OnErrorOption = None,
    memory: MemoryOption = "",
    device: DeviceOption = "auto",
    json: JsonFlag = False,
) -> None:
    """Score given pairs, and leave the bad ones out if asked to.

    The score is a margin: how much nearer the sides of a pair are than what else is near.

    isogloss score en-ko.tsv --model runs/ko --threshold auto --out good.tsv
    """
    import isogloss
    from isogloss.cli.screens.mined import as_bytes, finish, refuse_bad_names, work_folder
    from isogloss.cli.screens.progress import progress
    from isogloss.mining.score import ScoringSettings

    refuse_bad_names(out, pairs, model)
    bitext = isogloss.read(pairs, (), language, source_language, on_error or "fail")
    settings = ScoringSettings(
        k=k,
        margin=margin,
        threshold=threshold,
        precision=precision,
        memory=as_bytes(memory),
        device=device,
        folder=work_folder(out),
    )
    with progress() as bars:
        scored = isogloss.score(model, bitext, settings, bars)
    finish(scored, out, json)
