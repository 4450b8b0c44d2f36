"""Run the tests that need a CUDA device and keep what they say.

`make test-gpu`, or `python3 benchmarks/gpu_tests.py`.
No environment is set up: it works with the torch, transformers and pytest that are there. Where hypothesis is missing, a
stand-in lets the files be imported and skips their property tests, none of which is a GPU test.
"""

import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "benchmarks" / "results" / "gpu_tests.json"
SEED = 17
STAND_IN = '''
"""Stands in for hypothesis where it is not installed: property tests are skipped."""
import pytest

class Anything:
    def __getattr__(self, name): return Anything()
    def __call__(self, *_, **__): return Anything()
    def __iter__(self): return iter(())

def given(*_, **__): return pytest.mark.skip("hypothesis is not installed")

def unchanged(*_, **__): return lambda test: test

class settings:
    def __init__(self, *_, **__): pass
    def __call__(self, test): return test
    register_profile = load_profile = staticmethod(lambda *_, **__: None)

example = assume = note = reproduce_failure = unchanged
HealthCheck = Anything()
'''
STRATEGIES = """
from hypothesis import Anything
def composite(function): return lambda *_, **__: Anything()
def __getattr__(name): return Anything()
"""


class Record:
    """A pytest plugin that notes the outcome of every test."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:  # noqa: ANN401 - pytest's
        """A phase of a test is over."""
        row = self.rows.setdefault(report.nodeid, {"outcome": "passed", "seconds": 0.0})
        row["seconds"] = round(row["seconds"] + report.duration, 2)
        if report.outcome != "passed":
            row["outcome"] = report.outcome
            row["why"] = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)[-2000:]

    def pytest_collectreport(self, report: Any) -> None:  # noqa: ANN401
        """A file was imported, or not."""
        if report.failed:
            self.rows[report.nodeid] = {"outcome": "could not be imported", "why": str(report.longrepr)[-2000:]}


def stand_in(folder: Path) -> None:
    """A package that is found as hypothesis."""
    (folder / "hypothesis").mkdir()
    (folder / "hypothesis" / "__init__.py").write_text(STAND_IN, encoding="utf-8")
    (folder / "hypothesis" / "strategies.py").write_text(STRATEGIES, encoding="utf-8")
    sys.path.insert(0, str(folder))


def gpu_files() -> list[str]:
    """The files with GPU tests: others need not be importable here."""
    return [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "pytest.mark.gpu" in path.read_text("utf-8")]


def main() -> int:
    """Run them; 0 if all passed."""
    if find_spec("pytest") is None:
        raise SystemExit("pytest is not installed for this Python; name another: make test-gpu PYTHON=/path/to/python3")
    import pytest
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device here")
    for place in ("src", "benchmarks", "tests"):
        sys.path.insert(0, str(ROOT / place))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    record = Record()
    with tempfile.TemporaryDirectory() as folder:
        options = ["-m", "gpu", "-p", "no:cacheprovider", "-W", "default"]  # other versions than the pinned ones warn
        missing = find_spec("hypothesis") is None
        if missing:
            stand_in(Path(folder))
            options += ["-o", "markers=gpu(interpreted=False): needs a GPU\nhypothesis: property tests"]
        os.chdir(ROOT)
        code = int(pytest.main([*options, *gpu_files()], plugins=[record]))
    if not record.rows:
        raise SystemExit("no test was run (see above)")
    from provenance import provenance

    outcomes = [row["outcome"] for row in record.rows.values()]
    counts = {name: outcomes.count(name) for name in sorted(set(outcomes))}
    result = {**provenance(SEED), "hypothesis_is_missing": missing, "outcomes": counts, "tests": record.rows}
    RESULT.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(counts)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
