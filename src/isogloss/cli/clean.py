"""`isogloss clean`: remove what runs and the cache keep and can make again."""

from typing import Annotated

from typer import Argument, Option

from isogloss.cli.options import JsonFlag


def clean(
    runs: Annotated[
        list[str] | None, Argument(metavar="RUN", help="Folders of runs whose intermediate files to delete.")
    ] = None,
    cache: Annotated[bool, Option("--cache", help="Clean the cache: teacher embeddings, token tables, downloads.")] = False,
    older_than: Annotated[
        float | None, Option("--older-than", metavar="DAYS", min=0.0, help="Delete only what was not used for this many days.")
    ] = None,
    unfinished: Annotated[bool, Option("--unfinished", help="Also delete the progress of unfinished runs.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", help="Show what would be deleted; delete nothing.")] = False,
    json: JsonFlag = False,
) -> None:
    """Free disk space: delete intermediate files and caches.

    Models, results and pairs are never deleted.

    isogloss clean runs/mine --dry-run

    isogloss clean --cache --older-than 30
    """
    from isogloss.amounts import size
    from isogloss.cli.screens.progress import output, show_json
    from isogloss.errors import IsoglossError
    from isogloss.runs.clean import clean as remove_kept

    if not runs and not cache:
        raise IsoglossError("there is nothing to clean", hint="name folders of runs, or --cache")
    done = remove_kept(runs or [], cache, older_than, unfinished, dry_run)
    if json:
        show_json(done.as_dict())
        return
    rows: dict[tuple[str, str], int] = {}
    for item in done.items:
        key = item.kind, f"kept: {item.kept}" if item.kept else "would be removed" if dry_run else "removed"
        rows[key] = rows.get(key, 0) + item.bytes
    for (kind, fate), taken in rows.items():
        output.print(f"{kind:<20} {size(taken):>12}   {fate}")
    for folder, why in done.skipped.items():
        output.print(f"! {folder}: {why}; it is left alone")
    verb = "would be removed" if dry_run else "removed"
    output.print(f"{size(done.removed)} {verb}, of {size(done.found)}")
