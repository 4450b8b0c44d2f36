"""Everything that can go wrong, on purpose: `python benchmarks/faults.py`.

    fault_kills.py     kill -9 at random moments, over all verbs
    fault_limits.py    full disks, failing renames, limits of files and memory
    fault_flips.py     one flipped bit in a kept file, or a file that was cut off
    fault_inputs.py    bad input, addresses with typos, ports in use

The verbs are those of fault_world.py, and those of fault_exports.py: exports, indexes and the service.

Writes benchmarks/results/faults.json: counts by kind and verb, every trial that went wrong, commit, versions, machine, seed.
Trials are written to WORK/trials.jsonl as they end, so that the same command goes on where it was stopped. A kind of fault is a
module with `trial(world, verb, known, seed, folder)` that gives {"kind", "verb", "seed", "wrong", …}.
"""

import argparse
import json
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import fault_inputs
import fault_kills
import fault_limits
from fault_exports import Exports, postgres_server
from fault_flips import Flips
from fault_flips_exports import export_worlds
from fault_world import World
from provenance import provenance

from isogloss.storage import append_line

RESULT = Path(__file__).with_name("results") / "faults.json"
KINDS: dict[str, ModuleType] = {"kill": fault_kills, "limit": fault_limits}
WEIGHT = {"kill": "kills", "limit": "hit"}  # what of a trial counts: a command that a fault did not reach is none


class Trials:
    """Trials that are done, in a file that grows line by line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.done: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("}")]

    def add(self, told: dict[str, Any]) -> None:
        """Keep one more."""
        self.done.append(told)
        append_line(self.path, json.dumps(told))

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Those of one kind."""
        return [one for one in self.done if one["kind"] == kind]

    def count(self, kind: str) -> int:
        """How many faults of a kind there were."""
        return sum(int(one[WEIGHT[kind]]) if kind in WEIGHT else 1 for one in self.of(kind))


def summary(trials: Trials, seed: int) -> dict[str, Any]:
    """Counts by kind and verb, and what went wrong."""
    told: dict[str, Any] = provenance(seed)
    for kind in (*KINDS, "flip", "input"):
        done = trials.of(kind)
        by_verb = Counter[str]()
        for one in done:
            by_verb[one["verb"]] += int(one[WEIGHT[kind]]) if kind in WEIGHT else 1
        wrong = [one for one in done if one["wrong"]]
        told[kind] = {"trials": len(done), "faults": trials.count(kind), "wrong": len(wrong), "by_verb": dict(by_verb)}
        for extra in ("kills_after_a_step", "hit", "aborted"):
            if any(extra in one for one in done):
                told[kind][extra] = sum(int(one.get(extra, 0)) for one in done)
        for extra in ("ended", "file", "damage"):
            if counted := Counter(one[extra] for one in done if extra in one):
                told[kind][f"by_{extra}"] = dict(sorted(counted.items()))
        told[kind]["what_went_wrong"] = wrong
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--limits", type=int, default=75)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--inputs", type=int, default=len(fault_inputs.CASES))
    parser.add_argument("--verbs", default="", help="only these, with commas")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--work", type=Path, default=Path("/tmp/isogloss-faults"))
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    world, trials = World(options.work / "world", options.seed), Trials(options.work / "trials.jsonl")
    postgres = postgres_server()
    exports = Exports(world.folder, postgres.get_uri() if postgres else "")
    exports.make()
    world.verbs |= exports.verbs()
    names = options.verbs.split(",") if options.verbs else list(world.verbs)
    known: dict[str, dict[str, Any]] = {}
    try:
        for kind, wanted in (("kill", options.kills), ("limit", options.limits)):
            number = len(trials.of(kind))
            while trials.count(kind) < wanted:
                name = names[number % len(names)]
                if name not in known:
                    known[name] = fault_kills.undisturbed(world, name, options.work / "undisturbed")
                told = KINDS[kind].trial(world, name, known[name], 1000 * options.seed + number, options.work / "trial")
                trials.add(told)
                number += 1
                print(f"{kind} {trials.count(kind)}/{wanted}: {name} {told['wrong'] or 'as undisturbed'}", flush=True)
        while (number := trials.count("input")) < options.inputs:
            told = fault_inputs.trial(world, number, options.work / "trial")
            trials.add(told)
            if told["wrong"] or number + 1 == options.inputs:
                print(f"input {number + 1}/{options.inputs}: {told['command']} {told['wrong']}", flush=True)
        flips = Flips(options.work / "flips", export_worlds) if trials.count("flip") < options.flips else None
        while flips is not None and (number := trials.count("flip")) < options.flips:
            told = flips.trial(number, 1000 * options.seed + number)
            trials.add(told)
            if told["wrong"] or not (number + 1) % 50:
                print(f"flip {number + 1}/{options.flips}: {told['verb']} {told['wrong'] or told['ended']}", flush=True)
    finally:
        world.close()
        if postgres:
            postgres.cleanup()
        options.out.write_text(json.dumps(summary(trials, options.seed), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
