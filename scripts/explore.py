"""Run the property tests with new random examples: `make explore`, or `python scripts/explore.py SEEDS [pytest options]`.

Each seed is a pytest of its own with the profile `explore` of tests/conftest.py. What fails is shown, and the rest goes on.
Pin a find with @example in its test, then fix what is behind it.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def explore(seed: int, options: list[str]) -> bool:
    """Whether all property tests hold with the examples of this seed."""
    print(f"==> property tests with --hypothesis-seed={seed}", flush=True)  # noqa: T201
    command = [sys.executable, "-m", "pytest", "-m", "hypothesis", f"--hypothesis-seed={seed}", *options]
    return not subprocess.run(command, cwd=ROOT, env=os.environ | {"ISOGLOSS_HYPOTHESIS": "explore"}, check=False).returncode


if __name__ == "__main__":
    seeds = [random.randrange(2**32) for _ in range(int(sys.argv[1]))]
    failed = [seed for seed in seeds if not explore(seed, sys.argv[2:])]
    sys.exit(f"failed with seeds {failed}" if failed else 0)
