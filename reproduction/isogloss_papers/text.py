"""What systems learn from, prepared once for all that learn from the same: a guarded store of pairs, guarded judged pairs.

Pairs are cleaned, split and scanned for evaluation text as `isogloss prepare` does it. Judged pairs (NLI, STS) lose the rows
that share a sentence with the sets that are guarded: STSb's dev set has sentences of STS 2017.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from isogloss.corpora.leaks.scan import CLEAN, LeakScanner
from isogloss.corpora.reading.labelled import LABELS, Labelled, read_nli, read_sts
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError
from isogloss.progress import OnProgress, silent
from isogloss.storage import atomic_write, folder_lock, write_text
from isogloss_papers.recipe import PREPARATION, Making

if TYPE_CHECKING:
    from isogloss.corpora.store import Store
    from isogloss.types import Pair

FIRST = "first"  # the folder of pairs that were cut
HELD_OUT = 0.01
EXCLUDED = "!"


def located(names: Iterable[str], root: Path) -> list[str]:
    """Names under the data folder; patterns of what to leave out stay as they are."""
    return [name if name.startswith(EXCLUDED) else str(root / name) for name in names]


def listing(names: Iterable[str], root: Path) -> list[tuple[str, int]]:
    """The files that names stand for, and their sizes: enough to see that text has changed, without reading it."""
    found: list[tuple[str, int]] = []
    for name in names:
        if name.startswith(EXCLUDED):
            continue
        place = root / name
        files = sorted(place.rglob("*")) if place.is_dir() else [place] if place.is_file() else sorted(root.glob(name))
        found += [(str(path.relative_to(root)), path.stat().st_size) for path in files if path.is_file()]
    return found


def refuse_missing(names: Iterable[str], root: Path) -> None:
    """Say which file is not there before anything is made."""
    for name in names:
        if not name.startswith(EXCLUDED) and not (root / name).exists() and not any(root.glob(name)):
            raise DataError(f"{name}: not in {root}", hint="name the folder that has it with --data")


def prepared_pairs(making: Making, language: str, root: Path, out: Path, on_progress: OnProgress = silent) -> "Store":
    """The pairs of a making (of one `language`, where it is made for each) as a store in `out`; found there, if finished."""
    from isogloss import recipes
    from isogloss.corpora.store import is_store, open_store
    from isogloss.runs.gathering import gather_store

    if is_store(out):
        return open_store(out)
    languages = [language] if language else list(making.languages)
    files = [*located(making.pairs, root), *_fetched(making.corpora, languages, on_progress)]
    if making.first:
        files = _first(files, languages, making.first, out.with_name(f"{out.name}-{FIRST}"))
    tables: dict[str, dict[str, Any]] = {name: dict(making.settings.get(name, {})) for name in PREPARATION}
    tables["pairs"] = {"held_out": HELD_OUT, **tables["pairs"], "files": files}
    tables["leaks"] = {"against": _there(making.guard, root), **tables["leaks"]}
    recipe = recipes.parse({"name": out.name, "languages": languages, **tables}, where=out.name)
    with folder_lock(out.parent, "another isogloss prepares pairs there", "wait for it, or name another --out"):
        return gather_store(recipe, out, on_progress)


def _there(names: Sequence[str], root: Path) -> list[str]:
    """What is guarded; where none of it is in the data folder (the hub has it), the shipped phrasebook's test alone."""
    found = [name for name in names if name.startswith(EXCLUDED) or (root / name).exists()]
    return located(found, root) if any(not name.startswith(EXCLUDED) for name in found) else ["phrasebook"]


def _fetched(corpora: Sequence[str], languages: Sequence[str], on_progress: OnProgress) -> list[str]:
    """Files of the catalogue for the languages that each corpus has."""
    from isogloss.corpora.catalogue.entries import find
    from isogloss.corpora.catalogue.get import get

    return [
        str(path)
        for name in corpora
        for language in languages
        if find(name).may_have(("en", language))
        for path in get(name, ("en", language), on_progress=on_progress)
    ]


def _first(files: Sequence[str], languages: Sequence[str], count: int, folder: Path) -> list[str]:
    """Files with the first pairs of each language, in the order that the files are named in."""
    from isogloss.corpora.reading.languages import canonical
    from isogloss.corpora.reading.readers import read
    from isogloss.corpora.reading.sources import find_sources

    wanted = {"", *map(canonical, languages)}
    paths = dict.fromkeys(str(source.path) for source in find_sources(files) if source.language in wanted)
    taken: dict[tuple[str, str], list[Pair]] = {}
    room = dict.fromkeys(map(canonical, languages), count)
    for pair in read(list(paths) or files, languages):
        if room.get(pair.language, 0):
            room[pair.language] -= 1
            taken.setdefault((pair.corpus or FIRST, pair.language), []).append(pair)
    for (corpus, language), pairs in taken.items():
        lines = [f"{_flat(pair.source)}\t{_flat(pair.target)}\n" for pair in pairs]
        write_text(folder / corpus / f"en-{language}.tsv", "".join(lines))
    return [str(folder)]


def _flat(text: str) -> str:
    return " ".join(text.split())


def guarded_judged(files: Sequence[str], kind: str, guard: Sequence[str], root: Path, out: Path) -> tuple[str, int]:
    """Judged pairs of files without those that share a sentence with guarded text, in the file `out`; and how many went."""
    from isogloss.corpora.leaks.evaluation_text import evaluation_sets

    judged = (read_nli if kind == "nli" else read_sts)(located(files, root))
    against = _there(guard, root)
    kept = _clean_rows(judged, LeakScanner(evaluation_sets(against), "normalized"))
    rows = [f"{_flat(judged.first[row])}\t{_flat(judged.second[row])}\t{_judgement(judged, row, kind)}\n" for row in kept]
    if not rows:
        raise DataError(f"{', '.join(files)}: every row has a sentence of {', '.join(guard)}", hint="name other files")
    with atomic_write(out) as temporary:
        temporary.write_text("".join(rows), encoding="utf-8")
    return str(out), len(judged) - len(rows)


def _judgement(judged: Labelled, row: int, kind: str) -> str:
    return LABELS[int(judged.gold[row])] if kind == "nli" else f"{float(judged.gold[row]):g}"


def _clean_rows(judged: Labelled, guard: LeakScanner) -> list[int]:
    sides = [guard.check(Side(pa.array(texts, pa.string()), "")) != CLEAN for texts in (judged.first, judged.second)]
    return [row for row in range(len(judged)) if not sides[0][row] and not sides[1][row]]
