"""The part of a store's page that tells how it came to be: the waterfall with examples, where rules bite, leaks, thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from isogloss.amounts import amount
from isogloss.config import CleaningSettings
from isogloss.corpora.preparation.auto_thresholds import UNCHANGED
from isogloss.corpora.preparation.drop_counts import Line, grouped
from isogloss.corpora.preparation.pair_selection import IN_TEST_SPLIT
from isogloss.corpora.store import unread
from isogloss.report import svg
from isogloss.report.markup import Markup, join, tag
from isogloss.report.page import NUMBER, PROSE, Column, Section, folded, foreign, heat_maps, named, number, percent, table

MARGIN, LEAST = 0.12, 0.02  # an axis goes so far below what was kept (of what went), and shows at least that share of all
BITES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
FEW = 12  # thresholds that are shown at once; more are folded


def cleaning_sections(manifest: Mapping[str, Any]) -> list[Section]:
    """All that the manifest knows of the cleaning."""
    sections = [_waterfall(manifest), _where(manifest), _leaks(manifest), _thresholds(manifest)]
    return [section for section in sections if section is not None]


# ── waterfall ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _waterfall(manifest: Mapping[str, Any]) -> Section:
    """Rows in, what each rule took, rows out, with examples. Rules that took nothing are named together."""
    rows_in, rows_out = manifest["rows_in"], manifest["rows_out"]
    shown = max((1 + MARGIN) * (rows_in - rows_out), LEAST * rows_in)
    lowest = rows_in - shown if rows_in > 2 * shown else 0.0
    left, steps = rows_in, [_step("pairs read", 0, rows_in, lowest, rows_in, "total")]
    for drop in manifest["dropped"]:
        if drop["count"]:
            steps.append(_step(drop["rule"], left - drop["count"], left, lowest, rows_in, "dropped"))
            steps.append(_examples(drop["examples"], manifest["source_language"]))
            left -= drop["count"]
    steps.append(_step("pairs kept", 0, rows_out, lowest, rows_in, "total"))
    body = [tag("div", *steps, class_="steps")]
    idle = [drop["rule"] for drop in manifest["dropped"] if not drop["count"]]
    if idle:
        body.append(tag("p", f"Took nothing out: {', '.join(idle)}.", class_="note"))
    if left_out := unread(manifest):
        body.append(tag("p", f"Not counted above: {left_out}.", class_="note"))
    note = "Each rule sees what the rules before it left; every dropped pair is in the store's folder dropped, with its reason."
    if lowest:
        note += f" The axis begins at {number(int(lowest))}, so that small steps are seen."
    return Section("waterfall", "What was left out", note, join(body))


def _step(name: str, start: int, stop: int, lowest: float, highest: int, kind: str) -> Markup:
    count = stop - start
    counted = ("−" if kind == "dropped" else "") + number(count)
    share = percent(count / max(highest, 1))
    picture = svg.step(start, stop, lowest, highest, "kept" if kind == "total" else kind, f"{name}: {counted} ({share})")
    cells = [tag("span", name), tag("span", picture)]
    cells += [tag("span", text, class_="number") for text in (counted, share)]
    return tag("div", *cells, class_=f"step {kind}")


def _examples(examples: Sequence[Mapping[str, Any]], source_language: str) -> Markup:
    if not examples:
        return Markup("")
    shown = []
    for one in examples:
        score = "" if one["score"] is None else f", score {one['score']:.2f}"
        where = tag("span", f"{named(one['corpus'])}, {one['language']}, line {one['line']}{score}", class_="where")
        shown.append(tag("li", foreign(one["source"], source_language), foreign(one["target"], one["language"]), where))
    return folded(amount(len(shown), "example"), tag("ul", *shown, class_="pairs"))


def _where(manifest: Mapping[str, Any]) -> Section | None:
    """Rules by corpora: which share of a corpus each rule took."""
    rules = [drop["rule"] for drop in manifest["dropped"] if drop["count"]]
    lines = grouped((Line(**line) for line in manifest["waterfall"]), "corpus")
    if not rules or len(lines) < 2:
        return None
    scale, spots, shares = svg.Scale.shares(BITES), [], []
    for column, line in enumerate(lines):
        for rule, count in line.dropped.items():
            shares.append(count / line.rows_in)
            hover = f"{rule}, {named(line.corpus)}: {amount(count, 'pair')}, {percent(shares[-1])} of what was read"
            spots.append(svg.Spot(rules.index(rule), column, scale.level(shares[-1]), hover, _short(shares[-1])))
    picture = heat_maps(
        rules, [named(line.corpus) for line in lines], spots, "share of each corpus that each rule took out", 20
    )
    note = "The share of each corpus, in percent of what was read, that each rule took out."
    return Section("rules", "Where rules bite", note, join([scale.legend(min(shares)), picture]))


def _short(share: float) -> str:
    """A percentage that fits a cell; small ones are colour alone."""
    hundred = 100 * share
    return f"{hundred:.0f}" if hundred >= 9.95 else (f"{hundred:.1f}" if hundred >= 0.05 else "")


# ── leaks and thresholds ────────────────────────────────────────────────────────────────────────────────────────────────


def _leaks(manifest: Mapping[str, Any]) -> Section:
    """Which evaluation text was looked for, and how much of it was found."""
    scan = manifest["leak_scan"]
    guarded = next((drop["count"] for drop in manifest["dropped"] if drop["rule"] == IN_TEST_SPLIT), 0)
    found = [(rule, count) for rule, count in scan["removed"].items()] + [(IN_TEST_SPLIT, guarded)]
    removed = table(
        [Column("removed from training"), Column("pairs", NUMBER)], [[rule, number(count)] for rule, count in found]
    )
    now, before = ([one for one in scan["sets"] if one.get("before", False) == earlier] for earlier in (False, True))
    note = "No evaluation set was named, so only the store's own held-out rows were guarded."
    if now:
        texts = amount(sum(one["texts"] for one in now), "text")
        note = (
            f"Training text was compared with {texts} of {amount(len(now), 'evaluation set')} (level: {scan['level']}) and "
            "with the store's own held-out rows; what matched was removed."
        )
    if before:
        note += f" The stores it was made from had all been scanned for {amount(len(before), 'evaluation set')} before."
    if not scan["sets"]:
        return Section("leaks", "Leak scan", note, removed)
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in scan["sets"]:
        groups.setdefault(one["name"].rpartition("/")[0] or one["name"], []).append(one)
    by_folder = [[name, number(len(own)), number(sum(one["texts"] for one in own))] for name, own in sorted(groups.items())]
    every = [
        [one["name"], number(one["texts"]), one.get("level", scan["level"]), tag("code", one["hash"])] for one in scan["sets"]
    ]
    body = [removed, table([Column("evaluation sets"), Column("files", NUMBER), Column("texts", NUMBER)], by_folder)]
    body.append(folded("every file", table([Column("file"), Column("texts", NUMBER), Column("level"), Column("hash")], every)))
    return Section("leaks", "Leak scan", note, join(body))


def _thresholds(manifest: Mapping[str, Any]) -> Section:
    """What the rules were set to, and the reasons where the data set them."""
    settings = manifest["settings"]["cleaning"]
    meaning = {own.name: str(own.metadata.get("help", "")) for own in fields(CleaningSettings)}
    rows = [[tag("code", key), _setting(value), meaning.get(key, "")] for key, value in settings.items()]
    given = table([Column("setting"), Column("value"), Column("meaning", PROSE)], rows)
    chosen = manifest["thresholds"]
    if not chosen:
        note = (
            "Thresholds are the recipe's. isogloss prepare --auto, or cleaning.auto in a recipe, sets them from the data, "
            "each with its reason."
        )
        return Section("thresholds", "Thresholds", note, folded("all settings", given))
    moved = [one for one in chosen if not one["reason"].startswith(UNCHANGED)]
    stayed = [one for one in chosen if one["reason"].startswith(UNCHANGED)]
    body = [_reasons(moved)] if 0 < len(moved) <= FEW else []
    if len(moved) > FEW:
        body.append(folded(f"{number(len(moved))} set from the data", _reasons(moved)))
    if stayed:
        body.append(folded(f"{number(len(stayed))} as in the recipe", _reasons(stayed)))
    note = f"Set from the data: {amount(len(moved), 'threshold')}, each for one rule in one language."
    return Section("thresholds", "Thresholds", note, join([*body, folded("all settings", given)]))


def _reasons(chosen: Sequence[Mapping[str, Any]]) -> Markup:
    columns = [Column("rule"), Column("language"), Column("threshold", NUMBER), Column("reason", PROSE)]
    return table(columns, [[one["rule"], one["language"], f"{one['value']:g}", one["reason"]] for one in chosen])


def _setting(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) or "none"
