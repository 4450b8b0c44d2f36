"""`isogloss launch`: several processes train together, on one machine or on several.

Every process runs the same command, with the environment variables that torchrun sets (`training/distributed.py` reads them).
The main process has the screen. Of the others only an error is shown, if it is what ended the training.

Not torch's elastic launcher: it ends all processes as soon as one exits, and reports that one. Where a process fails, another
often exits first, only because its connection broke.
"""

import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Annotated

import typer
from typer import Argument, Option

from isogloss.cli.signals import interrupts_held, signal_of, signals_interrupt
from isogloss.errors import IsoglossError

TRAINS = ("run", "distill", "finetune", "train-dual", "train-laser", "quickstart", "add")
PORT = 29500  # torchrun's default, for several machines
LEFT_BEHIND = 3  # exit code of a process that lost its connection to another: training.distributed.LeftBehind
AFTERMATH_SECONDS = 2.0  # to wait after a failure for the exit codes of the others: the first to exit is often not the cause
GRACE_SECONDS = 10.0  # from SIGTERM to SIGKILL
LOOK_SECONDS = 0.05


def launch(
    command: Annotated[
        list[str], Argument(metavar="VERB", help="The training command, such as run or distill, with its options.")
    ],
    processes: Annotated[
        int | None,
        Option("-n", "--processes", min=1, metavar="N", help="Processes on this machine.  [default: one per GPU]"),
    ] = None,
    nodes: Annotated[int, Option(metavar="N", min=1, help="Number of machines.")] = 1,
    node_rank: Annotated[int, Option(metavar="N", min=0, help="Rank of this machine, from 0.")] = 0,
    main_address: Annotated[str, Option(metavar="HOST", help="Address of machine 0; required with several machines.")] = "",
    main_port: Annotated[
        int | None,
        Option(
            metavar="PORT", min=0, max=65535, help=f"Port of machine 0.  [default: a free one; with several machines {PORT}]"
        ),
    ] = None,
) -> None:
    """Train with several processes, on one machine or more.

    isogloss launch -n 2 run recipe.toml
    """
    if command[0] not in TRAINS:
        raise IsoglossError(f"isogloss launch cannot start {command[0]}", hint=f"choose from: {', '.join(TRAINS)}")
    if node_rank >= nodes:
        raise IsoglossError(
            f"--node-rank {node_rank} is out of range: --nodes is {nodes}", hint="ranks of machines count from 0"
        )
    if nodes > 1 and not main_address:
        raise IsoglossError("--nodes needs --main-address", hint="give the address of machine 0, the same on all machines")
    here = processes or _count_gpus()
    meeting = main_address or "127.0.0.1", main_port or (PORT if nodes > 1 else free_port())
    places = [rank_environment(local, here, nodes, node_rank, meeting) for local in range(here)]
    if code := run_team(places, [sys.executable, "-m", "isogloss", *command]):
        raise typer.Exit(code)


def _count_gpus() -> int:
    import torch

    found = torch.cuda.device_count()
    if not found:
        raise IsoglossError("there is no GPU, so the number of processes is unknown", hint="set it: isogloss launch -n 2 …")
    return found


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def rank_environment(local: int, here: int, nodes: int, node: int, meeting: tuple[str, int]) -> dict[str, str]:
    """The variables that torch.distributed reads. All machines have the same number of processes."""
    threads = max(1, (os.cpu_count() or 1) // here)  # or each process would use all cores
    return {
        "RANK": str(node * here + local),
        "LOCAL_RANK": str(local),
        "WORLD_SIZE": str(nodes * here),
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": str(node),
        "MASTER_ADDR": meeting[0],
        "MASTER_PORT": str(meeting[1]),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
    }


class Worker:
    """A process; `errors` is where its standard error goes, None for the main process, which has the screen."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self.rank = int(environment["RANK"])
        self.errors: IO[bytes] | None = tempfile.TemporaryFile() if self.rank else None  # noqa: SIM115 - run_team closes it
        self.process = subprocess.Popen(
            command,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if self.rank else None,
            stderr=self.errors,
            start_new_session=True,  # Ctrl-C reaches us, and we send it to each process once
        )

    @property
    def code(self) -> int | None:
        """Its exit code as in a shell, once it has ended."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def complaint(self) -> str:
        """Why it failed: what it wrote to standard error, or how it ended."""
        code, words = self.code or 0, ""
        if self.errors is not None:
            self.errors.seek(0)
            words = self.errors.read().decode("utf-8", "replace").strip()
        if words:
            return f"isogloss: process {self.rank} failed:\n{words}\n"
        how = f"was killed by signal {code - 128}; memory may have run out" if code > 128 else f"ended with exit code {code}"
        return f"isogloss: process {self.rank} {how}\n"


def run_team(places: Sequence[dict[str, str]], command: Sequence[str]) -> int:
    """Run a command in every place and wait; if one process fails, end the others and return its exit code."""
    workers: list[Worker] = []
    with signals_interrupt():
        try:
            for place in places:
                with interrupts_held():  # a signal now would leave the new process running
                    workers.append(Worker(command, place))
            return _wait(workers)
        except KeyboardInterrupt as error:
            _end(workers, signal.SIGINT)
            return 128 + signal_of(error)
        finally:
            _end(workers, signal.SIGTERM)
            for worker in workers:
                if worker.errors is not None:
                    worker.errors.close()


def _wait(workers: Sequence[Worker]) -> int:
    deadline = math.inf
    while any(worker.code is None for worker in workers) and time.monotonic() < deadline:
        if any(worker.code for worker in workers):
            deadline = min(deadline, time.monotonic() + AFTERMATH_SECONDS)
        time.sleep(LOOK_SECONDS)
    failed = [worker for worker in workers if worker.code]
    causes = [worker for worker in failed if worker.code != LEFT_BEHIND] or failed
    if causes and all(worker.rank for worker in causes):  # the main process has shown its own error
        sys.stderr.write(causes[0].complaint())
    worst = max((worker.code or 0 for worker in causes), default=0)
    return 2 if worst == LEFT_BEHIND else worst


def _end(workers: Sequence[Worker], how: signal.Signals) -> None:
    """Ask the processes that still run to stop, and kill them if they do not."""
    running = [worker.process for worker in workers if worker.code is None]
    for process in running:
        process.send_signal(how)
    deadline = time.monotonic() + GRACE_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
