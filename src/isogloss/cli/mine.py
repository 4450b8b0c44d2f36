"""`isogloss mine`: parallel sentences from two monolingual files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import MODEL_HELP, JsonFlag, settings_as_options
from isogloss.config.mining import MiningSettings

if TYPE_CHECKING:
    from isogloss.search.approximate import SearchAccount

ModelOption = Annotated[str, Option("--model", "-m", metavar="MODEL", help=MODEL_HELP)]
OutOption = Annotated[
    Path, Option("--out", metavar="FILE", help="File to write: .tsv, .tsv.gz, .jsonl, .jsonl.gz or .parquet.")
]
MemoryOption = Annotated[
    str, Option(metavar="SIZE", help="Memory to use besides the embeddings, such as 500M or 2G.  [default: 1G]")
]
SENTENCES_HELP = "Text file, one sentence per line (plain or compressed), a prepared store, or - for standard input."


@settings_as_options(
    MiningSettings,
    skip=["memory", "cache", "folder"],
    threshold={
        "metavar": "auto|gold:FILE|NUMBER",
        "help": "Minimum score of a pair. auto: by --precision; gold: best F1 on a file of source id<TAB>target id.",
    },
    with_ids={"flag": "--ids"},
)
def mine(
    source: Annotated[str, Argument(metavar="SRC", help=SENTENCES_HELP)],
    target: Annotated[str, Argument(metavar="TGT", help="The same, in the other language.")],
    model: ModelOption,
    values: dict[str, Any],
    out: OutOption = Path("mined.tsv"),
    memory: MemoryOption = "",
    json: JsonFlag = False,
) -> None:
    """Find parallel sentences in two monolingual files.

    isogloss mine news.en news.ko.gz --model runs/ko --out pairs.tsv
    """
    import isogloss
    from isogloss.cli.screens.mined import as_bytes, finish, refuse_bad_names, work_folder
    from isogloss.cli.screens.progress import progress

    refuse_bad_names(out, [source, target], model)
    settings = MiningSettings(**values, memory=as_bytes(memory), folder=work_folder(out))
    with progress() as bars:
        mined = isogloss.mine(model, source, target, settings, bars)
    if mined.search is not None and not json:
        _show_search(mined.search)
    finish(mined, out, [source, target], model, json)


def _show_search(account: "SearchAccount") -> None:
    """How neighbors were searched, and the recall if it is not exact."""
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import output, percent

    parts = [f"search: {account.kind} ({account.why})"]
    if account.recall is not None:
        parts.append(f"index of {account.index_bytes / 2**20:,.0f} MiB")
        parts.append(f"recall {percent(account.recall)} % of neighbors, measured on {amount(account.sampled, 'sentence')}")
    if account.falls_short and account.recall_wanted is not None:
        parts.append(f"below the wanted {percent(account.recall_wanted)} %: allow more --memory, or use --search exact")
    output.print("; ".join(parts) + "\n")
