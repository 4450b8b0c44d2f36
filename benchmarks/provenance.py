"""Where a number came from: commit, machine, versions, seed. Every result file starts with this.

On a machine that was only sent the files, git knows nothing, or an older commit: whoever starts a benchmark there says
which commit the files are of, in the environment variable ISOGLOSS_COMMIT, and the result says that it was told so.
"""

import os
import subprocess
from datetime import UTC, datetime
from typing import Any

from isogloss.runs.record import hardware, versions

COMMIT = "ISOGLOSS_COMMIT"


def provenance(seed: int) -> dict[str, Any]:
    """The facts that a result cannot be read without; `commit_from` is there where git was not asked for the commit."""
    return {
        **_commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "seed": seed,
        "hardware": hardware(),
        "versions": versions(),
    }


def _commit() -> dict[str, str]:
    if told := os.environ.get(COMMIT, "").strip():
        return {"commit": told, "commit_from": COMMIT}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(["git", "status", "--porcelain", "src"], capture_output=True, text=True, check=False)
    return {"commit": commit.stdout.strip() + ("+changes" if changed.stdout.strip() else "")}
