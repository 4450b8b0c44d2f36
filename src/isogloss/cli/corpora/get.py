"""`isogloss corpora get`: download corpora, with their licenses."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option

from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from isogloss.corpora.catalogue.entries import Languages
    from isogloss.errors import DataError


def get(
    names: Annotated[
        list[str], Argument(metavar="NAME", help="Name from the list, opus:NAME, hub:OWNER/NAME, or NAME@VERSION.")
    ],
    lang: Annotated[list[str], Option("--lang", metavar="en-de", help="Language pair; repeatable.")],
    out: Annotated[Path | None, Option("--out", metavar="FOLDER", help="Folder for the files.  [default: the cache]")] = None,
    min_score: Annotated[
        float | None, Option("--min-score", metavar="X", help="Skip pairs below this score.  [default: for WikiMatrix 1.05]")
    ] = None,
    refresh: Annotated[bool, Option("--refresh", help="Check for newer versions of downloaded files.")] = False,
    json: JsonFlag = False,
) -> None:
    """Download corpora.

    Downloads are verified, resumable and cached. Prints the paths, one per line.

    isogloss corpora get TED2020 Tatoeba --lang en-de --lang en-fr
    """
    from isogloss.cli.screens.progress import output, progress, say, show_json
    from isogloss.corpora.catalogue.entries import as_languages, find
    from isogloss.corpora.catalogue.get import get as get_corpus
    from isogloss.errors import DataError

    requests = [(name, as_languages(pair)) for pair in lang for name in names]
    fetched: list[dict[str, Any]] = []
    failures: list[DataError] = []
    with progress() as bars:
        for name, languages in requests:
            try:
                entry = find(name.partition("@")[0])
                limit = min_score if entry.min_score is not None or len(names) == 1 else None
                files = get_corpus(name, languages, out, min_score=limit, refresh=refresh, on_progress=bars)
                fetched += [_described(file, entry.name, languages) for file in files]
            except DataError as error:
                failures.append(error)
    if json:
        show_json(fetched)
    for one in [] if json else fetched:
        output.print(one["path"])
    if fetched:
        say("\n".join(["", *_licenses(fetched)]))
    _report_failures(failures, len(requests))


def _described(file: Path, name: str, languages: "Languages") -> dict[str, Any]:
    from isogloss.corpora.reading.origin import origin_of

    origin, keys = origin_of(file), ("version", "license", "url", "sha256", "dictionary")
    known = {} if origin is None else {key: getattr(origin, key) for key in keys}
    return {"path": str(file), "corpus": name, "languages": list(languages), "bytes": file.stat().st_size, **known}


def _licenses(downloaded: list[dict[str, Any]]) -> list[str]:
    """One line per corpus and language pair: version, size, license."""
    from isogloss.amounts import size

    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in downloaded:
        rows.setdefault((one["corpus"], "-".join(one["languages"])), []).append(one)
    return [
        f"{name} {pair}: {files[0].get('version', '')[:12]}, {size(sum(one['bytes'] for one in files))}, "
        f"license: {files[0].get('license', 'unknown')}"
        for (name, pair), files in rows.items()
    ]


def _report_failures(failures: "list[DataError]", asked: int) -> None:
    """Raise a single failure; print several, since the other files were fetched."""
    from isogloss.cli.screens.progress import say

    if failures and asked == 1:
        raise failures[0]
    for failure in failures:
        say(f"\nisogloss: {failure.message}" + (f"\nhint: {failure.hint}" if failure.hint else ""))
    if failures:
        say(f"\n{asked - len(failures)} of {asked} fetched")
        raise Exit(2)
