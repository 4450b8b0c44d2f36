"""`isogloss score`: score the pairs of a bitext, and drop the bad ones."""

from pathlib import Path
from typing import cast

from isogloss.cli.mine import MemoryOption, ModelOption, OutOption
from isogloss.cli.options import JsonFlag, LanguageOption, OnErrorOption, PairFiles, option_for
from isogloss.config import PairsSettings
from isogloss.config.mining import Margin, ScoringSettings

THRESHOLD_HELP = "Minimum score of a pair; none keeps all."


def score(
    pairs: PairFiles,
    model: ModelOption,
    out: OutOption = Path("scored.tsv"),
    margin: str = option_for(ScoringSettings, "margin"),
    k: int = option_for(ScoringSettings, "k", "--k"),
    threshold: str = option_for(ScoringSettings, "threshold", metavar="none|auto|NUMBER", help=THRESHOLD_HELP),
    precision: float = option_for(ScoringSettings, "precision"),
    language: LanguageOption = None,
    source_language: str = option_for(PairsSettings, "source_language", help="Language of the source side."),
    on_error: OnErrorOption = None,
    memory: MemoryOption = "",
    device: str = option_for(ScoringSettings, "device"),
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
    settings = ScoringSettings(
        k=k,
        margin=cast("Margin", margin),
        threshold=threshold,
        precision=precision,
        memory=as_bytes(memory),
        device=device,
        folder=work_folder(out),
    )
    with progress() as bars:
        scored = isogloss.score(model, bitext, settings, bars)
    finish(scored, out, pairs, model, json)
