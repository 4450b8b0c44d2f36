"""Where a number came from: commit, machine, versions, seed. Every result file starts with this."""

import subprocess
from datetime import UTC, datetime
from typing import Any

from isogloss.runs.record import hardware, versions


def provenance(seed: int) -> dict[str, Any]:
    """The facts that a result cannot be read without."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "status", "--porcelain", "src"], capture_output=True, text=True, check=False)
    return {
        "commit": commit.stdout.strip() + ("+changes" if changed.stdout.strip() else ""),
        "date": datetime.now(UTC).date().isoformat(),
        "seed": seed,
        "hardware": hardware(),
        "versions": versions(),
    }
