"""`isogloss index build`: documents to a vector index, in a file or a database."""

from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import IndexModelOption, IndexOption, JsonFlag, one_of, settings_as_options
from isogloss.config.indexing import BuildSettings


@settings_as_options(BuildSettings, skip=["existing"], prompt={"metavar": "TEXT"})
def build(
    documents: Annotated[list[str], Argument(metavar="DOCS", help="Documents: .txt .tsv .jsonl .csv .parquet, with ids.")],
    index: IndexOption,
    model: IndexModelOption,
    values: dict[str, Any],
    replace: Annotated[bool, Option("--replace", help="Overwrite an index that isogloss built.")] = False,
    append: Annotated[bool, Option("--append", help="Add to an index that isogloss built; equal ids are replaced.")] = False,
    json: JsonFlag = False,
) -> None:
    """Build an index of documents.

    isogloss index build docs.jsonl -m all-MiniLM-L6-v2 -i index/docs.npy

    isogloss index build d.tsv -m runs/mine -i "postgresql://me@host/db?table=docs"
    """
    from dataclasses import asdict

    from isogloss.cli.screens.progress import progress, say, show_json
    from isogloss.index.building.build import build_index, summary
    from isogloss.models.encoders.open import refuse_missing

    existing = one_of("refuse", {"--replace": replace, "--append": append})
    refuse_missing([model])
    with progress() as bars:
        built = build_index(model, documents, index, BuildSettings(**values | {"existing": existing}), bars)
    if json:
        show_json(asdict(built))
    else:
        say(summary(built))
