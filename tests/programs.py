"""Programs that some tests need and pip cannot install: Chromium, node.

Where they are missing, those tests are skipped with the command that installs them, and pytest lists both at its end. `.ci/run`
installs them and sets ISOGLOSS_NO_SKIPS=1, which turns such a skip into a failure.
"""

import os
import shutil
from typing import NoReturn

import pytest

NO_SKIPS = "ISOGLOSS_NO_SKIPS"


def needed_program(*names: str, package: str) -> str:
    """Path of the first of `names` that is installed; without one the test is skipped, in CI it fails."""
    for name in names:
        path = shutil.which(name)
        if path is not None:
            return path
    unavailable(f"needs {names[0]}: apt install {package}")


def unavailable(reason: str) -> NoReturn:
    """Skip this test because something outside of pip's reach is missing; in CI, fail."""
    if os.environ.get(NO_SKIPS, "") not in ("", "0"):
        pytest.fail(f"{reason} ({NO_SKIPS} is set: nothing may be left out)", pytrace=False)
    pytest.skip(reason)
