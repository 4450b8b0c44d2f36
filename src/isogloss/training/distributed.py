"""The processes that train one model together; usually one.

Each encodes its share of a batch. Vectors are gathered, so that every process computes the loss of the whole batch, and
backward runs through its own vectors only: the gradients of all processes sum to that of the whole batch. accelerate finds
rank and size, under its own launcher, torchrun or a cluster's. `cli/launch.py` starts processes.
"""

import atexit
import os
from collections.abc import Iterator, Sequence
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

PATIENCE = timedelta(days=30)  # others wait for as long as the first one embeds a corpus; the death of one is heard at once


@cache
def _leave_at_exit() -> None:
    """Register `leave`: a process that ends while gloo's threads still run is sometimes aborted after all its work is done."""
    atexit.register(leave)


def leave() -> None:
    """End gloo's part of this process, which asks nothing of the others; NCCL's waits for them, and is left to torch."""
    if dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()


class LeftBehind(IsoglossError):
    """Another process of the same training is gone; whoever started them knows by the exit code that the cause is there."""

    exit_code: ClassVar[int] = 3


@dataclass(frozen=True, slots=True)
class Distributed:
    """How many processes there are and which one this is."""

    rank: int = 0
    size: int = 1

    @classmethod
    def here(cls) -> "Distributed":
        """The processes this one was launched with: none, unless the environment says otherwise."""
        if (whole_number(os.environ.get("WORLD_SIZE")) or 1) <= 1:
            return cls()
        from accelerate import PartialState

        _refuse_more_than_devices(whole_number(os.environ.get("LOCAL_WORLD_SIZE")) or 1)
        with _heard():
            state = PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
        _leave_at_exit()
        return cls(int(state.process_index), int(state.num_processes))

    @property
    def is_main_process(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    def share(self, chosen: IntArray) -> IntArray:
        """The part of a batch that is this process's, in order: all parts have the same length but for the last ones."""
        each = -(-len(chosen) // self.size)
        return chosen[self.rank * each : (self.rank + 1) * each]

    def largest_share(self, pairs: int) -> int:
        """Pairs of the largest part of a batch of this many."""
        return -(-pairs // self.size)

    def gathered(self, mine: Tensor, rows: int) -> Tensor:
        """Everybody's rows, each part filled up to `rows` with zeros; gradients flow into this process's own rows alone."""
        if self.size == 1:
            return mine
        filled = mine.new_zeros((rows, *mine.shape[1:]))
        filled[: len(mine)] = mine.detach()
        parts = [torch.empty_like(filled) for _ in range(self.size)]
        with _heard():
            dist.all_gather(parts, filled)
        own = torch.cat([mine, filled[len(mine) :]])
        return torch.cat([*parts[: self.rank], own, *parts[self.rank + 1 :]])

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by the sum of everybody's, in one message."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _heard():
            dist.all_reduce(flat)
        _put_back(flat, tensors)

    def follow(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by the leading process's: what machines computed apart may differ in the last digit."""
        if self.size == 1 or not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _heard():
            dist.broadcast(flat, 0)
        _put_back(flat, tensors)

    def agree(self, value: float) -> float:
        """The leading process's value, for all: what depends on a clock must not differ."""
        if self.size == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device="cuda" if dist.get_backend() == "nccl" else "cpu")
        with _heard():
            dist.broadcast(shared, 0)
        return float(shared)

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            with _heard():
                dist.barrier()

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """One process after the other, the leading one first: it makes what the others then find.

        All of them must come here, and to nothing shared in between. One that fails in its turn does not wait for the
        others: it ends, and they hear of it.
        """
        for _ in range(self.rank):
            self.wait()
        yield
        for _ in range(self.size - self.rank):
            self.wait()


@contextmanager
def _heard() -> Iterator[None]:
    """A message that does not come through means that somebody is gone."""
    try:
        yield
    except RuntimeError as error:
        raise LeftBehind(
            "another process of this training ended, or could not be reached",
            hint="its own message says why; the same command continues from the last checkpoint",
        ) from error


def _put_back(flat: Tensor, tensors: Sequence[Tensor]) -> None:
    with torch.no_grad():
        for tensor, values in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(values.view_as(tensor))


def _refuse_more_than_devices(processes: int) -> None:
    devices = torch.cuda.device_count()
    if devices and processes > devices:
        raise IsoglossError(
            f"{processes} processes were started here for {amount(devices, 'GPU')}",
            hint=f"start {devices}, or set CUDA_VISIBLE_DEVICES= to train on the CPU",
        )
