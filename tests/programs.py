"""Programs that some tests need and the environment cannot have: Chromium, node, other runtimes of models.

Where they are missing, those tests are skipped with the command that installs them, and pytest lists both at its end. `.ci/run`
installs them and sets ISOGLOSS_NO_SKIPS=1, which turns such a skip into a failure.
"""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

NO_SKIPS = "ISOGLOSS_NO_SKIPS"
RUNTIMES = Path(__file__).parent.parent / ".runtimes"


def needed_program(*names: str, package: str) -> str:
    """Path of the first of `names` that is installed; without one the test is skipped, in CI it fails."""
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    unavailable(f"needs {names[0]}: apt install {package}")


def needed_runtime(name: str) -> Path:
    """Folder of a runtime that scripts/runtimes installs; without it the test is skipped, in CI it fails."""
    if not (RUNTIMES / f"{name}.installed").is_file():
        unavailable(f"needs {name}: make runtimes")
    return RUNTIMES / name


def unavailable(reason: str) -> NoReturn:
    """Skip this test because something outside of pip's reach is missing; in CI, fail."""
    if os.environ.get(NO_SKIPS, "") not in ("", "0"):
        pytest.fail(f"{reason} ({NO_SKIPS} is set: nothing may be left out)", pytrace=False)
    pytest.skip(reason)
