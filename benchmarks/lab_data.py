"""Prepare all shared training data by one recipe, and write what came of it to docs/lab-data.md.

python benchmarks/lab_data.py            (from the project's folder; needs ../shared/data)
"""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from provenance import provenance

from isogloss import recipes
from isogloss.cli.screens.progress import progress
from isogloss.corpora.store import Store
from isogloss.corpora.summary import Summary, summarize
from isogloss.report.charts import Scale, Spot, heat_map
from isogloss.runs.gathering import gather_store
from isogloss.storage import write_json, write_text

ROOT = Path(__file__).parent.parent
PAGE, PICTURE = ROOT / "docs" / "lab-data.md", ROOT / "docs" / "images" / "lab-data.svg"
RESULT = Path(__file__).with_name("results") / "lab_data.json"
LOW_RESOURCE = ("ka", "sw", "tl", "tt")
COLOURS = ("eef6c4", "c2e3b3", "92cea9", "62b9a5", "30a0a4", "0085a2", "00689b", "23498d", "312878")


def picture(summary: Summary) -> str:
    """Sizes per language and corpus, as a file of its own."""
    sizes: dict[str, dict[str, int]] = {"language": {}, "corpus": {}}
    for cell in summary.cells:
        for name, counts in sizes.items():
            counts[getattr(cell, name)] = counts.get(getattr(cell, name), 0) + cell.pairs
    rows, columns = ([*sorted(sizes[name], key=lambda key: -sizes[name][key])] for name in ("corpus", "language"))
    scale = Scale.counts(max(cell.pairs for cell in summary.cells))
    spots = [
        Spot(
            rows.index(cell.corpus),
            columns.index(cell.language),
            scale.level(cell.pairs),
            f"{cell.corpus} {cell.language}: {cell.pairs:,}",
        )
        for cell in summary.cells
    ]
    drawn = str(heat_map(rows, columns, spots, "pairs of each corpus in each language", 1150))
    style = "text{font:11px sans-serif;fill:#333}.stripe{fill:#f2f4f7}"
    style += "".join(f".heat-{place}{{fill:#{colour}}}" for place, colour in enumerate(COLOURS, start=1))
    head, inner = drawn.split(">", 1)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"')
    return f'{head}><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{inner}\n'


def page(store: Store, seconds: float, origin: dict[str, Any]) -> str:
    """The summary in words and tables."""
    manifest = store.manifest
    lines = [
        "# The shared training data, prepared",
        "",
        "Written by `benchmarks/lab_data.py`, which runs `isogloss prepare --recipe recipes/lab-data.toml`. All that lies in"
        " the shared `train` folder is read, but for one file of English NLI labels that has no translations.",
        "",
        f"{manifest['rows_in']:,} pairs read from {len(manifest['sources'])} files, {manifest['rows_out']:,} kept, in"
        f" {seconds:.0f} s on {origin['hardware']['cores']} cores ({origin['hardware']['processor']});"
        f" {len(manifest['languages'])} languages, {len(manifest['corpora'])} corpora."
        f" Store hash `{store.hash}`, commit {origin['commit']}.",
        "",
        "![Sizes per corpus and language](images/lab-data.svg)",
        "",
        "## What was left out",
        "",
        "| rule | pairs |",
        "|---|---|",
        *(f"| {drop['rule']} | {drop['count']:,} |" for drop in manifest["dropped"]),
    ]
    sets = [one["texts"] for one in manifest["leak_scan"]["sets"] if one["texts"]]
    lines += [
        "",
        f"The leak scan compared with {sum(sets):,} texts of {len(sets)} evaluation files. Most of what it found is"
        " `stsb_mt_train`: STSb's training sentences were collected from the STS tasks of 2012 to 2016, which are evaluation"
        " sets too.",
        "",
        "## By corpus",
        "",
        *_table(manifest["waterfall"], "corpus", manifest["corpora"]),
        "",
        "## By language",
        "",
        f"The low-resource languages of the paper are **{'**, **'.join(LOW_RESOURCE)}**.",
        "",
        *_table(manifest["waterfall"], "language", {}),
    ]
    return "\n".join(lines) + "\n"


def _table(waterfall: list[dict[str, Any]], name: str, known: dict[str, Any]) -> list[str]:
    """Read, dropped, train and test by corpus or by language, with the two rules that took most."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for line in waterfall:
        groups.setdefault(line[name], []).append(line)
    head = f"| {name} | read | dropped | train | test | most dropped by |" + (" license |" if known else "")
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for key, own in sorted(groups.items()):
        rows, train, test = (sum(line[column] for line in own) for column in ("rows_in", "train", "test"))
        reasons: dict[str, int] = {}
        for line in own:
            for reason, count in line["dropped"].items():
                reasons[reason] = reasons.get(reason, 0) + count
        worst = sorted(reasons, key=lambda reason: -reasons[reason])[:2]
        most = ", ".join(f"{reason} {reasons[reason]:,}" for reason in worst)
        label = f"**{key}**" if key in LOW_RESOURCE else key
        license = f" {known[key]['license'] or 'not stated'} |" if known else ""
        lines.append(f"| {label} | {rows:,} | {rows - train - test:,} | {train:,} | {test:,} | {most} |{license}")
    return lines


def main() -> None:
    """Prepare, summarize, write."""
    recipe = recipes.load(ROOT / "recipes" / "lab-data.toml")
    origin = provenance(recipe.seed)
    with tempfile.TemporaryDirectory(prefix="isogloss-bench-") as folder, progress() as bars:
        began = time.perf_counter()
        store = gather_store(recipe, Path(folder) / "store", bars)
        seconds = time.perf_counter() - began
        write_text(PICTURE, picture(summarize(store)))
        write_text(PAGE, page(store, seconds, origin))
        kept = {key: store.manifest[key] for key in ("hash", "rows_in", "rows_out", "languages", "corpora", "waterfall")}
        kept["dropped"] = {drop["rule"]: drop["count"] for drop in store.manifest["dropped"]}
        write_json(RESULT, origin | {"seconds": round(seconds, 1)} | kept)
    print(json.dumps({"seconds": round(seconds, 1), "rows_in": kept["rows_in"], "rows_out": kept["rows_out"]}))


if __name__ == "__main__":
    main()
