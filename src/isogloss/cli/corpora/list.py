"""`isogloss corpora list`: the corpora that isogloss can download."""

from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isogloss.cli.options import JsonFlag

if TYPE_CHECKING:
    from isogloss.corpora.catalogue.entries import Entry, Languages
    from isogloss.corpora.catalogue.opus import OpusFile

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
