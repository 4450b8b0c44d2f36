"""`isogloss prepare`: pairs as found to pairs fit for training."""

from pathlib import Path
from typing import Annotated

from typer import Option

from isogloss.cli.options import JsonFlag, LanguageOption, LanguagesOption, OnErrorOption, PairFiles


def prepare(
    files: PairFiles,
    out: Annotated[Path, Option("--out", help="The Parquet file to write.")] = Path("pairs.parquet"),
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    source_language: Annotated[str, Option(help="The language the teacher knows.")] = "en",
    held_out: Annotated[float, Option(min=0.0, max=0.5, help="Share of source sentences held out for testing.")] = 0.1,
    on_error: OnErrorOption = "fail",
    json: JsonFlag = False,
) -> None:
    """Clean pairs, hold some out, and write them with an account of what was left out and why.

    isogloss prepare en-de.tsv.gz en-fr.tsv.gz --out pairs.parquet
    """
    from rich.markup import escape

    import isogloss
    from isogloss.cli.options import as_languages
    from isogloss.cli.screen import output, show_json
    from isogloss.storage import refuse_folder, refuse_overwriting

    refuse_folder(out)
    refuse_overwriting(out, files)
    bitext = isogloss.read(files, as_languages(languages), language, source_language, on_error)
    manifest = isogloss.prepare(bitext, held_out=held_out, out=out).manifest()
    if json:
        show_json(manifest | {"path": str(out)})
        return
    output.print(f"{manifest['rows_in']:>9,}  pairs read", highlight=False)
    for drop in manifest["dropped"]:
        output.print(f"{-drop['count']:>9,}  {drop['rule']}", highlight=False)
        for example in drop["examples"]:
            output.print(f"{'':>11}[dim]{escape(example)}", highlight=False)
    output.print(f"{manifest['rows_out']:>9,}  pairs kept → {out}", highlight=False, markup=False)
    for code, counts in manifest["languages"].items():
        output.print(
            f"{'':>11}{code}: {counts['train']:,} to train on, {counts['test']:,} held out", highlight=False, markup=False
        )
