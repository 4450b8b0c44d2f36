"""Processes that train together: their shares are the batch, their gradients add up to that of one process.

The whole of it, `isogloss launch -n 2 run` against one process, is in `tests/cli/test_launch.py`.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isogloss.cli.launch import LEFT_BEHIND, free_port
from isogloss.errors import IsoglossError
from isogloss.training import distributed
from isogloss.training.distributed import Distributed, LeftBehind


@given(st.integers(0, 60), st.integers(1, 9))
def test_shares_are_the_batch_and_differ_little(pairs: int, size: int) -> None:
    chosen = np.arange(pairs) * 3
    distributed = [Distributed(rank, size) for rank in range(size)]
    shares = [one.share(chosen) for one in distributed]
    assert np.concatenate(shares).tolist() == chosen.tolist()
    assert max(map(len, shares)) == -(-pairs // size)


def test_alone_nothing_is_asked_of_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    distributed = Distributed.here()
    vectors = torch.ones(2, 3, requires_grad=True)
    assert (
        distributed == Distributed()
        and distributed.is_main_process
        and distributed.gathered(vectors, 2) is vectors
        and distributed.agree(0.5) == 0.5
    )
    distributed.add_up([vectors])
    distributed.copy_from_main([vectors])
    distributed.wait()
    with distributed.main_process_first():
        pass
    assert torch.equal(vectors, torch.ones(2, 3))


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    distributed._refuse_more_than_devices(2)
    with pytest.raises(IsoglossError, match="3 processes were started here for 2 GPUs"):
        distributed._refuse_more_than_devices(3)


def test_the_launcher_knows_who_was_left_behind() -> None:
    assert LeftBehind.exit_code == LEFT_BEHIND


TOGETHER = """
import os, sys, time
from pathlib import Path
import torch
from isogloss.training.distributed import Distributed, LeftBehind

torch.set_num_threads(1)
group, folder = Distributed.here(), Path(sys.argv[1])
rank = group.rank
assert (group.rank, group.size) == (int(os.environ["RANK"]), 3) and group.is_main_process == (rank == 0)

# A batch of 7 rows in shares of 3, 3 and 1, a loss of all of them with everybody's rows in it, and a parameter for all.
random = torch.Generator().manual_seed(0)
rows, weight = torch.randn(7, 4, generator=random), torch.randn(4, 4, generator=random)
loss_of = lambda vectors, there: ((vectors @ vectors.T).square() * there[:, None] * there).sum() / there.sum()
alone = weight.clone().requires_grad_()
expected = loss_of(rows @ alone, torch.ones(7))
expected.backward()
mine = weight.clone().requires_grad_()
share = rows[3 * rank : 3 * rank + 3]
vectors = group.gathered(share @ mine, 9)
there = group.gathered(torch.ones(len(share)), 9)
assert vectors.shape == (9, 4) and there.tolist() == [1, 1, 1, 1, 1, 1, 1, 0, 0]
assert torch.allclose(vectors[:7], rows @ weight, atol=1e-6) and not vectors[7:].any()
loss = loss_of(vectors, there)
loss.backward()
assert torch.allclose(loss, expected, rtol=1e-5)
other = torch.full((2, 3), float(rank))
group.add_up([mine.grad, other])
assert torch.allclose(mine.grad, alone.grad, rtol=1e-4, atol=1e-4), (mine.grad, alone.grad)
assert torch.equal(other, torch.full((2, 3), 3.0))
numbers = group.gathered(torch.arange(len(share)) + 10 * rank, 9)
assert numbers.tolist() == [0, 1, 2, 10, 11, 12, 20, 0, 0]
nobody = group.gathered(torch.zeros((0, 4), requires_grad=True) if rank == 2 else share.clone().requires_grad_(), 9)
assert nobody.requires_grad and not nobody[6:].any()

assert group.agree(0.1 + rank) == 0.1
parameters = [torch.nn.Parameter(torch.full((2,), float(rank))), torch.full((1, 2), 5.0 + rank)]
group.copy_from_main(parameters)
assert torch.equal(parameters[0].detach(), torch.zeros(2)) and torch.equal(parameters[1], torch.full((1, 2), 5.0))

with group.main_process_first():
    found = sorted(path.name for path in folder.iterdir())
    assert found == [str(one) for one in range(rank)], found
    time.sleep(0.02)
    (folder / str(rank)).touch()
assert len(list(folder.iterdir())) == 3, "nobody goes on before the last one had its turn"

# One fails in its turn: it ends without waiting, and the others hear of it.
try:
    with group.main_process_first():
        if rank == 1:
            raise ValueError("a full disk")
except ValueError:
    os._exit(40)
except LeftBehind as error:
    assert error.hint
    os._exit(41)
os._exit(0)
"""


def test_three_processes_are_one(tmp_path: Path) -> None:
    (tmp_path / "turns").mkdir()
    told = os.environ | {
        "WORLD_SIZE": "3",
        "LOCAL_WORLD_SIZE": "3",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
    }
    told |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-W", "error::UserWarning:isogloss", "-c", TOGETHER, str(tmp_path / "turns")]
    children = [
        subprocess.Popen(command, env=told | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, stderr=subprocess.PIPE, text=True)
        for rank in range(3)
    ]
    said = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [41, 40, 41], said


@pytest.mark.parametrize("world", ["", "1", "x", "²"])
def test_an_environment_without_a_number_of_processes_is_alone(monkeypatch: pytest.MonkeyPatch, world: str) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    assert Distributed.here().is_main_process


def test_a_process_ends_its_part_before_it_ends() -> None:
    code = """
import atexit, os, torch.distributed as dist
os.environ |= {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
from isogloss.training import distributed
import accelerate

class State:  # of two processes, of which the other one need not be there
    process_index, num_processes = 0, 2
    def __init__(self, **_):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

accelerate.PartialState = State
atexit.register(lambda: print(dist.is_initialized()))
assert distributed.Distributed.here().size == 2 and dist.is_initialized()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n", "what was registered last is called first"
