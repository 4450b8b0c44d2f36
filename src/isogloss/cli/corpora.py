"""`isogloss corpora`: list, download and inspect parallel corpora."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Exit, Option

from isogloss.cli.options import JsonFlag
from isogloss.cli.screens.corpora_show import show

if TYPE_CHECKING:
    from isogloss.corpora.catalogue.entries import Entry, Languages
    from isogloss.corpora.catalogue.opus import OpusFile
    from isogloss.errors import DataError

app = typer.Typer(
    name="corpora",
    help="List and download parallel corpora; inspect prepared stores.\n\nisogloss corpora list --lang en-de",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

WIDTH = 80
PAPERS = {"R&G": "Reimers & Gurevych 2020", "H&K": "Ham & Kim 2021"}
OTHERS_SHOWN = 12


def list_(
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="Show details of these corpora.")] = None,
    lang: Annotated[str, Option("--lang", metavar="en-de", help="Only corpora that may have this language pair.")] = "",
    online: Annotated[bool, Option("--online", help="Query OPUS for current sizes and versions (needs --lang).")] = False,
    json: JsonFlag = False,
) -> None:
    """List the corpora that isogloss can download.

    isogloss corpora list --lang en-de
    """
    from dataclasses import asdict

    from isogloss.cli.screens.progress import output, show_json
    from isogloss.corpora.catalogue.entries import as_languages, entries, find

    languages = as_languages(lang) if lang else None
    chosen = [find(name) for name in names] if names else list(entries().values())
    if languages is not None:
        chosen = [entry for entry in chosen if entry.may_have(languages)]
    found = _ask_opus(languages, chosen) if online else {}
    if json:
        show_json([asdict(entry) | {"online": _online(_file_of(found, entry))} for entry in chosen])
        return
    if online and languages is not None:
        text = _table_of_today(chosen, languages, found)
    elif names:
        text = "\n\n".join(_everything(entry) for entry in chosen)
    else:
        text = _table(chosen, languages)
    output.print(text)


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


VERBS: dict[str, Callable[..., None]] = {"list": list_, "get": get, "show": show}


def _table(chosen: "list[Entry]", languages: "Languages | None") -> str:
    """The list as it is known without asking a server."""
    sections = {
        "Sentences": [entry for entry in chosen if entry.by not in ("hub", "hand") and not entry.dictionary],
        "Dictionaries": [entry for entry in chosen if entry.by not in ("hub", "hand") and entry.dictionary],
        "Ready-made on the Hugging Face hub": [entry for entry in chosen if entry.by == "hub"],
        "Not downloadable: see isogloss corpora list NAME": [entry for entry in chosen if entry.by == "hand"],
    }
    lines = [f"{'':<34} {'pairs':>9}  {'langs':>5}  {'license':<18} paper"]
    for title, entries in sections.items():
        lines += ["", title] if entries else []
        for entry in entries:
            count = entry.how_many_languages or "?"
            row = f"{entry.name:<34} {entry.pairs or '?':>9}  {count:>5}  {entry.license:<18} {' '.join(entry.papers)}"
            lines.append(row.rstrip())
    return "\n".join(lines) + (
        "\n\npairs: all languages together, as far as known\n"
        + ", ".join(f"{key}: {name}" for key, name in PAPERS.items())
        + "\n\n    isogloss corpora list TED2020               description, terms, page"
        + f"\n    isogloss corpora get TED2020 --lang {'-'.join(languages or ('en', 'de'))}   download it"
    )


def _table_of_today(chosen: "list[Entry]", languages: "Languages", found: "dict[str, OpusFile]") -> str:
    """What OPUS has for the language pair."""
    lines = [f"{'on OPUS in ' + '-'.join(languages):<24} {'pairs':>13}  {'version':<12} {'license':<18} paper", ""]
    for entry in chosen:
        if file := _file_of(found, entry):
            row = f"{entry.name:<24} {file.pairs:>13,}  {file.version:<12} {entry.license:<18} {' '.join(entry.papers)}"
            lines.append(row.rstrip())
    known = {entry.corpus or entry.name for entry in chosen}
    others = sorted((file for file in found.values() if file.corpus not in known), key=lambda file: -file.pairs)
    if others:
        largest = ", ".join(f"opus:{file.corpus} ({file.pairs:,})" for file in others[:OTHERS_SHOWN])
        lines += ["", *_wrapped(f"OPUS has {len(others)} more, the largest: {largest}")]
    if elsewhere := ", ".join(entry.name for entry in chosen if entry.by in ("files", "wikipedia")):
        lines += ["", *_wrapped(f"Not on OPUS, but may have that pair: {elsewhere}")]
    return "\n".join(lines)


def _wrapped(text: str, first: str = "", indent: str = "") -> list[str]:
    """Lines that fit the screen; a name, an address or a command stays whole."""
    import textwrap

    wrapper = textwrap.TextWrapper(WIDTH, first, indent, break_long_words=False, break_on_hyphens=False)
    return wrapper.wrap(text)


def _everything(entry: "Entry") -> str:
    facts = {
        "license": entry.license + (f". {entry.terms}" if entry.terms else ""),
        "pairs": entry.pairs,
        "languages": f"{entry.how_many_languages or 'not counted'}{': ' * bool(entry.languages)}{' '.join(entry.languages)}",
        "page": entry.page,
        "used by": ", ".join(PAPERS[paper] for paper in entry.papers),
        "note": entry.note,
        "unavailable": entry.why,
        "instead": entry.how.format(source="en", target="XX"),
        "download": "" if entry.by == "hand" else f"isogloss corpora get {entry.name} --lang {_example(entry)}",
    }
    lines = [entry.name, *_wrapped(entry.what, "  ", "  ")]
    return "\n".join(lines + [line for key, fact in facts.items() for line in _wrapped(fact, f"  {key:<12} ", " " * 15)])


def _example(entry: "Entry") -> str:
    other = next((code for code in ("de", *entry.languages) if code != "en" and entry.may_have(("en", code))), "de")
    return f"en-{other}"


def _ask_opus(languages: "Languages | None", chosen: "list[Entry]") -> "dict[str, OpusFile]":
    """What OPUS has for the pair, by corpus: the newest version, or the fixed one of the entry."""
    from isogloss.corpora.catalogue import opus
    from isogloss.corpora.catalogue.retries import Patience
    from isogloss.errors import DataError

    if languages is None:
        raise DataError("--online needs a language pair", hint="for example: isogloss corpora list --online --lang en-de")
    source, target = languages
    files = opus.search(source=source, target=target, patience=Patience())
    found = {file.corpus: file for file in sorted(files, key=lambda file: file.pairs)}
    for entry in chosen:
        newest = _file_of(found, entry)
        if newest is not None and entry.version not in ("", newest.version):
            fixed = opus.search(source=source, target=target, corpus=newest.corpus, version=entry.version, patience=Patience())
            found |= {file.corpus: file for file in fixed}
    return found


def _file_of(found: "dict[str, OpusFile]", entry: "Entry") -> "OpusFile | None":
    return found.get(entry.corpus or entry.name) if entry.by == "opus" else None


def _online(file: "OpusFile | None") -> dict[str, Any] | None:
    return None if file is None else {"version": file.version, "pairs": file.pairs, "url": file.url}


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
