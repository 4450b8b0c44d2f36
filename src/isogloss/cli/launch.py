"""`isogloss launch`: one training by several processes, on this machine or on several.

Every process runs the same command and is told by its environment who it is, as torchrun and accelerate tell theirs
(`training/distributed.py` reads it). The first one has the screen. The others are silent; what they wrote to standard error is
shown only if one of them is the reason for the end.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated

import typer
from typer import Argument, Option

from isogloss.amounts import amount
from isogloss.cli.signals import interrupts_held, signal_of, signals_interrupt
from isogloss.errors import IsoglossError

TRAINS = ("run", "distill", "finetune", "train-dual", "train-laser", "quickstart", "add")
PORT = 29500  # torchrun's, where several machines must agree on one
LEFT_BEHIND = 3  # the exit code of a process whose fellow is gone: training.distributed.LeftBehind
AFTERMATH_SECONDS = 2.0  # from one failure to the ends of the others; who fails first is not always the first to be gone
GRACE_SECONDS = 10.0  # to finish writing, after a process was asked to end
LOOK_SECONDS = 0.05


def launch(
    command: Annotated[
        list[str], Argument(metavar="VERB", help="A command that trains, such as run or distill, with all its options.")
    ],
    processes: Annotated[
        int | None,
        Option("-n", "--processes", min=1, metavar="N", help="Processes on this machine; one per GPU if not given."),
    ] = None,
    nodes: Annotated[int, Option(min=1, help="Machines that train together.")] = 1,
    node_rank: Annotated[int, Option(min=0, help="Which of them this is, from 0.")] = 0,
    main_address: Annotated[str, Option(help="Where machine 0 is reached by the others.")] = "",
    main_port: Annotated[int, Option(min=0, max=65535, help=f"Its port; a free one, or {PORT} with several machines.")] = 0,
) -> None:
    """Train with several processes, on one machine or more.

    isogloss launch -n 2 run recipe.toml
    """
    _refuse_other_verbs(command)
    if node_rank >= nodes:
        there = f"there {'is' if nodes == 1 else 'are'} {amount(nodes, 'machine')}"
        raise IsoglossError(
            f"--node-rank {node_rank}, but {there}", hint="say how many with --nodes; --node-rank counts them from 0"
        )
    if nodes > 1 and not main_address:
        raise IsoglossError("--nodes is given without --main-address", hint="name machine 0, the same for all of them")
    here = processes or _devices()
    meeting = main_address or "127.0.0.1", main_port or (PORT if nodes > 1 else free_port())
    places = [_place(local, here, nodes, node_rank, meeting) for local in range(here)]
    code = Team(places, [sys.executable, "-m", "isogloss", *command]).work()
    if code:
        raise typer.Exit(code)


def _refuse_other_verbs(command: Sequence[str]) -> None:
    if command[0] not in TRAINS:
        raise IsoglossError(
            f"isogloss launch starts training, and {command[0]} is not one of its verbs",
            hint=f"choose from: {', '.join(TRAINS)}",
        )


def _devices() -> int:
    import torch

    found = torch.cuda.device_count()
    if not found:
        raise IsoglossError("there is no GPU here to count processes by", hint="say how many: isogloss launch -n 2 ...")
    return found


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _place(local: int, here: int, nodes: int, node: int, meeting: tuple[str, int]) -> dict[str, str]:
    """What a process is told: the variables that torch.distributed reads. Machines have equally many processes."""
    threads = max(1, (os.cpu_count() or 1) // here)  # without a word each would take all cores
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


@dataclass(slots=True)
class Member:
    """A started process, and where it writes its errors if it does not have the screen."""

    rank: int
    process: "subprocess.Popen[bytes]"
    errors: IO[bytes] | None

    @property
    def code(self) -> int | None:
        """Its exit code as a shell has it, once it has ended."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    @property
    def has_screen(self) -> bool:
        """Whether it leads."""
        return self.errors is None

    def last_words(self) -> str:
        """What it wrote to standard error."""
        if self.errors is None:
            return ""
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace").strip()


class Team:
    """The processes of this machine, from their start to the end of the last of them."""

    def __init__(self, places: Sequence[dict[str, str]], command: Sequence[str]) -> None:
        self.places, self.command = places, command

    def work(self) -> int:
        """Start all, wait for all; if one fails, end the others. Returns the worst exit code of those that ended themselves."""
        with tempfile.TemporaryDirectory(prefix="isogloss-") as folder, signals_interrupt():
            members: list[Member] = []
            try:
                for place in self.places:
                    with interrupts_held():  # or one that has just been started would be nobody's
                        members.append(self._start(place, Path(folder)))
                failed = self._wait(members)
            except KeyboardInterrupt as error:
                _end(members, signal.SIGINT)
                return 128 + signal_of(error)
            finally:
                _end(members, signal.SIGTERM)
                for member in members:
                    if member.errors is not None:
                        member.errors.close()
            return failed

    def _start(self, place: dict[str, str], folder: Path) -> Member:
        rank = int(place["RANK"])
        errors = None if rank == 0 else (folder / str(rank)).open("w+b")
        process = subprocess.Popen(
            self.command,
            env=os.environ | place,
            stdin=subprocess.DEVNULL,
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,  # Ctrl-C comes to us, and from us to each of them once
        )
        return Member(rank, process, errors)

    def _wait(self, members: list[Member]) -> int:
        deadline = math.inf
        while any(member.code is None for member in members) and time.monotonic() < deadline:
            if any(member.code for member in members):  # others fail for the same reason, or for this one, a moment later
                deadline = min(deadline, time.monotonic() + AFTERMATH_SECONDS)
            time.sleep(LOOK_SECONDS)
        failed = [member for member in members if member.code]
        guilty = [member for member in failed if member.code != LEFT_BEHIND] or failed
        if guilty and not any(member.has_screen for member in guilty):
            sys.stderr.write(_complaint(guilty[0]))
        worst = max((member.code or 0 for member in guilty), default=0)
        return 2 if worst == LEFT_BEHIND else worst


def _complaint(member: Member) -> str:
    words = member.last_words()
    if words:
        return f"isogloss: process {member.rank} of the training failed:\n{words}\n"
    by_signal = f" by signal {(member.code or 0) - 128}; was there enough memory?" if (member.code or 0) > 128 else ""
    return f"isogloss: process {member.rank} of the training was ended{by_signal or f' with code {member.code}'}\n"


def _end(members: Sequence[Member], how: signal.Signals) -> None:
    """Ask those that still run to end, and end them if they do not."""
    running = [member.process for member in members if member.code is None]
    for process in running:
        process.send_signal(how)
    deadline = time.monotonic() + GRACE_SECONDS
    for process in running:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
