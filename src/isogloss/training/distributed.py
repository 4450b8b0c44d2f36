"""The processes that train one model together; usually one.

Each encodes its share of a batch. Vectors are gathered, so that every process computes the loss of the whole batch, and
backward runs through its own vectors only: the gradients of all processes sum to that of the whole batch. accelerate finds
rank and size, under its own launcher, torchrun or a cluster's. `cli/launch.py` starts processes.
"""

import atexit
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from isogloss.amounts import amount
from isogloss.errors import IsoglossError
from isogloss.types import IntArray
from isogloss.web import whole_number

TIMEOUT = timedelta(days=30)  # others wait while the main process embeds a corpus; if a process dies, they notice without it


@cache
def _leave_at_exit() -> None:
    """Register `leave`: a process that exits while gloo's threads still run is sometimes aborted after its work is done."""
    atexit.register(leave)


def leave() -> None:
    """Shut gloo down in this process, which does not wait for the others. NCCL would wait; torch shuts it down."""
    if dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


class LeftBehind(IsoglossError):
    """Another process of the same training is gone. The exit code tells the launcher that the cause is in another process."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Distributed:
    """How many processes there are and which one this is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def here(cls) -> "Distributed":
        """The processes of this launch, as the environment says; without a launcher, this one alone."""
        if (whole_number(os.environ.get("WORLD_SIZE")) or 1) <= 1:
            return cls()
        from accelerate import PartialState

        _refuse_more_than_devices(whole_number(os.environ.get("LOCAL_WORLD_SIZE")) or 1)
        with _process_lost():
            state = PartialState(cpu=not torch.cuda.is_available(), timeout=TIMEOUT)
        _leave_at_exit()
        return cls(int(state.process_index), int(state.num_processes))

    @property
    def is_main_process(self) -> bool:
        """Whether this process is the one that writes files and logs."""
        return self.rank == 0

    def share(self, chosen: IntArray) -> IntArray:
        """The part of a batch that this process computes. All parts have the same length except the last ones."""
        each = -(-len(chosen) // self.size)
        return chosen[self.rank * each : (self.rank + 1) * each]

    def gathered(self, mine: Tensor, whole: int) -> Tensor:
        """The rows of all processes' shares of `whole` examples, each padded with zeros to the longest one.

        Gradients flow into this process's own rows only.
        """
        if self.size == 1:
            return mine
        rows = -(-whole // self.size)
        filled = mine.new_zeros((rows, *mine.shape[1:]))
        filled[: len(mine)] = mine.detach()
        parts = [torch.empty_like(filled) for _ in range(self.size)]
        with _process_lost():
            dist.all_gather(parts, filled)
        own = torch.cat([mine, filled[len(mine) :]])
        return torch.cat([*parts[: self.rank], own, *parts[self.rank + 1 :]])

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by the sum over all processes, in one message."""
        self._exchange(tensors, dist.all_reduce)

    def copy_from_main(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by the main process's: what machines computed apart may differ in the last digit."""
        self._exchange(tensors, lambda flat: dist.broadcast(flat, 0))

    def _exchange(self, tensors: Sequence[Tensor], send: Callable[[Tensor], object]) -> None:
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _process_lost():
            send(flat)
        with torch.no_grad():
            for tensor, values in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
                tensor.copy_(values.view_as(tensor))

    def agree(self, value: float) -> float:
        """The main process's value, for all: a decision that depends on a clock must be the same everywhere."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        with _process_lost():
            dist.broadcast(shared, 0)
        return float(shared)

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            with _process_lost():
                dist.barrier()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """One process after the other, the main one first: it computes what the others then find.

        All processes must enter it, and do nothing collective inside. A process that fails inside does not wait for the
        others: it exits, and they get an error.
        """
        for _ in range(self.rank):
            self.wait()
        yield
        for _ in range(self.size - self.rank):
            self.wait()


@contextmanager
def _process_lost() -> Iterator[None]:
    """A message that cannot be exchanged means that another process is gone."""
    try:
        yield
    except RuntimeError as error:
        raise LeftBehind(
            "another process of this training ended, or could not be reached",
            hint="its own message says why; the same command continues from the last checkpoint",
        ) from error


def _refuse_more_than_devices(processes: int) -> None:
    devices = torch.cuda.device_count()
    if devices and processes > devices:
        raise IsoglossError(
            f"{processes} processes were started here for {amount(devices, 'GPU')}",
            hint=f"start {devices}, or set CUDA_VISIBLE_DEVICES= to train on the CPU",
        )
