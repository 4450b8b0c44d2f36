"""Show a preparation: pairs read, pairs dropped by each rule with examples, pairs kept, by corpus and language."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from isogloss.cli.screens.progress import output, plain_table
from isogloss.corpora.preparation.auto_thresholds import UNCHANGED
from isogloss.corpora.preparation.manifest import Line, grouped, waterfall
from isogloss.corpora.store import Store, checked_in_words, unread

FULL_TABLE = 30  # lines; a longer table is shown as one by corpus and one by language
WIDE, SIDE, EXPLAINED_SIDE, NAME = 11, 46, 300, 24


def show_waterfall(store: Store, explained: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print what was read, dropped and kept."""
    manifest = store.manifest
    skipped = unread(manifest)
    _line(manifest["rows_in"], "pairs read" + (f" ({skipped})" if skipped else ""))
    for drop in manifest["dropped"]:
        _line(-drop["count"], drop["rule"])
        examples = explained.get(drop["rule"])
        for example in examples or drop["examples"]:
            _example(example, EXPLAINED_SIDE if examples else SIDE)
    _line(manifest["rows_out"], f"pairs kept → {store.folder}")
    _thresholds(manifest["thresholds"])
    output.print(f"\n{checked_in_words(manifest['leak_scan'])}\n")
    lines = waterfall(manifest)
    if len(lines) <= FULL_TABLE:
        output.print(_table(lines, ("corpus", "language")))
    else:
        for name in ("corpus", "language"):
            output.print(_table(grouped(lines, name), (name,)))
            output.print()
    any_dropped = manifest["rows_out"] < manifest["rows_in"]
    dropped = f"All dropped pairs with their reasons: {store.folder}/dropped. " if any_dropped else ""
    output.print(f"{dropped}More about the store: isogloss corpora show {store.folder}")


def _line(number: int, text: str) -> None:
    output.print(f"{number:>{WIDE},}  {text}")


def _example(example: Mapping[str, Any], shown: int) -> None:
    score = "" if example["score"] is None else f"{example['score']:.2f}  "
    sides = f"{_cut(example['source'], shown)} ↔ {_cut(example['target'], shown)}"
    place = f"{example['corpus']} {example['language']} line {example['line']}"
    output.print(f"{'':>{WIDE + 2}}{score}{sides}  ({place})", style="dim")


def _cut(text: str, shown: int) -> str:
    return text if len(text) < shown else text[: shown - 1] + "…"


def _thresholds(chosen: Sequence[Mapping[str, Any]]) -> None:
    if not chosen:
        return
    output.print("\nThresholds set from the data:")
    for one in chosen:
        if not one["reason"].startswith(UNCHANGED):
            output.print(f"  {one['rule']}, {one['language']}: {one['value']:g}  ({one['reason']})")
    kept = sum(one["reason"].startswith(UNCHANGED) for one in chosen)
    output.print(f"  {kept} more kept as they were set; the reasons are in manifest.json")


def _table(lines: Sequence[Line], names: Sequence[str]) -> Table:
    table = plain_table(*names, ">read", ">dropped", ">train", ">test", "most dropped by")
    for column in table.columns[: len(names)]:
        column.max_width = NAME
    for column in table.columns[len(names) : -1]:
        column.min_width = 5
    table.columns[-1].no_wrap, table.columns[-1].overflow = False, "fold"
    for line in lines:
        numbers = (f"{number:,}" for number in (line.rows_in, line.rows_in - line.pairs, line.train, line.test))
        table.add_row(*(getattr(line, name) for name in names), *numbers, line.worst)
    return table
