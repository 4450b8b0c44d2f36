"""How a preparation is shown: what came in, what each rule took out with examples, what stayed, by corpus and language."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from isogloss.cli.screen import output
from isogloss.corpora.dropped import Example
from isogloss.corpora.store import Store

FULL_TABLE = 30  # lines: beyond that corpora and languages are shown apart
WIDE, SIDE, EXPLAINED_SIDE, NAME = 11, 46, 300, 24


def show_waterfall(store: Store, explained: Mapping[str, Sequence[Example]]) -> None:
    """The account of a store, for a person."""
    manifest = store.manifest
    _line(manifest["rows_in"], "pairs read" + _skipped(manifest))
    for drop in manifest["dropped"]:
        _line(-drop["count"], drop["rule"])
        asked = [one.as_dict(EXPLAINED_SIDE) for one in explained.get(drop["rule"], [])]
        for example in asked or drop["examples"]:
            _example(example, EXPLAINED_SIDE if asked else SIDE)
    _line(manifest["rows_out"], f"pairs kept → {store.folder}")
    _thresholds(manifest["thresholds"])
    _scan(manifest["leak_scan"])
    output.print()
    lines = manifest["waterfall"]
    if len(lines) <= FULL_TABLE:
        output.print(_table(lines, ("corpus", "language")))
    else:
        for name in ("corpus", "language"):
            output.print(_table(_grouped(lines, name), (name,)))
            output.print()
    said = "Every dropped pair, with its reason" if manifest["rows_out"] < manifest["rows_in"] else "Dropped pairs would be"
    output.print(
        f"{said}: {store.folder}/dropped. Look at the store: isogloss corpora show {store.folder}",
        highlight=False,
        markup=False,
    )


def _line(number: int, text: str) -> None:
    output.print(f"{number:>{WIDE},}  {text}", highlight=False, markup=False)


def _skipped(manifest: Mapping[str, Any]) -> str:
    skipped = manifest["skipped_lines"]
    if not skipped:
        return ""
    first = next(source["first_fault"] for source in manifest["sources"] if source["first_fault"])
    return f" ({skipped:,} bad lines left out, the first: {first})"


def _example(example: Mapping[str, Any], shown: int) -> None:
    score = "" if example["score"] is None else f"{example['score']:.2f}  "
    sides = f"{_cut(example['source'], shown)} ↔ {_cut(example['target'], shown)}"
    place = f"{example['corpus']} {example['language']} line {example['line']}"
    output.print(f"{'':>{WIDE + 2}}{score}{sides}  ({place})", highlight=False, markup=False, style="dim")


def _cut(text: str, shown: int) -> str:
    return text if len(text) < shown else text[: shown - 1] + "…"


def _thresholds(chosen: Sequence[Mapping[str, Any]]) -> None:
    if not chosen:
        return
    output.print("\nThresholds set from the data:", highlight=False)
    for one in chosen:
        if not one["reason"].startswith("the recipe's"):
            output.print(
                f"  {one['rule']}, {one['language']}: {one['value']:g}  ({one['reason']})", highlight=False, markup=False
            )
    kept = sum(one["reason"].startswith("the recipe's") for one in chosen)
    output.print(f"  {kept} others stay as the recipe has them; the reasons are in manifest.json", highlight=False)


def _scan(scan: Mapping[str, Any]) -> None:
    found = [one for one in scan["sets"] if one["texts"]]
    texts = sum(one["texts"] for one in found)
    sets = f"{len(found)} evaluation sets" if len(found) != 1 else found[0]["name"]
    if found:
        text = f"Scanned for {texts:,} texts of {sets} (level: {scan['level']}), and for the held-out rows."
        if empty := len(scan["sets"]) - len(found):
            text += f" {empty} files had no sentences in them."
    else:
        text = "Scanned for the held-out rows only; name evaluation sets with --against."
    output.print("\n" + text, highlight=False, markup=False)


def _grouped(lines: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for line in lines:
        own = groups.setdefault(line[name], {name: line[name], "rows_in": 0, "dropped": {}, "train": 0, "test": 0})
        for key in ("rows_in", "train", "test"):
            own[key] += line[key]
        for reason, number in line["dropped"].items():
            own["dropped"][reason] = own["dropped"].get(reason, 0) + number
    return [groups[key] for key in sorted(groups)]


def _table(lines: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        table.add_column(name, no_wrap=True, max_width=NAME)
    for name in ("read", "dropped", "train", "test"):
        table.add_column(name, justify="right", no_wrap=True, min_width=5)
    table.add_column("most dropped by", overflow="fold")
    for line in lines:
        dropped = line["rows_in"] - line["train"] - line["test"]
        worst = max(line["dropped"], key=lambda reason: line["dropped"][reason]) if line["dropped"] else ""
        share = f"{worst} ({line['dropped'][worst]:,})" if worst else ""
        numbers = (f"{line['rows_in']:,}", f"{dropped:,}", f"{line['train']:,}", f"{line['test']:,}")
        table.add_row(*(_cut(line[name], NAME + 1) for name in names), *numbers, share)
    return table
