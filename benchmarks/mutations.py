"""Small changes of the code that decides results, and whether the tests notice them.

`python benchmarks/mutations.py` makes `results/mutations.json`.
Each mutant (see `mutating`) runs the tests of its module with -x, in a process that is forked from one with the libraries
loaded already; it is compiled in that process alone, so that no file changes. A mutant is killed if a test fails or hangs.
Those that change nothing anyone can see are listed with a reason in `equivalent_mutants.json` and do not count.

`--count 300` (0: all) chooses that many by a hash, the same each time. A run that was stopped goes on where it was; mutants
of a module whose code and tests are as they were are not run again.
"""

import argparse
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mutating import Mutant, mutants

ROOT = Path(__file__).parent.parent
SOURCE, TESTS = ROOT / "src" / "isogloss", ROOT / "tests"
RESULT = ROOT / "benchmarks" / "results" / "mutations.json"
EQUIVALENT = ROOT / "benchmarks" / "equivalent_mutants.json"
SEED = 17
PATIENCE = 10  # times what the tests take without a change, and a minute: then they hang
LOADED = (
    "hypothesis",
    "numpy",
    "pyarrow",
    "pyarrow.parquet",
    "pytest",
    "scipy",
    "sentence_transformers",
    "torch",
    "transformers",
)

LOSSES = [path.name for path in sorted((SOURCE / "losses").glob("[a-z]*.py"))]
MATCHED = {  # the tests of each module, the quickest first
    **{f"losses/{name}": (f"losses/test_{name}", "losses/test_promises.py") for name in LOSSES},
    "losses/combined.py": ("losses/test_combined.py", "losses/test_promises.py", "losses/test_matryoshka.py"),
    "losses/batch.py": ("losses/test_promises.py", "losses/test_ranking.py", "losses/test_soft_similarity.py"),
    "mining/margin.py": ("mining/test_matching.py", "mining/test_mine.py"),
    "mining/matching.py": ("mining/test_matching.py", "mining/test_mine.py"),
    "evaluation/bootstrap.py": ("evaluation/test_bootstrap.py", "evaluation/test_compare.py"),
    "corpora/leaks/scan.py": ("corpora/leaks/test_scan.py", "corpora/test_prepare.py"),
    "corpora/preparation/pair_selection.py": (
        "corpora/preparation/test_pair_selection.py",
        "corpora/preparation/test_scored_parts.py",
        "corpora/test_prepare.py",
    ),
    "training/dev_split.py": ("training/test_dev_split.py",),
    "runs/gate.py": ("runs/test_gate.py",),
    "checksums.py": ("test_checksums.py", "models/test_vector_cache.py"),
    "training/selection.py": ("training/test_selection.py",),
    "training/checkpoints.py": ("training/test_checkpoints.py", "training/test_trainer.py"),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A module, its mutants, and the tests that should notice them."""

    name: str
    mutants: tuple[Mutant, ...]
    tests: tuple[str, ...]
    key: str  # of the module's code and its tests

    @property
    def module(self) -> str:
        """As it is imported."""
        return "isogloss." + self.name.removesuffix(".py").replace("/", ".")


def open_target(name: str) -> Target:
    tests = tuple(str(TESTS / test) for test in MATCHED[name])
    source = (SOURCE / name).read_text(encoding="utf-8")
    everything = "".join([source, *(Path(test).read_text(encoding="utf-8") for test in tests)])
    return Target(name, tuple(mutants(source)), tests, hashlib.sha256(everything.encode()).hexdigest()[:16])


def chosen(targets: Sequence[Target], count: int) -> list[tuple[Target, Mutant]]:
    """So many mutants, by a hash of what they change; 0: all of them."""
    both = [(target, one) for target in targets for one in target.mutants]
    if not count:
        return both

    def place(pair: tuple[Target, Mutant]) -> str:
        target, one = pair
        return hashlib.sha256(f"{SEED} {target.name} {_line(one, target)} {one.change}".encode()).hexdigest()

    wanted = {id(one) for _, one in sorted(both, key=place)[:count]}
    return [(target, one) for target, one in both if id(one) in wanted]


def _line(one: Mutant, target: Target) -> str:
    return (SOURCE / target.name).read_text(encoding="utf-8").splitlines()[one.line - 1].strip()


# ── one mutant ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Mutated(importlib.machinery.SourceFileLoader):
    """Imports one module with other code than its file has."""

    def __init__(self, target: Target, source: str) -> None:
        super().__init__(target.module, str(SOURCE / target.name))
        self.source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Of this module alone."""
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        """Compiled here: no cached bytecode is read or written."""
        return compile(self.source, self.path, "exec", dont_inherit=True)


def tried(target: Target, source: str, seconds: float) -> tuple[str, float]:
    """What the tests say of this code: survived, killed or timeout; and how long they took."""
    began = time.monotonic()
    child = os.fork()
    if not child:
        _become(target, source)
    while time.monotonic() - began < seconds:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            if code > 4:  # 0: all passed, 1: some failed, 2 to 4: some could not be imported; a signal is below 0
                raise SystemExit(f"{target.name}: pytest ended with {code}")
            return "killed" if code else "survived", time.monotonic() - began
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "timeout", time.monotonic() - began


def _become(target: Target, source: str) -> None:
    """The forked process: runs the tests and ends."""
    import pytest

    os.setsid()
    with open(os.devnull, "r+b") as nothing:
        for stream in (0, 1, 2):
            os.dup2(nothing.fileno(), stream)
    sys.meta_path.insert(0, Mutated(target, source))
    os.chdir(ROOT)
    code = 70
    with contextlib.suppress(BaseException):
        quiet = ["-p", "no:cacheprovider", "--tb=no", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = int(pytest.main(["-x", *quiet, *target.tests]))
    os._exit(code)


# ── all of them ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def load_libraries() -> None:
    """What every mutant's tests import, but nothing of isogloss."""
    for name in LOADED:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    for name in [name for name in sys.modules if name.split(".")[0] == "isogloss"]:
        del sys.modules[name]


def judged(pairs: Sequence[tuple[Target, Mutant]], known: dict[tuple[str, ...], dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a mutant, with its verdict; written after each."""
    reasons = {(one["file"], one["code"], one["change"]): one["reason"] for one in json.loads(EQUIVALENT.read_text())}
    usual: dict[str, float] = {}
    rows = []
    for number, (target, one) in enumerate(pairs, 1):
        code = _line(one, target)
        row: dict[str, Any] = {"file": f"src/isogloss/{target.name}", "line": one.line, "code": code, "change": one.change}
        row["key"] = target.key
        before = known.get((row["file"], code, one.change, target.key))
        if reason := reasons.get((row["file"], code, one.change)):
            row |= {"verdict": "equivalent", "reason": reason}
        elif before is not None and before["verdict"] in ("killed", "timeout"):
            row["verdict"] = before["verdict"]
        else:
            if target.name not in usual:
                verdict, usual[target.name] = tried(target, (SOURCE / target.name).read_text(encoding="utf-8"), 600)
                if verdict != "survived":
                    raise SystemExit(f"{target.name}: its tests fail without a mutation")
            row["verdict"], _ = tried(target, one.source, 60 + PATIENCE * usual[target.name])
        rows.append(row)
        print(f"{number}/{len(pairs)} {row['verdict']:10} {row['file']}:{one.line} {one.change}", flush=True)
        write(rows, len(rows) == len(pairs))
    return rows


def write(rows: list[dict[str, Any]], finished: bool) -> None:
    """The result file; while it is unfinished, beside it."""
    verdicts = [row["verdict"] for row in rows]
    killed, equivalent = sum(one in ("killed", "timeout") for one in verdicts), verdicts.count("equivalent")
    counted = max(len(rows) - equivalent, 1)
    result = FACTS | {
        "mutants": len(rows),
        "killed": killed,
        "survived": verdicts.count("survived"),
        "equivalent": equivalent,
        "killed_percent": round(100 * killed / counted, 2),
        "rows": rows,
    }
    path = RESULT if finished else RESULT.with_suffix(".part")
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if finished:
        RESULT.with_suffix(".part").unlink(missing_ok=True)


def before() -> dict[tuple[str, ...], dict[str, Any]]:
    """What earlier runs found, by file, code, change, and the key of code and tests."""
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    for path in (RESULT, RESULT.with_suffix(".part")):
        if path.exists():
            for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
                known[row["file"], row["code"], row["change"], row["key"]] = row
    return known


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="mutants to try; 0: all")
    parser.add_argument("--only", default="", help="modules whose name has this in it")
    parser.add_argument("--fresh", action="store_true", help="forget what earlier runs found")
    asked = parser.parse_args()

    from provenance import provenance

    FACTS = provenance(SEED)
    load_libraries()
    names = [name for name in MATCHED if asked.only in name]
    rows = judged(chosen([open_target(name) for name in names], asked.count), {} if asked.fresh else before())
    print({row["verdict"]: sum(one["verdict"] == row["verdict"] for one in rows) for row in rows})
