"""What a model that learnt in several goes says of where it came from: its card, and `isogloss_training.json`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from isogloss.corpora.leaks.scan import ScannedSet, scanned_before
from isogloss.storage import content_hash


def learnt_in_all(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """What the model learnt from before and what it learns from now, as one account.

    It was scanned for an evaluation set only if all of it was; if nothing is known of what came before, nothing is said of
    any scan.
    """
    if before is None or "leak_scan" not in before:
        return {key: value for key, value in now.items() if key != "leak_scan"}
    scans = [account["leak_scan"] for account in (before, now)]
    removed = _added_up(*(scan["removed"] for scan in scans))
    sets = scanned_before([[_guarded(one, scan) for one in scan["sets"]] for scan in scans], [])
    return {
        "hash": content_hash(before["hash"], now["hash"]),
        "source_language": now["source_language"],
        "rows_in": before["rows_in"] + now["rows_in"],
        "rows_out": before["rows_out"] + now["rows_out"],
        "languages": {**before["languages"], **now["languages"]},
        "corpora": {**before["corpora"], **now["corpora"]},
        "leak_scan": {"level": now["leak_scan"]["level"], "sets": [asdict(one) for one in sets], "removed": removed},
        "dropped": _added_up(before["dropped"], now["dropped"]),
    }


def _guarded(one: Mapping[str, Any], scan: Mapping[str, Any]) -> ScannedSet:
    return ScannedSet(one["name"], one["texts"], one["hash"], one.get("level", scan["level"]))


def _added_up(*counts: Mapping[str, int]) -> dict[str, int]:
    return {name: sum(one.get(name, 0) for one in counts) for name in dict.fromkeys(name for one in counts for name in one)}


def added_table(added: Sequence[Mapping[str, Any]]) -> str:
    """A section for the card: which languages were added when, with how many pairs, and what changed."""
    lines = [
        "## Added languages",
        "",
        "| added | languages | pairs | old pairs replayed | changed |",
        "|---|---|---|---|---|",
    ]
    for one in added:
        changed = ", ".join(one["changed"]) or "nothing" if "changed" in one else "–"  # of an earlier version
        cells = one["when"], ", ".join(one["languages"]), f"{one['pairs']:,}", f"{one['replayed']:,}", changed
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
