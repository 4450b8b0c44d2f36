"""kill -9 at random moments: whatever a verb was doing, the same command ends as if nothing had happened.

Moments are drawn from the measured length of an undisturbed run; of verbs that train, most lie some trained steps after the
kill before. A trial kills a command up to `KILLS` times, then lets it finish and compares its result with the undisturbed one.
"""

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from fault_world import Verb, World, finished_wrongly, made_before, mixture, running

KILLS = 4
AFTER_A_STEP = 0.7  # share of kills of verbs that train which wait for some trained steps; the others fall anywhere


def undisturbed(world: World, name: str, folder: Path) -> dict[str, Any]:
    """How long a verb takes, when its first step is trained, and what it gives."""
    verb, seconds, first = world.verbs[name], 0.0, 0.0
    for _ in range(2):  # the second time the libraries are warm
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        before = made_before(verb, folder / "result")
        began = time.monotonic()
        with running(verb, folder / "result", folder / "scratch") as (process, wait):
            first = 0.0
            while process.is_alive():
                if not first and (folder / "scratch" / "steps").stat().st_size:
                    first = time.monotonic() - began
                time.sleep(0.01)
            done = wait()
        seconds = time.monotonic() - began
        if done.code:
            raise SystemExit(f"{name}: {done.errors}")
    digest = verb.digest(folder / "result")
    return {"seconds": seconds, "first": first, "digest": digest, "steps": done.steps, "before": before}


def trial(world: World, name: str, known: dict[str, Any], seed: int, folder: Path) -> dict[str, Any]:
    """Kill a command a few times, let it finish, and say what came of it."""
    verb, chance = world.verbs[name], random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    told: dict[str, Any] = {"kind": "kill", "verb": name, "seed": seed, "kills": 0, "kills_after_a_step": 0, "wrong": ""}
    made_before(verb, folder / "result")
    for number in range(KILLS):
        killed, steps = _killed(verb, folder, known, chance)
        told["kills"] += killed
        told["kills_after_a_step"] += killed and steps > 0
        told["wrong"] = told["wrong"] or mixture(verb, folder / "result", known)
        if not killed and number == 0:  # it had finished already: begin again
            shutil.rmtree(folder)
            folder.mkdir()
            made_before(verb, folder / "result")
    told["wrong"] = told["wrong"] or finished_wrongly(verb, folder / "result", folder / "scratch", known)
    return told


def _killed(verb: Verb, folder: Path, known: dict[str, Any], chance: random.Random) -> tuple[bool, int]:
    """Start a command and kill it; whether it was still running then, and how many steps it had trained."""
    wanted = chance.randint(1, max(1, known["steps"] // KILLS)) if verb.trains and chance.random() < AFTER_A_STEP else 0
    delay = chance.uniform(0, known["seconds"] / max(1, known["steps"]) if wanted else 0.9 * known["seconds"])
    steps = folder / "scratch" / "steps"
    with running(verb, folder / "result", folder / "scratch") as (process, wait):
        while process.is_alive() and steps.stat().st_size < wanted:
            time.sleep(0.002)
        process.join(delay)
        killed = process.is_alive()
        if killed:
            os.kill(process.pid, signal.SIGKILL)
        done = wait()
    return killed and done.code == -signal.SIGKILL, done.steps
