"""Processes that are to be ended by kill -9.

They are forked from one that has loaded the libraries already, which takes several times as long as what they do then; it
is started afresh, with no threads or open files of the tests, and ends with them.
"""

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stderr
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import torch

from isogloss import recipes
from isogloss.cli.app import main
from isogloss.cli.screens import progress as screen
from isogloss.config import LossSettings, Recipe, TrainingSettings
from isogloss.corpora.prepare import prepare
from isogloss.models import vector_cache as cache_module
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.progress import OnProgress, Step, silent
from isogloss.runs.pipeline import run
from isogloss.training.distillation import distill
from isogloss.training.trainer import TrainingSummary
from isogloss.types import Bitext, FloatArray
from tiny import PAIRS

LOADED = ["pytest", "sentence_transformers", "isogloss.runs.pipeline"]


def started(task: Callable[..., object], *arguments: object) -> BaseProcess:
    """A process that does `task`, a function of a module beside this one, in this process's environment."""
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(LOADED)
    process = forks.Process(target=_do, args=(dict(os.environ), task, *arguments))
    process.start()
    return process


def ended(process: BaseProcess) -> int:
    """Its exit code, when it has ended."""
    process.join()
    code = process.exitcode
    process.close()
    assert code is not None
    return code


def _do(environment: dict[str, str], task: Callable[..., object], *arguments: object) -> None:
    os.environ.update(environment)
    torch.set_num_threads(1)  # these two as in conftest
    gc.freeze()
    task(*arguments)


def killed_at(stage: str, count: int) -> OnProgress:
    """Kill this process when `stage` reports for the `count`-th time; without a stage, never."""
    seen = 0

    def die(step: Step) -> None:
        nonlocal seen
        seen += step.stage == stage
        if stage and seen >= count:
            os.kill(os.getpid(), signal.SIGKILL)

    return die


def run_until(recipe: Path, stage: str, count: int) -> None:
    """A run that kills itself where `stage` says something for the `count`-th time; without a stage it is finished."""
    run(recipes.load(recipe), killed_at(stage, count))


def signalled(arguments: list[str], stage: str, count: int, number: int, errors: Path) -> None:
    """The command line, sent a signal where `stage` says something for the `count`-th time; standard error goes to a file."""
    seen = 0

    def ask_to_stop(step: Step) -> None:
        nonlocal seen
        seen += step.stage == stage
        if seen == count:
            os.kill(os.getpid(), number)

    screen.progress = lambda: nullcontext(ask_to_stop)  # type: ignore[assignment, return-value]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background ignores it
    with errors.open("w") as handle, redirect_stderr(handle):
        main(arguments)


def text_vectors(texts: Sequence[str]) -> FloatArray:
    """A real function of the texts that takes no time."""
    return np.array([[len(text), sum(map(ord, text)) % 97, 1.0] for text in texts], dtype=np.float32)


class TextVectors:
    """`text_vectors` as an encoder."""

    name, fingerprint, dimension = "model", "model", 3

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        return text_vectors(texts)


def share_cache(folder: Path, seed: int, rounds: int, die_at: int) -> None:
    """Ask one vector cache for texts that others ask for too, and check what it gives; killed in the `die_at`-th round.

    Indexes are merged all the time: a shard a round, and a merge for every second of them.
    """
    os.fsync = lambda fd: None  # as in conftest
    cache_module.NEW_SHARDS, cache_module.NEW_ROWS, cache_module.MERGED_AT_ONCE = 2, 8, 3
    random = np.random.default_rng(seed)
    for number in range(rounds):
        texts = [f"text {one}" for one in random.integers(0, 300, 6)]
        if number == die_at:  # from outside, at whatever it is doing then
            threading.Timer(float(random.uniform(0, 0.01)), os.kill, (os.getpid(), signal.SIGKILL)).start()
        vectors = CachedEncoder(TextVectors(), folder).encode(texts)
        assert np.array_equal(vectors, text_vectors(texts)), texts


def train_for_real(
    models: Path, folder: Path, stage: str = "", count: int = 0
) -> tuple[TrainingSummary, dict[str, torch.Tensor]]:
    """A training with dropout, dev pairs and mined negatives: everything that a continued run could get wrong.

    It kills itself where `stage` reports for the `count`-th time; without a stage it is finished.
    """
    training = TrainingSettings(
        epochs=6,
        batch_pairs=8,
        learning_rate=3e-3,
        dropout=True,
        checkpoint_seconds=0.0,
        dev_pairs=8,
        dev_share=0.2,
        dev_checks=9,
    )
    recipe = Recipe(training=training, losses=LossSettings(ranking=0.2, hard_negatives=1))
    student = Student.from_pretrained(str(models / "student"), max_tokens=32, device="cpu")
    pairs = prepare(Bitext.of(PAIRS)).bitext
    teacher = load(str(models / "teacher"), device="cpu")
    summary = distill(student, teacher, pairs, recipe, folder, on_progress=killed_at(stage, count))
    return summary, {name: one.clone() for name, one in student.model.state_dict().items()}
