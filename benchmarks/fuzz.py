"""A million malformed inputs: files of every format, manifests and other JSON, recipes, answers of servers, codes, addresses.

    nice -n 19 python benchmarks/fuzz.py --cases 1000000 --seconds 600

Each case has to give a result or raise an IsoglossError with a sentence in it, within five seconds; any other exception, a
message with control characters and a longer wait are findings. Cases are numbered and drawn from their number, so they are the
same everywhere. What was tried is noted in benchmarks/results/fuzz.json after every round; the same command goes on from
there, unless the sources have changed since: a fix is tried from the first case on. `--real` cases of all go over a server on
this machine. The targets are in tests/fuzz_targets.py; a few thousand of the same cases are tried by the tests.
"""

import argparse
import json
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from provenance import provenance

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from fuzz_servers import Answers, answer_on_the_wire  # noqa: E402 - found there
from fuzz_targets import Try, attempt, targets  # noqa: E402
from isogloss.storage import content_hash, file_hash, write_json  # noqa: E402

OUT = Path(__file__).with_name("results") / "fuzz.json"
ROUND = 500  # cases of a target before the next one has its turn
EXAMPLES = 20
SLOWEST = 5.0  # seconds a case may take
REAL = "services, real server"


def sources() -> str:
    """Names what is tried and what tries it."""
    files = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "tests").glob("fuzz_*.py")])
    return content_hash(*(part for file in files for part in (str(file.relative_to(ROOT)), file_hash(file))))[:16]


class Served(BaseHTTPRequestHandler):
    """Sends whatever bytes the case says, over a real connection."""

    answer = b""

    def do_GET(self) -> None:  # noqa: D102 - as the base class has it
        self.wfile.write(Served.answer)
        self.close_connection = True

    def do_POST(self) -> None:  # noqa: D102
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing on the screen."""


def over_a_server(answers: Answers, server: ThreadingHTTPServer) -> Try:
    """Cases of the target "services", asked of a server on this machine."""

    def target(random: Random) -> None:
        name, body = answers.drawn(random)
        Served.answer = answer_on_the_wire(random, body)
        answers.ask(name, f"http://127.0.0.1:{server.server_port}")

    return target


def begun(seed: int) -> dict[str, Any]:
    """What was tried before, if it was the same thing."""
    try:
        known: dict[str, Any] = json.loads(OUT.read_text(encoding="utf-8"))
        if known["sources"] == sources() and known["seed"] == seed:
            return known
    except (OSError, ValueError, KeyError):
        pass
    return {**provenance(seed), "sources": sources(), "cases": 0, "seconds": 0.0, "targets": {}, "findings": 0, "examples": []}


class _TooSlow(BaseException):
    """Not an Exception, so that nobody on the way catches it."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 2 * SLOWEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def timed(name: str, target: Try, number: int) -> str:
    """What is wrong with a case, its time included; an endless one is ended."""
    began = time.monotonic()
    with _limited():
        said = attempt(name, target, number)
    took = time.monotonic() - began
    return said or (f"{took:.1f} s" if took > SLOWEST else "")


def one_round(known: dict[str, Any], every: dict[str, Try], real: int) -> None:
    """The next cases of every target."""
    for name, target in every.items():
        row = known["targets"].setdefault(name, {"cases": 0, "findings": 0, "seconds": 0.0})
        count = ROUND if name != REAL else max(0, min(ROUND // 5, real - row["cases"]))
        start = time.monotonic()
        for number in range(row["cases"], row["cases"] + count):
            if said := timed(name, target, known["seed"] * 10**9 + number):
                row["findings"] += 1
                if len(known["examples"]) < EXAMPLES:
                    known["examples"].append({"target": name, "case": number, "said": said[-2000:]})
        row["cases"] += count
        row["seconds"] = round(row["seconds"] + time.monotonic() - start, 1)
    for total in ("cases", "findings", "seconds"):
        known[total] = round(sum(row[total] for row in known["targets"].values()), 1 if total == "seconds" else None)


def main() -> None:
    """Try cases until there are enough, or for as long as was said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long; the same command goes on")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--real", type=int, default=10_000, help="cases over a server on this machine")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    known, began = begun(asked.seed), time.monotonic()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Served)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        every = targets(Path(folder), os.environ.__setitem__)
        answers = Answers(Path(folder))
        every[REAL] = over_a_server(answers, server)
        while known["cases"] < asked.cases and time.monotonic() - began < asked.seconds:
            one_round(known, every, asked.real)
            write_json(OUT, known)
            print(
                f"{known['cases']:,} of {asked.cases:,} cases, {known['findings']} findings, {known['seconds']:,.0f} s",
                flush=True,
            )
    server.shutdown()
    for example in known["examples"]:
        print(f"\n{example['target']} {example['case']}\n{example['said']}")
    sys.exit(1 if known["findings"] else 0)


if __name__ == "__main__":
    main()
