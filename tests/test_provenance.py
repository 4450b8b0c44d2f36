"""A result says which commit it is of: git's, or the one that whoever sent the files says."""

import runpy
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_commit_is_gits_unless_the_caller_knows_better(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("ISOGLOSS_COMMIT", raising=False)
    provenance = runpy.run_path(str(ROOT / "benchmarks" / "provenance.py"))["provenance"]
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    asked = provenance(5)
    assert asked["commit"].removesuffix("+changes") == head and "commit_from" not in asked and asked["seed"] == 5
    monkeypatch.setenv("ISOGLOSS_COMMIT", "abc1234")
    told = provenance(5)
    assert (told["commit"], told["commit_from"]) == ("abc1234", "ISOGLOSS_COMMIT")
    assert {**told, "commit": asked["commit"]} == {**asked, "commit_from": "ISOGLOSS_COMMIT"}
