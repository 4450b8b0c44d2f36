"""`isogloss mine`: parallel sentences from two monolingual files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from isogloss.search.recall import SearchAccount

ModelOption = Annotated[
    str, Option("--model", "-m", help="Hub name, folder, run, muse, laser, onnx:FOLDER, cmd:COMMAND, http://…")
]
OutOption = Annotated[
    Path, Option("--out", help="The file to write: .tsv, .jsonl or .parquet; .tsv.gz and .jsonl.gz are packed.")
]
MarginOption = Annotated[str, Option(help="How a pair is scored: ratio, distance or absolute (plain cosine).")]
KOption = Annotated[int, Option("--k", min=1, help="Nearest neighbours that the margin compares with.")]
PrecisionOption = Annotated[float, Option(help="Share of right pairs that --threshold auto aims at.")]
MemoryOption = Annotated[str, Option(metavar="SIZE", help="Memory beside the vectors, such as 500M or 2G.  [default: 1G]")]
DeviceOption = Annotated[str, Option(help="auto, cuda or cpu.")]
SentencesArgument = "Sentences, one per line (plain or packed), a prepared store, or standard input (-)."


def mine(
    source: Annotated[str, Argument(metavar="SRC", help=SentencesArgument)],
    target: Annotated[str, Argument(metavar="TGT", help="The same in the other language.")],
    model: ModelOption,
    out: OutOption = Path("mined.tsv"),
    margin: MarginOption = "ratio",
    k: KOption = 4,
    strategy: Annotated[
        str, Option(help="Which candidates become pairs: max, forward, backward, intersection or one-to-one.")
    ] = "max",
    threshold: Annotated[
        str,
        Option(metavar="auto|gold:FILE|NUMBER", help="Least score of a pair. gold: a file of source id<TAB>target id."),
    ] = "auto",
    precision: PrecisionOption = 0.9,
    source_language: Annotated[str, Option(help="Language of SRC: sentences in others are dropped; needed for stores.")] = "",
    target_language: Annotated[str, Option(help="Language of TGT.")] = "",
    ids: Annotated[bool, Option("--ids", help="Lines are id<TAB>sentence, as in BUCC.")] = False,
    documents: Annotated[bool, Option("--documents", help="Lines are paragraphs: split them into sentences.")] = False,
    min_language: Annotated[
        float, Option(min=0.0, max=1.0, help="How sure language identification must be; 0: no check.")
    ] = 0.5,
    keep_identical: Annotated[bool, Option("--keep-identical", help="Keep sentences that are the same on both sides.")] = False,
    search: Annotated[
        str, Option(help="exact, approximate (or one of its kinds: cells, hnsw, ivf-pq), or auto: exact if that takes minutes.")
    ] = "auto",
    recall: Annotated[float, Option(help="Share of neighbours that an approximate search has to find.")] = 0.97,
    memory: MemoryOption = "",
    device: DeviceOption = "auto",
    json: JsonFlag = False,
) -> None:
    """Find translations of SRC's sentences in TGT.

    isogloss mine news.en news.ko.gz --model runs/ko --out pairs.tsv
    """
    import isogloss
    from isogloss.cli.screens.mined import as_bytes, finish, refuse_bad_names, work_folder
    from isogloss.cli.screens.progress import progress
    from isogloss.mining.mine import MiningSettings

    refuse_bad_names(out, [source, target], model)
    settings = MiningSettings(
        k=k,
        margin=margin,
        strategy=strategy,
        threshold=threshold,
        precision=precision,
        source_language=source_language,
        target_language=target_language,
        with_ids=ids,
        documents=documents,
        min_language=min_language,
        keep_identical=keep_identical,
        search=search,
        recall=recall,
        memory=as_bytes(memory),
        device=device,
        folder=work_folder(out),
    )
    with progress() as bars:
        mined = isogloss.mine(model, source, target, settings, bars)
    if mined.search is not None and not json:
        _show_search(mined.search)
    finish(mined, out, json)


def _show_search(account: "SearchAccount") -> None:
    """How neighbours were looked for, and what that may have missed."""
    from isogloss.amounts import amount
    from isogloss.cli.screens.progress import output, percent

    told = [f"search: {account.kind} ({account.why})"]
    if account.recall is not None:
        told.append(f"index of {account.index_bytes / 2**20:,.0f} MiB")
        told.append(f"recall {percent(account.recall)} % of neighbours, measured on {amount(account.sampled, 'sentence')}")
    if account.falls_short and account.recall_wanted is not None:
        told.append(f"less than the {percent(account.recall_wanted)} % asked for: allow more --memory, or --search exact")
    output.print("; ".join(told) + "\n")
