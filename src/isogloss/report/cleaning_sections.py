"""The part of a store's page that tells how it came to be: the waterfall with examples, where rules bite, leaks, thresholds."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from isogloss.config import CleaningSettings
from isogloss.report import svg
from isogloss.report.markup import Markup, join, tag
from isogloss.report.page import (
    NARROW,
    NUMBER,
    PROSE,
    WIDE,
    Column,
    Section,
    folded,
    foreign,
    named,
    number,
    percent,
    scroll,
    table,
)

HELD_OUT = "in the test split"
MARGIN, LEAST = 0.12, 0.02  # an axis goes so far below what was kept (of what went), and shows at least that share of all
BITES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
FEW = 12  # thresholds that are shown at once; more are folded
AS_RECIPE = "the recipe's"  # how the reason of a threshold begins that stayed as it was


def cleaning_sections(manifest: Mapping[str, Any]) -> list[Section]:
    """All that the manifest knows of the cleaning."""
    sections = [_waterfall(manifest), _where(manifest), _leaks(manifest), _thresholds(manifest)]
    return [section for section in sections if section is not None]


def most_dropped(lines: Sequence[Mapping[str, Any]]) -> str:
    """The rule that took most out of some lines of the waterfall, with how many."""
    counts: dict[str, int] = {}
    for line in lines:
        for rule, count in line["dropped"].items():
            counts[rule] = counts.get(rule, 0) + count
    worst = max(counts, key=lambda rule: counts[rule], default="")
    return f"{worst} ({number(counts[worst])})" if worst else ""


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
    if manifest["skipped_lines"]:
        first = next((source["first_fault"] for source in manifest["sources"] if source["first_fault"]), "")
        text = f"{number(manifest['skipped_lines'])} lines could not be read and are not counted above; the first: {first}"
        body.append(tag("p", text, class_="note"))
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
    said = "an example" if len(shown) == 1 else f"{len(shown)} examples"
    return folded(said, tag("ul", *shown, class_="pairs"))


def _where(manifest: Mapping[str, Any]) -> Section | None:
    """Rules by corpora: which share of a corpus each rule took."""
    rules = [drop["rule"] for drop in manifest["dropped"] if drop["count"]]
    corpora = list(manifest["corpora"])
    if not rules or len(corpora) < 2:
        return None
    taken: dict[tuple[str, str], int] = {}
    for line in manifest["waterfall"]:
        for rule, count in line["dropped"].items():
            taken[rule, line["corpus"]] = taken.get((rule, line["corpus"]), 0) + count
    shares = {key: count / manifest["corpora"][key[1]]["rows_in"] for key, count in taken.items()}
    scale, lying, standing = svg.Scale.shares(BITES), [], []
    for (rule, corpus), share in shares.items():
        counted = f"{number(taken[rule, corpus])} pairs, {percent(share)} of what was read"
        row, column, hover = rules.index(rule), corpora.index(corpus), f"{rule}, {named(corpus)}: {counted}"
        lying.append(svg.Spot(row, column, scale.level(share), hover, _short(share)))
        standing.append(svg.Spot(column, row, scale.level(share), hover))
    names, what = [named(corpus) for corpus in corpora], "share of each corpus that each rule took out"
    body = [
        scale.legend(min(shares.values())),
        scroll(svg.heat_map(rules, names, lying, what, WIDE, 20), only_on="wide"),
        scroll(svg.heat_map(names, rules, standing, what, NARROW, 16), only_on="narrow"),
    ]
    note = "The share of each corpus, in percent of what was read, that each rule took out."
    return Section("rules", "Where rules bite", note, join(body))


def _short(share: float) -> str:
    """A percentage that fits a cell; small ones are colour alone."""
    hundred = 100 * share
    return f"{hundred:.0f}" if hundred >= 9.95 else (f"{hundred:.1f}" if hundred >= 0.05 else "")


# ── leaks and thresholds ────────────────────────────────────────────────────────────────────────────────────────────────


def _leaks(manifest: Mapping[str, Any]) -> Section:
    """Which evaluation text was looked for, and how much of it was found."""
    scan = manifest["leak_scan"]
    guarded = next((drop["count"] for drop in manifest["dropped"] if drop["rule"] == HELD_OUT), 0)
    found = [(rule, count) for rule, count in scan["removed"].items()] + [(HELD_OUT, guarded)]
    removed = table(
        [Column("removed from training"), Column("pairs", NUMBER)], [[rule, number(count)] for rule, count in found]
    )
    if not scan["sets"]:
        note = "No evaluation set was named, so only the store's own held-out rows were guarded."
        return Section("leaks", "Leak scan", note, removed)
    texts = sum(one["texts"] for one in scan["sets"])
    sets = f"{number(len(scan['sets']))} evaluation sets" if len(scan["sets"]) > 1 else "one evaluation set"
    note = (
        f"Training text was compared with {number(texts)} texts of {sets} (level: {scan['level']}) and with the store's own "
        "held-out rows; what matched was removed."
    )
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for one in scan["sets"]:
        groups.setdefault(one["name"].rpartition("/")[0] or one["name"], []).append(one)
    by_folder = [[name, number(len(own)), number(sum(one["texts"] for one in own))] for name, own in sorted(groups.items())]
    every = [[one["name"], number(one["texts"]), tag("code", one["hash"])] for one in scan["sets"]]
    body = [removed, table([Column("evaluation sets"), Column("files", NUMBER), Column("texts", NUMBER)], by_folder)]
    body.append(folded("every file", table([Column("file"), Column("texts", NUMBER), Column("hash")], every)))
    return Section("leaks", "Leak scan", note, join(body))


def _thresholds(manifest: Mapping[str, Any]) -> Section:
    """What the rules were set to, and the reasons where the data set them."""
    settings = manifest["settings"]["cleaning"]
    meaning = {own.name: str(own.metadata.get("help", "")) for own in fields(CleaningSettings)}
    rows = [[tag("code", key), _setting(value), meaning.get(key, "")] for key, value in settings.items()]
    given = table([Column("setting"), Column("value"), Column("meaning", PROSE)], rows)
    chosen = manifest["thresholds"]
    if not chosen:
        note = "Thresholds are the recipe's. With --auto they would be set from the data, each with its reason."
        return Section("thresholds", "Thresholds", note, folded("all settings", given))
    moved = [one for one in chosen if not one["reason"].startswith(AS_RECIPE)]
    stayed = [one for one in chosen if one["reason"].startswith(AS_RECIPE)]
    body = [_reasons(moved)] if 0 < len(moved) <= FEW else []
    if len(moved) > FEW:
        body.append(folded(f"{number(len(moved))} that were set from the data", _reasons(moved)))
    if stayed:
        body.append(folded(f"{number(len(stayed))} that stay as the recipe has them", _reasons(stayed)))
    note = f"{number(len(moved))} thresholds were set from the data, each for one rule in one language."
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
