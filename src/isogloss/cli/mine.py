"""`isogloss mine`: parallel sentences from two monolingual files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import JsonFlag, settings_as_options
from isogloss.config.mining import MiningSettings

if TYPE_CHECKING:
    from isogloss.search.approximate import SearchAccount

ModelOption = Annotated[
    str, Option("--model", "-m", help="Hub name, folder, run, muse, laser, onnx:FOLDER, cmd:COMMAND, http://…")
]
OutOption = Annotated[
    Path, Option("--out", help="File to write: .tsv, .jsonl or .parquet; .tsv.gz and .jsonl.gz are compressed.")
]
MemoryOption = Annotated[str, Option(metavar="SIZE", help="Memory beyond the embeddings, such as 500M or 2G.  [default: 1G]")]
SEARCH_HELP = "exact, approximate (or one of its kinds: cells, hnsw, ivf-pq), or auto: exact if that takes two minutes at most."
SENTENCES_HELP = "Sentences, one per line (plain or compressed), a prepared store, or standard input (-)."


@settings_as_options(
    MiningSettings,
    skip=["memory", "cache", "folder"],
    strategy={"metavar": "STRATEGY", "help": "Candidates that become pairs: max, forward, backward, intersection, one-to-one."},
    threshold={"metavar": "auto|gold:FILE|NUMBER", "help": "Minimum score of a pair. gold: a file of source id<TAB>target id."},
    with_ids={"flag": "--ids"},
    search={"metavar": "KIND", "help": SEARCH_HELP},
)
def mine(
    source: Annotated[str, Argument(metavar="SRC", help=SENTENCES_HELP)],
    target: Annotated[str, Argument(metavar="TGT", help="The same in the other language.")],
    model: ModelOption,
    values: dict[str, Any],
    out: OutOption = Path("mined.tsv"),
    memory: MemoryOption = "",
    json: JsonFlag = False,
) -> None:
    """Find translations of SRC's sentences in TGT.

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
    """How neighbours were searched, and the recall if it is not exact."""
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import output, percent

    parts = [f"search: {account.kind} ({account.why})"]
    if account.recall is not None:
        parts.append(f"index of {account.index_bytes / 2**20:,.0f} MiB")
        parts.append(f"recall {percent(account.recall)} % of neighbours, measured on {amount(account.sampled, 'sentence')}")
    if account.falls_short and account.recall_wanted is not None:
        parts.append(f"below the wanted {percent(account.recall_wanted)} %: allow more --memory, or use --search exact")
    output.print("; ".join(parts) + "\n")
