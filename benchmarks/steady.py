"""`make test`, many times in a row.

`python benchmarks/steady.py --runs 20` runs it with another PYTHONHASHSEED each time.
One line per run: its seed, what passed and what was skipped, seconds. A series that was stopped goes on where it was, if
the commit is the same; a run that fails is kept in the result with the end of its output, and the series goes on. The
result file is written when the series is complete: a test compares it with the docs, so it must not change under the runs.
"""

import argparse
import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

from provenance import provenance

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "steady.json"
UNFINISHED = ROOT / ".steady-unfinished.json"
SEED = 17
SHOWN = 4000  # characters of the output of a run that failed


def run(seed: int, command: list[str]) -> dict[str, Any]:
    """One `make test`, with this hash seed."""
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=False
    )
    row = {"hash_seed": seed, "green": done.returncode == 0, **counts(done.stdout), "seconds": round(time.monotonic() - began)}
    return row if row["green"] else row | {"output": (done.stdout + done.stderr)[-SHOWN:]}


def counts(output: str) -> dict[str, int]:
    """What pytest's last line says."""
    last = next((line for line in reversed(output.splitlines()) if re.search(r"\d+ (passed|failed|error)", line)), "")
    return {kind: sum(map(int, re.findall(rf"(\d+) {kind}", last))) for kind in ("passed", "failed", "skipped", "error")}


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """The result so far."""
    result = {**provenance(SEED), "runs": len(rows), "green": sum(row["green"] for row in rows), "rows": rows}
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def done_before() -> list[dict[str, Any]]:
    """The runs of this commit that are there already."""
    if not UNFINISHED.exists():
        return []
    result = json.loads(UNFINISHED.read_text(encoding="utf-8"))
    rows: list[dict[str, Any]] = result["rows"]
    return rows if result["commit"] == provenance(SEED)["commit"] else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    rows = done_before()
    for number in range(len(rows), asked.runs):
        rows.append(run(1000 * number + SEED, ["make", "test"]))
        write(rows, UNFINISHED)
        print({name: value for name, value in rows[-1].items() if name != "output"}, flush=True)
    write(rows, RESULT)
    UNFINISHED.unlink()
    raise SystemExit(0 if all(row["green"] for row in rows) else 1)
