"""The sections of a store's page about cleaning: the waterfall with examples, rules by corpus, leaks, thresholds."""

from collections.abc import Mapping, Sequence
from typing import Any

from isogloss.amounts import amount
from isogloss.config import CleaningSettings
from isogloss.corpora.preparation.auto_thresholds import UNCHANGED
from isogloss.corpora.preparation.manifest import Line, grouped
from isogloss.corpora.preparation.pair_selection import IN_TEST_SPLIT
from isogloss.corpora.store import unread
from isogloss.report import charts
from isogloss.report.page import NUMBER, PROSE, Column, Section, ShownPair, Table, code, named, number, percent
from isogloss.report.rendering import render

MARGIN, LEAST = 0.12, 0.02  # how far the axis goes below what was kept (of what went), and its least share of all
SHARES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
FEW = 12  # more thresholds are folded


def cleaning_sections(manifest: Mapping[str, Any]) -> list[Section]:
    """Everything the manifest says about cleaning."""
    sections = [_waterfall(manifest), _where(manifest), _leaks(manifest), _thresholds(manifest)]
    return [section for section in sections if section is not None]


def _waterfall(manifest: Mapping[str, Any]) -> Section:
    """Pairs in, what each rule dropped, pairs out, with examples. Rules that dropped nothing are named together."""
    rows_in, rows_out = manifest["rows_in"], manifest["rows_out"]
    shown = max((1 + MARGIN) * (rows_in - rows_out), LEAST * rows_in)
    lowest = rows_in - shown if rows_in > 2 * shown else 0.0

    def step(name: str, start: int, stop: int, kind: str, examples: Sequence[Mapping[str, Any]] = ()) -> dict[str, object]:
        count = ("−" if kind == "dropped" else "") + number(stop - start)
        share = percent((stop - start) / max(rows_in, 1))
        color = "kept" if kind == "total" else kind
        picture = charts.step(start, stop, lowest, rows_in, color, f"{name}: {count} ({share})")
        pairs = [_example(example, manifest["source_language"]) for example in examples]
        return {"name": name, "kind": kind, "picture": picture, "count": count, "share": share, "examples": pairs}

    left, steps = rows_in, [step("pairs read", 0, rows_in, "total")]
    for drop in manifest["dropped"]:
        if drop["count"]:
            steps.append(step(drop["rule"], left - drop["count"], left, "dropped", drop["examples"]))
            left -= drop["count"]
    steps.append(step("pairs kept", 0, rows_out, "total"))
    idle = [drop["rule"] for drop in manifest["dropped"] if not drop["count"]]
    notes = [f"Dropped nothing: {', '.join(idle)}."] if idle else []
    if left_out := unread(manifest):
        notes.append(f"Not counted above: {left_out}.")
    note = "Each rule sees what the rules before it left; the store's folder `dropped` has every dropped pair with its reason."
    if lowest:
        note += f" The axis begins at {number(int(lowest))}, so that small steps are visible."
    return Section("waterfall", "What was dropped", note, [render("waterfall.html", steps=steps, notes=notes)])


def _example(example: Mapping[str, Any], source_language: str) -> ShownPair:
    score = "" if example["score"] is None else f", score {example['score']:.2f}"
    where = f"{named(example['corpus'])}, {example['language']}, line {example['line']}{score}"
    return ShownPair(example["source"], example["target"], source_language, example["language"], where)


def _where(manifest: Mapping[str, Any]) -> Section | None:
    """Rules by corpora: the share of a corpus that each rule dropped."""
    rules = [drop["rule"] for drop in manifest["dropped"] if drop["count"]]
    lines = grouped((Line(**line) for line in manifest["waterfall"]), "corpus")
    if not rules or len(lines) < 2:
        return None
    scale, spots, shares = charts.Scale.shares(SHARES), [], []
    for column, line in enumerate(lines):
        for rule, count in line.dropped.items():
            shares.append(count / line.rows_in)
            hover = f"{rule}, {named(line.corpus)}: {amount(count, 'pair')}, {percent(shares[-1])} of its pairs"
            spots.append(charts.Spot(rules.index(rule), column, scale.level(shares[-1]), hover, _short(shares[-1])))
    name = "share of each corpus that each rule dropped"
    picture = charts.heat_maps(rules, [named(line.corpus) for line in lines], spots, name, 20)
    note = "The share of each corpus, in percent of its pairs, that each rule dropped."
    return Section("rules", "Rules by corpus", note, [scale.legend(min(shares)), picture])


def _short(share: float) -> str:
    """A percentage that fits into a cell; small ones are only colored."""
    hundred = 100 * share
    return f"{hundred:.0f}" if hundred >= 9.95 else (f"{hundred:.1f}" if hundred >= 0.05 else "")


def _leaks(manifest: Mapping[str, Any]) -> Section:
    """Which evaluation text was searched for, and how much of it was found."""
    scan = manifest["leak_scan"]
    guarded = next((drop["count"] for drop in manifest["dropped"] if drop["rule"] == IN_TEST_SPLIT), 0)
    found = [*scan["removed"].items(), (IN_TEST_SPLIT, guarded)]
    rows = [[rule, number(count)] for rule, count in found]
    parts = [Table([Column("removed from training"), Column("pairs", NUMBER)], rows)]
    now, before = ([one for one in scan["sets"] if one.get("before", False) == earlier] for earlier in (False, True))
    note = "No evaluation set was named, so only the store's own held-out rows were kept out of the training text."
    if now:
        texts = amount(sum(one["texts"] for one in now), "text")
        note = (
            f"The training text was compared with {texts} of {amount(len(now), 'evaluation set')} (level: {scan['level']}) and "
            "with the store's own held-out rows; matches were removed."
        )
    if before:
        note += f" The stores it was made from had all been scanned for {amount(len(before), 'evaluation set')} before."
    if scan["sets"]:
        groups: dict[str, list[Mapping[str, Any]]] = {}
        for one in scan["sets"]:
            groups.setdefault(one["name"].rpartition("/")[0] or one["name"], []).append(one)
        folders = [[name, number(len(own)), number(sum(one["texts"] for one in own))] for name, own in sorted(groups.items())]
        every = [
            [one["name"], number(one["texts"]), one.get("level", scan["level"]), code(one["hash"])] for one in scan["sets"]
        ]
        parts.append(Table([Column("evaluation sets"), Column("files", NUMBER), Column("texts", NUMBER)], folders))
        columns = [Column("file"), Column("texts", NUMBER), Column("level"), Column("hash")]
        parts.append(Table(columns, every, folded="every file"))
    return Section("leaks", "Leak scan", note, parts)


def _thresholds(manifest: Mapping[str, Any]) -> Section:
    """The settings of the rules, and the reasons for those that were set from the data."""
    settings = manifest["settings"]["cleaning"]
    meaning = {name: field.description or "" for name, field in CleaningSettings.model_fields.items()}
    rows = [[code(key), _setting(value), meaning.get(key, "")] for key, value in settings.items()]
    given = Table([Column("setting"), Column("value"), Column("meaning", PROSE)], rows, folded="all settings")
    chosen = manifest["thresholds"]
    if not chosen:
        note = (
            "Thresholds are those of the recipe. isogloss prepare --auto, or cleaning.auto in a recipe, sets them from the "
            "data, each with its reason."
        )
        return Section("thresholds", "Thresholds", note, [given])
    moved = [one for one in chosen if not one["reason"].startswith(UNCHANGED)]
    stayed = [one for one in chosen if one["reason"].startswith(UNCHANGED)]
    parts = [_reasons(moved, "" if len(moved) <= FEW else f"{number(len(moved))} set from the data")] if moved else []
    if stayed:
        parts.append(_reasons(stayed, f"{number(len(stayed))} as in the recipe"))
    note = f"Set from the data: {amount(len(moved), 'threshold')}, each for one rule in one language."
    return Section("thresholds", "Thresholds", note, [*parts, given])


def _reasons(chosen: Sequence[Mapping[str, Any]], folded: str) -> Table:
    columns = [Column("rule"), Column("language"), Column("threshold", NUMBER), Column("reason", PROSE)]
    return Table(columns, [[one["rule"], one["language"], f"{one['value']:g}", one["reason"]] for one in chosen], folded)


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"
