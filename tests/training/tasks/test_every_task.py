"""What holds for every task: stopped anywhere it resumes to the same weights, and several processes train as one does."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isogloss.cli.launch import free_port
from isogloss.models.token_store import Ids
from isogloss.training import distributed
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.eager import EagerEngine, EngineConfig, task_offsets
from isogloss.training.tasks.mlm import Masking
from isogloss.training.train import TaskSettings, train
from isogloss.training.trainer import Callback
from isogloss.types import IntArray
from killed import ended, started
from training.engines.test_eager_parts import InOneProcess
from training.every_task import EVERY_TASK, trained_weights

SETTINGS = TaskSettings(steps=12, batch_pairs=6, learning_rate=1e-3, checkpoint_seconds=0.0, seed=5)


class Stop(Exception):
    """Ends a training from a callback."""


class StopAfter(Callback):
    def __init__(self, step: int, stop: Callable[[], None]) -> None:
        self.step, self.stop = step, stop

    def on_checkpoint(self, step: int, path: Path) -> None:
        assert path.is_file() and path.stem == f"step-{step:08d}"
        if step >= self.step:
            self.stop()


def _raise() -> None:
    raise Stop


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def weights_after(
    name: str, models: Path, folder: Path | None, callbacks: tuple[Callback, ...] = ()
) -> dict[str, torch.Tensor]:
    model, tasks = EVERY_TASK[name](models)
    train(model, tasks, SETTINGS, None, folder, key=name, callbacks=callbacks)
    return trained_weights(model, tasks)


@pytest.mark.parametrize("name", EVERY_TASK)
def test_a_stopped_training_resumes_to_the_same_weights(name: str, models: Path, tmp_path: Path) -> None:
    whole = weights_after(name, models, None)
    with pytest.raises(Stop):
        weights_after(name, models, tmp_path, (StopAfter(5, _raise),))
    torch.manual_seed(99)
    resumed_from: list[int] = []

    class First(Callback):
        def on_step(self, step: int, values: dict[str, float]) -> None:
            resumed_from.append(step)

    resumed = weights_after(name, models, tmp_path, (First(),))
    assert resumed_from == list(range(6, 13)), "the first five steps are not taken again"
    assert whole.keys() == resumed.keys()
    for weight, value in whole.items():
        assert torch.equal(value, resumed[weight]), weight
    start = trained_weights(*EVERY_TASK[name](models))
    assert any(not torch.equal(value, start[weight]) for weight, value in whole.items())


def train_and_kill(models: Path, folder: Path) -> None:
    """In a process of its own."""
    weights_after("by turns", models, folder, (StopAfter(7, _kill),))


def test_after_kill_9_it_resumes_to_the_same_weights(models: Path, tmp_path: Path) -> None:
    assert ended(started(train_and_kill, models, tmp_path)) == -signal.SIGKILL
    whole, resumed = weights_after("by turns", models, None), weights_after("by turns", models, tmp_path)
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


# ── several processes ───────────────────────────────────────────────────────────────────────────────────────────────────


def hide_every_third(self: Masking, ids: Ids, _lengths: IntArray, _random: np.random.Generator) -> tuple[Ids, IntArray]:
    third = ids % 3 == 2
    return np.where(third, self.mask_id, ids).astype(np.int32), np.flatnonzero(third)


@pytest.mark.parametrize("name", EVERY_TASK)
def test_three_processes_take_the_steps_of_one(name: str, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks depend on which sentences stand together; here, for once, on the sentence alone."""
    monkeypatch.setattr(Masking, "hide", hide_every_third)
    size, steps = 3, 5
    alone, tasks = EVERY_TASK[name](models)
    offsets, random = task_offsets(tasks), np.random.default_rng(3)
    # Batches of seven, so that shares differ, and one of two, so that a process has no example.
    batches = [
        offsets[step % len(tasks)] + random.choice(len(tasks[step % len(tasks)]), 2 if step == 3 else 7, replace=False)
        for step in range(steps)
    ]
    optimizer = OptimizerConfig([1e-3] * steps, 0.1, 1.0)

    def take(engine: EagerEngine) -> list[dict[str, float]]:
        for chosen in batches:
            engine.step(engine.prepare(chosen))
        values = engine.losses()
        engine.close()
        return values

    expected = take(EagerEngine(alone, tasks, optimizer))
    made, values = [EVERY_TASK[name](models) for _ in range(size)], [[] for _ in range(size)]  # type: ignore[var-annotated]
    between = InOneProcess(size)
    monkeypatch.setattr(distributed, "dist", between)

    def work(rank: int) -> None:
        values[rank] = take(EagerEngine(*made[rank], optimizer, distributed.Distributed(rank, size), EngineConfig()))

    with ThreadPoolExecutor(size) as threads:
        for job in [threads.submit(between.run, rank, work) for rank in range(size)]:
            job.result()
    wanted = trained_weights(alone, tasks)
    for (model, its_tasks), losses in zip(made, values, strict=True):
        for mine, other in zip(losses, expected, strict=True):
            assert mine == pytest.approx(other, rel=1e-3)
        found = trained_weights(model, its_tasks)
        for weight, value in wanted.items():
            if not weight.endswith("key.bias"):  # its gradient is rounding
                assert (found[weight] - value).abs().max() < 1e-4, weight


TOGETHER = """
import sys
from pathlib import Path
from typing import Any
import torch
from isogloss.training.distributed import Distributed
from isogloss.training.train import TaskSettings, train
from training.every_task import EVERY_TASK, trained_weights

torch.set_num_threads(1)
models, folder, settings = Path(sys.argv[1]), Path(sys.argv[2]), TaskSettings(**eval(sys.argv[3]))
for name in sys.argv[4:]:
    model, tasks = EVERY_TASK[name](models)
    train(model, tasks, settings, None, folder / "work", key=name)
    if Distributed.here().is_main_process:
        torch.save(trained_weights(model, tasks), folder / f"{name}.pt")
"""


def test_train_under_torchrun_gives_the_weights_of_one_process(models: Path, tmp_path: Path) -> None:
    """NLI with its classifier, and ranking whose negatives come from both processes."""
    given: dict[str, Any] = {"steps": 6, "batch_pairs": 7, "learning_rate": 1e-3, "dropout": False, "checkpoint_seconds": 0.0}
    environment = os.environ | {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
    environment |= {"MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    (tmp_path / "work").mkdir()
    names = ["nli", "rank"]
    command = [sys.executable, "-c", TOGETHER, str(models), str(tmp_path), repr(given), *names]
    children = [
        subprocess.Popen(command, env=environment | {"RANK": rank, "LOCAL_RANK": rank}, stderr=subprocess.PIPE, text=True)
        for rank in ("0", "1")
    ]
    errors = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0, 0], errors
    for name in names:
        model, tasks = EVERY_TASK[name](models)
        train(model, tasks, TaskSettings(**given))
        found = torch.load(tmp_path / f"{name}.pt")
        for weight, value in trained_weights(model, tasks).items():
            if not weight.endswith("key.bias"):
                assert (found[weight] - value).abs().max() < 1e-4, weight
        assert any(tmp_path.glob("work/checkpoints-*-eager/step-*.pt"))
