"""`isogloss score`: score the pairs of a bitext, and drop the bad ones."""

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
    threshold: Annotated[str, Option(metavar="none|auto|NUMBER", help="Lowest score to keep; none keeps all pairs.")] = "none",
    precision: PrecisionOption = 0.9,
    language: LanguageOption = None,
    source_language: Annotated[str, Option(help="Language of the source side.")] = "en",
    on_error: OnErrorOption = None,
    memory: MemoryOption = "",
    device: DeviceOption = "auto",
    json: JsonFlag = False,
) -> None:
    """Score pairs, and drop the bad ones with --threshold.

    The score is a margin: how much closer the two sides are than their neighbours.

    isogloss score en-ko.tsv --model runs/ko --threshold auto --out good.tsv
    """
    import isogloss
    from isogloss.cli.screens.mined import as_bytes, finish, refuse_bad_names, work_folder
    from isogloss.cli.screens.progress import progress

    refuse_bad_names(out, pairs, model)
    bitext = isogloss.read(pairs, (), language, source_language, on_error or "fail")
    settings = isogloss.ScoringSettings(
        k=k,
        margin=margin,
        threshold=threshold,
        precision=precision,
        memory=as_bytes(memory),
        device=device,
        folder=work_folder(out),
    )
    with progress() as bars:
        scored = isogloss.score_pairs(bitext, model, settings, bars)
    finish(scored, out, pairs, model, json)
