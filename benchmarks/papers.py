"""The tables of the papers at the lab's scale: run in parts on a GPU, kept in results/papers, and written to docs/papers.md.

    python benchmarks/papers.py carry --data ../shared/data --out carry        # text and models, to travel
    python benchmarks/papers.py make --carry carry --rows labse,laser          # systems alone: several at once, on one GPU
    python benchmarks/papers.py run --carry carry --only rg-table-1,rg-table-2 --seconds 540 --results $OUT
    python benchmarks/papers.py run --data ../shared/data --rows muse          # what only this machine has
    python benchmarks/papers.py merge FOLDER                                   # results that came back from another machine
    python benchmarks/papers.py page                                           # docs/papers.md from results/papers

A run goes through the tables row by row and writes each table's file after every row, so that nothing is lost when the time
is up; `--seconds` is when no new row is begun. A row that is in a file is replaced when it is measured again. Systems stay in
`--work`, so that tables share them.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

from papers_travel import carry, laid_out
from provenance import provenance

from isogloss.errors import IsoglossError
from isogloss_papers.published import table_names
from isogloss_papers.reproduce import Reproduction, reproduce, table_rows
from isogloss_papers.workshop import Workshop

ROOT = Path(__file__).parent.parent
RESULTS, IMAGES = ROOT / "benchmarks" / "results" / "papers", ROOT / "docs" / "images"
COMMENTS = ROOT / "benchmarks" / "papers_comments.json"
HEAD = """
Written by `benchmarks/papers.py` from [its results](../benchmarks/results/papers). Each table has the paper's numbers and
ours, from [`isogloss reproduce`](verbs/reproduce.md) at the lab scale: small models, minutes on one GPU. Ours are not the
papers' models, and each row says what it is; compare the ranking of systems, not the numbers. For the transfer to the GPU,
training files were cut to their first 5,000 lines, except those of tables 5 and 6 of Reimers & Gurevych; each row has the
number of pairs that were left after cleaning and after removing test-set sentences.
"""


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def make(options: argparse.Namespace) -> None:
    """Make systems, and what they are made from, without measuring them; `run` finds them again."""
    began = time.monotonic()
    workshop = Workshop(**shared_by_all(options), overrides=tuple(options.set))
    for name in options.rows:
        for language in workshop.languages_of(name):
            if time.monotonic() - began > options.seconds:
                print(f"{name} {language} and what follows is for another run")
                return
            try:
                made = workshop.make(workshop.resolve(name, language))
            except IsoglossError as error:
                print(f"{name} {language}: {error.message}", flush=True)
                continue
            print(f"{time.monotonic() - began:5.0f} s  {made.name}: {made.seconds} s, {made.pairs} pairs", flush=True)


def shared_by_all(options: argparse.Namespace) -> dict[str, Any]:
    """Where text and models are, and where systems go."""
    data, models = laid_out(options.carry, options.work) if options.carry else (options.data, None)
    return {"scale": "lab", "data": data, "out": options.work, "models": models, "device": options.device}


def run(options: argparse.Namespace) -> None:
    """Reproduce tables row by row, as long as there is time; with --ready, only from systems that others have made."""
    began = time.monotonic()
    shared = shared_by_all(options)
    workshop = Workshop(**shared, overrides=tuple(options.set))
    left = [
        (name, row) for name in options.only for row in table_rows(name, workshop) if not options.rows or row in options.rows
    ]
    while left:
        name, row = next((one for one in left if not options.ready or is_made(one[1], workshop)), (None, ""))
        if time.monotonic() - began > options.seconds:
            print(f"for another run: {', '.join(f'{table} {row}' for table, row in left)}")
            return
        if name is None:
            time.sleep(2)
            continue
        left.remove((name, row))
        try:
            found = reproduce(name, rows=[row], overrides=options.set, strict=False, **shared)
        except IsoglossError as error:
            print(f"{name} {row}: {error.message}", flush=True)
            continue
        keep(found, options.results)
        figures = [f"{figure.value:.1f}" for figure in found.rows[0].ours if figure]
        told = " ".join(figures) or found.rows[0].why
        print(f"{time.monotonic() - began:5.0f} s  {name} {row}: {told}", flush=True)


def is_made(row: str, workshop: Workshop) -> bool:
    """Whether all that a row needs is there, in each of its languages."""
    return all(workshop.is_made(workshop.resolve(row, language)) for language in workshop.languages_of(row))


def keep(found: Reproduction, folder: Path) -> None:
    """Put the rows of a part into the file of its table, in place of older ones; each says where it was measured."""
    place = folder / f"{found.table}.json"
    measured = provenance(17)
    where = {row.label: measured for row in found.rows if any(row.ours)}
    if place.is_file():
        old = json.loads(place.read_text(encoding="utf-8"))
        found = found.with_rows_of(Reproduction.from_dict(old["table"]))
        where = {**old["measured"], **where}
    folder.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"measured": where, "table": found.as_dict()}, indent=1, ensure_ascii=False) + "\n")


def merge(options: argparse.Namespace) -> None:
    """Take over the rows of results that were measured elsewhere."""
    for path in sorted(options.folder.rglob("*-table-*.json")):
        new = json.loads(path.read_text(encoding="utf-8"))
        table, measured = Reproduction.from_dict(new["table"]), new["measured"]
        place = options.results / path.name
        if place.is_file():
            old = json.loads(place.read_text(encoding="utf-8"))
            table, measured = table.with_rows_of(Reproduction.from_dict(old["table"])), {**old["measured"], **measured}
        options.results.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps({"measured": measured, "table": table.as_dict()}, indent=1, ensure_ascii=False) + "\n")
        print(f"{path} → {place}")


# ── the page ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def page(options: argparse.Namespace) -> None:
    """Write docs/papers.md, and its pictures, from the result files."""
    from isogloss_papers.pictures import picture
    from isogloss_papers.rendering import markdown
    from isogloss_papers.rendering import page as all_of_them

    comments = json.loads(COMMENTS.read_text(encoding="utf-8")) if COMMENTS.is_file() else {}
    texts, tables = [], []
    for name in table_names():
        place = options.results / f"{name}.json"
        if not place.is_file():
            continue
        kept = json.loads(place.read_text(encoding="utf-8"))
        table = Reproduction.from_dict(kept["table"]).with_missing_rows("it was not run yet")
        drawn = picture(table)
        if drawn:
            IMAGES.mkdir(parents=True, exist_ok=True)
            (IMAGES / f"{name}.svg").write_text(drawn, encoding="utf-8")
        texts += [markdown(table, [f"images/{name}.svg"] if drawn else [], comments.get(name, "")), told_rows(table)]
        texts += [machines(kept["measured"]), ""]
        tables.append(table)
    if not tables:
        raise SystemExit(f"no results in {options.results}: run some first")
    options.page.write_text(all_of_them(tables, texts, HEAD), encoding="utf-8")
    print(f"{options.page}: {len(tables)} tables")


def told_rows(table: Reproduction) -> str:
    """How much of a table there is."""
    return f"{sum(any(row.ours) for row in table.rows)} of {len(table.rows)} rows have numbers of ours."


def machines(measured: dict[str, Any]) -> str:
    """On what, and at which commit, the rows were measured."""
    found = dict.fromkeys(
        f"{one['hardware']['accelerator'] or one['hardware']['processor']}, commit {one['commit']}, {one['date']}"
        for one in measured.values()
    )
    return f"Measured on {'; '.join(found)}."


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    for verb in (carry, make, run, merge, page):
        one = verbs.add_parser(verb.__name__, help=verb.__doc__)
        one.set_defaults(verb=verb)
        one.add_argument("--results", type=Path, default=RESULTS)
        one.add_argument("--only", type=lambda text: text.split(","), default=table_names(), help="tables, with commas")
        if verb is carry:
            one.add_argument("--lines", type=int, default=8_000, help="of each training file")
            one.add_argument("--out", type=Path, default=Path("carry"))
        if verb in (carry, make, run):
            one.add_argument("--data", type=Path, default=Path("../shared/data"))
        if verb in (make, run):
            one.add_argument("--carry", type=Path)
            one.add_argument("--rows", type=lambda text: text.split(","), default=[], help="systems, with commas")
            one.add_argument("--seconds", type=float, default=1e9, help="after which no new row is begun")
            one.add_argument("--work", type=Path, default=Path("reproduced"))
            one.add_argument("--device", default="auto")
            one.add_argument("--ready", action="store_true", help="wait for systems that other processes make")
            one.add_argument("--set", action="append", default=[], help="VERB.key=value")
        if verb is merge:
            one.add_argument("folder", type=Path)
        if verb is page:
            one.add_argument("--page", type=Path, default=ROOT / "docs" / "papers.md")
    return parser.parse_args()


def main() -> None:
    options = _parsed()
    options.verb(options)


if __name__ == "__main__":
    main()
