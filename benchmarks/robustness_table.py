"""The table of docs/robustness.md: how much was done to break isogloss on purpose, and what came of it."""

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
            "full disks, failing renames and opens, limits of memory and files",
            limit,
            f"{limit['faults']:,}",
            f"{len(limit['by_verb'])} verbs; {limit['aborted']} of them ended by the C library before Python could speak",
            f"{limit['wrong']} wrong",
        ),
        (
            "one flipped bit in a kept file",
            flip,
            f"{flip['faults']:,}",
            f"{refused:,} refused with a sentence, the others as undamaged",
            f"{flip['wrong']} wrong",
        ),
    ]
    lines = ["| what | how many | over | outcome | result file |", "|---|---|---|---|---|"]
    lines += [f"| {what} | {many} | {over} | {outcome} | {_from('faults', faults)} |" for what, _, many, over, outcome in rows]
    lines += [
        f"| malformed files, manifests, recipes, answers of servers | {fuzz['cases']:,} | {len(fuzz['targets'])} readers"
        f" | {fuzz['findings']} tracebacks or endless cases | {_from('fuzz', fuzz)} |",
        f"| mutations of the code that decides results | {counted:,} | and {mutants['equivalent']} that change nothing anyone"
        f" can see | {mutants['killed_percent']:.1f} % noticed by the tests | {_from('mutations', mutants)} |",
        f"| `make test` in a row, another hash seed each time | {steady['runs']} | {' or '.join(passed)} tests"
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
