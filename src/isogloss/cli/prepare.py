"""`isogloss prepare`: turn raw pairs into a store for training."""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import PAIRS, JsonFlag, SetOption, recipe_options

KEYS = {"--source-language": "pairs.source_language", "--held-out": "pairs.held_out"}
KEYS |= {"--max-per-language": "pairs.max_per_language", "--max-per-corpus": "pairs.max_per_corpus"}
KEYS |= {"--format": "pairs.format", "--columns": "pairs.columns"}


@recipe_options(PAIRS | KEYS)
def prepare(
    files: Annotated[
        list[str] | None,
        Argument(metavar="PAIRS", help='Sentence pairs: files, folders, globs, stores, "phrasebook", or - for standard input.'),
    ] = None,
    out: Annotated[Path, Option("--out", metavar="FOLDER", help="Folder for the prepared store.")] = Path("pairs"),
    recipe: Annotated[
        Path | None, Option("--recipe", metavar="FILE", help="Take files and cleaning settings from this recipe.")
    ] = None,
    given: list[str] | None = None,
    against: Annotated[
        list[str] | None,
        Option("--against", metavar="FILE", help="Evaluation set to remove from the pairs; repeatable."),
    ] = None,
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
    if files:
        data["pairs"]["files"] = files
    if against:
        data.setdefault("leaks", {})["against"] = against
    if auto:
        data.setdefault("cleaning", {})["auto"] = True
    settings = recipes.parse(data, [*(given or []), *(set_ or [])], "prepare")
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
