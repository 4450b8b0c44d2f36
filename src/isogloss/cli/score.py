"""`isogloss score`: score the pairs of a bitext, and drop the bad ones."""

from pathlib import Path
from typing import Any

from isogloss.cli.mine import MemoryOption, ModelOption, OutOption
from isogloss.cli.options import JsonFlag, LanguageOption, OnErrorOption, PairFiles, option_for, settings_as_options
from isogloss.config import PairsSettings
from isogloss.config.mining import ScoringSettings


@settings_as_options(
    ScoringSettings,
    skip=["memory", "cache", "folder"],
    threshold={"metavar": "none|auto|NUMBER", "help": "Minimum score of a pair. none: keep all; auto: by --precision."},
)
def score(
    pairs: PairFiles,
    model: ModelOption,
    values: dict[str, Any],
    out: OutOption = Path("scored.tsv"),
    memory: MemoryOption = "",
    language: LanguageOption = None,
    source_language: str = option_for(PairsSettings, "source_language", metavar="XX", help="Language of the source side."),
    on_error: OnErrorOption = None,
    json: JsonFlag = False,
) -> None:
    """Score sentence pairs; drop bad ones with --threshold.

    The score says how much closer the two sides are to each other than to their nearest neighbors.

    isogloss score en-ko.tsv --model runs/ko --threshold auto --out good.tsv
    """
    import isogloss
    from isogloss.cli.screens.mined import as_bytes, finish, refuse_bad_names, work_folder
    from isogloss.cli.screens.progress import progress

    refuse_bad_names(out, pairs, model)
    bitext = isogloss.read(pairs, (), language, source_language, on_error or "fail")
    settings = ScoringSettings(**values, memory=as_bytes(memory), folder=work_folder(out))
    with progress() as bars:
        scored = isogloss.score(model, bitext, settings, bars)
    finish(scored, out, pairs, model, json)
