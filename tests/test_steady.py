"""A test says the same each time it runs: its examples are drawn from no random seed, and no clock decides."""

import ast
import os
from pathlib import Path

import hypothesis
import pytest

HERE = Path(__file__).parent
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time", "time_ns"}


@pytest.mark.skipif(os.environ.get("ISOGLOSS_HYPOTHESIS") == "explore", reason="make explore draws at random")
def test_examples_are_the_same_each_time() -> None:
    profile = hypothesis.settings()
    assert profile.derandomize and profile.database is None and profile.deadline is None


def test_no_clock_decides() -> None:
    """Instead, count the work: calls, reads, bytes, modules that are imported."""
    for path in sorted(HERE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        assert not CLOCKS & {getattr(node, "attr", getattr(node, "id", "")) for node in nodes}, path
