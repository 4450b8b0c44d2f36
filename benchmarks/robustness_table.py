"""The table of docs/robustness.md: the faults injected on purpose, and how isogloss behaved."""

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")


def robustness_table() -> str:
    """One row for each kind of fault, from its result file."""
    faults, fuzz, mutants, steady, gpu = (
        _read(f"{name}.json") for name in ("faults", "fuzz", "mutations", "steady", "gpu_tests")
    )
    kill, limit, flip = faults["kill"], faults["limit"], faults["flip"]
    refused = flip["by_ended"].get("refused", 0)
    counted = mutants["mutants"] - mutants["equivalent"]
    passed = sorted({f"{row['passed']:,}" for row in steady["rows"]})
    rows = [
        ("kill -9 at random moments", kill, f"{kill['faults']:,}", f"{len(kill['by_verb'])} verbs", f"{kill['wrong']} wrong"),
        (
            "full disks, failing renames and opens, memory and file limits",
            limit,
            f"{limit['faults']:,}",
            f"{len(limit['by_verb'])} verbs; in {limit['aborted']} cases the C library aborted before Python could report",
            f"{limit['wrong']} wrong",
        ),
        (
            "one flipped bit in a stored file, or a file that was cut off"
            if "by_damage" in flip
            else "one flipped bit in a stored file",
            flip,
            f"{flip['faults']:,}",
            f"{refused:,} refused with an error, the rest finished as if undamaged",
            f"{flip['wrong']} wrong",
        ),
    ]
    if bad := faults.get("input"):
        over = f"{len(bad['by_verb'])} verbs: exports, indexes, the service"
        rows.append(("bad input: files, addresses, models, options", bad, f"{bad['faults']:,}", over, f"{bad['wrong']} wrong"))
    lines = ["| what | cases | over | outcome | result file |", "|---|---|---|---|---|"]
    lines += [f"| {what} | {many} | {over} | {outcome} | {_from('faults', faults)} |" for what, _, many, over, outcome in rows]
    lines += [
        f"| malformed files, manifests, recipes, server responses | {fuzz['cases']:,} | {len(fuzz['targets'])} readers"
        f" | {fuzz['findings']} tracebacks or hangs | {_from('fuzz', fuzz)} |",
        f"| mutations of the code that decides results | {counted:,} | plus {mutants['equivalent']} equivalent ones"
        f" | {mutants['killed_percent']:.1f} % caught by the tests | {_from('mutations', mutants)} |",
        f"| `make test` in a row, with a new hash seed each time | {steady['runs']} | {' or '.join(passed)} tests"
        f" | {steady['green']} green | {_from('steady', steady)} |",
        f"| tests that need a GPU | {len(gpu['tests'])} | one NVIDIA H200 | {gpu['outcomes'].get('passed', 0)} passed"
        f" | {_from('gpu_tests', gpu)} |",
    ]
    return "\n".join(lines)


def _from(name: str, result: dict[str, Any]) -> str:
    return f"[{result['commit']}](../benchmarks/results/{name}.json)"


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found
