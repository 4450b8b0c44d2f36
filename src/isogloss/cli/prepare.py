"""`isogloss prepare`: turn raw pairs into a store for training."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import JsonFlag, LanguageOption, LanguagesOption, OnErrorOption, SetOption


def prepare(
    files: Annotated[
        list[str] | None,
        Argument(metavar="PAIRS", help='Sentence pairs: files, folders, globs, stores, "phrasebook", or - for standard input.'),
    ] = None,
    out: Annotated[Path, Option("--out", metavar="FOLDER", help="Folder for the prepared store.")] = Path("pairs"),
    recipe: Annotated[
        Path | None, Option("--recipe", metavar="FILE", help="Take files and cleaning settings from this recipe.")
    ] = None,
    languages: LanguagesOption = "",
    language: LanguageOption = None,
    source_language: Annotated[str | None, Option(metavar="XX", help="Source language (the teacher's).  [default: en]")] = None,
    held_out: Annotated[
        float | None, Option(metavar="X", min=0.0, max=0.5, help="Share of pairs to hold out for testing.  [default: 0.1]")
    ] = None,
    format: Annotated[
        str | None, Option(metavar="NAME", help="File format, if file names do not tell: tsv, csv, tmx, …")
    ] = None,
    columns: Annotated[str | None, Option(metavar="NAME=N,…", help="Which columns to read, such as source=1,target=3.")] = None,
    against: Annotated[
        list[str] | None,
        Option("--against", metavar="FILE", help="Evaluation set to remove from the pairs; repeatable."),
    ] = None,
    on_error: OnErrorOption = None,
    auto: Annotated[bool, Option("--auto", help="Choose thresholds from the score distribution of the data.")] = False,
    explain: Annotated[int, Option("--explain", min=0, metavar="N", help="Show N random pairs that each rule dropped.")] = 0,
    workers: Annotated[int, Option(metavar="N", min=0, help="Worker processes; 0: one per CPU core.")] = 0,
    forget_scores: Annotated[
        bool, Option("--forget-scores", help="Delete the scores to save disk space; changing a threshold then scores again.")
    ] = False,
    set_: SetOption = None,
    json: JsonFlag = False,
) -> None:
    """Clean pairs, remove evaluation text, hold out a test split.

    Writes a store for training, with a manifest of what was dropped and why.

    isogloss prepare en-de.tsv.gz data/ 'news.*.tmx' --out pairs
    """
    from isogloss import recipes
    from isogloss.cli.options import as_languages
    from isogloss.cli.screens.progress import progress, show_json
    from isogloss.cli.screens.waterfall import show_waterfall
    from isogloss.config import Recipe, as_dict
    from isogloss.corpora.preparation.write_parts import examples
    from isogloss.corpora.prepare import remove_scores
    from isogloss.corpora.store import DROPPED
    from isogloss.errors import IsoglossError
    from isogloss.runs.gathering import gather_store

    if not files and not recipe:
        raise IsoglossError("nothing to prepare", hint='name files, folders, globs or "phrasebook", or a --recipe')
    data: dict[str, Any] = as_dict(recipes.load(recipe)) if recipe else {"pairs": as_dict(Recipe().pairs)}
    given = {"files": files, "language": language, "source_language": source_language, "held_out": held_out}
    given |= {"format": format, "columns": columns, "on_error": on_error}
    data["pairs"] |= {key: value for key, value in given.items() if value is not None}
    if languages:
        data["languages"] = list(as_languages(languages))
    if against:
        data.setdefault("leaks", {})["against"] = against
    if auto:
        data.setdefault("cleaning", {})["auto"] = True
    settings = recipes.parse(data, set_ or [], "prepare")
    with progress() as bars:
        store = gather_store(settings, out, bars, workers)
    if forget_scores:
        remove_scores(out)
    dropped = [store.folder / DROPPED / part["file"] for part in store.manifest["parts"]]
    explained = examples(dropped, explain, characters=10_000) if explain else {}
    if json:
        show_json(store.manifest | {"path": str(store.folder)} | ({"explained": explained} if explain else {}))
        return
    show_waterfall(store, explained)
