"""Gradients of a batch's parts, added up: one step, the whole batch's wherever pairs are judged alone."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from isogloss.config import LossSettings, Recipe, TrainingSettings
from isogloss.errors import RecipeError
from isogloss.losses.combined import CombinedLoss
from isogloss.models.encoder import load
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.training import distributed as distributed
from isogloss.training.distillation import distill
from isogloss.training.engines.base import TokenCount
from isogloss.training.engines.eager import EagerEngine, EngineConfig, set_training_mode
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.training.tasks.distill import TrainingInputs
from isogloss.types import Bitext, IntArray
from training.by_hand import (
    ALL_THREE,
    a_student,
    all_pairs,
    an_optimizer,
    descend,
    eager_engine,
    furthest,
    in_parts,
    learnt,
    shared_material,
    some_batches,
    some_material,
    weights_of,
)

STEPS = 6
RANKING = CombinedLoss(LossSettings(mse=0.0, ranking=1.0, spread=0.1))


def take(engine: EagerEngine, batches: list[IntArray]) -> list[TokenCount]:
    return [engine.step(engine.prepare(chosen)) for chosen in batches]


def trained(student: Student, material: TrainingInputs, combined: CombinedLoss, parts: int) -> list[dict[str, float]]:
    """What every step of a whole training cost."""
    engine = eager_engine(student, material, combined, an_optimizer(STEPS), EngineConfig(accumulate=parts))
    take(engine, some_batches(STEPS))
    told = engine.losses()
    engine.close()
    return told


@pytest.mark.parametrize("parts", [3, 50])
def test_for_pairs_that_are_judged_alone_it_is_the_step_of_the_whole_batch(models: Path, parts: int) -> None:
    """Batches of 8 and 5 pairs in parts that differ by one; asked for fifty, each pair is a part."""
    ours, theirs = a_student(models), a_student(models)
    told = trained(ours, some_material(ours), CombinedLoss(LossSettings()), parts)
    expected = descend(theirs, some_material(theirs), CombinedLoss(LossSettings()), an_optimizer(STEPS), some_batches(STEPS))
    for mine, other in zip(told, expected, strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4
    assert furthest(learnt(ours), learnt(a_student(models))) > 1e-2


def test_negatives_are_those_of_the_part(models: Path) -> None:
    ours, theirs, whole = a_student(models), a_student(models), a_student(models)
    negatives = np.random.default_rng(4).integers(0, len(all_pairs()), (len(all_pairs()), 2))
    material = shared_material(ours, negatives)
    told = trained(ours, material, RANKING, 3)
    expected = descend(theirs, material, RANKING, an_optimizer(STEPS), some_batches(STEPS), parts=3)
    for mine, other in zip(told, expected, strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4
    assert told[0]["ranking"] < trained(whole, material, RANKING, 1)[0]["ranking"] - 0.1, "fewer to tell apart"


def test_a_static_table_too(models: Path) -> None:
    def new() -> Student:
        return static_student(a_student(models).tokenizer, 16, max_tokens=32, seed=1)

    ours, theirs = new(), new()
    told, expected = (
        trained(one, some_material(one), CombinedLoss(LossSettings()), parts) for one, parts in ((ours, 3), (theirs, 1))
    )
    assert [values["loss"] for values in told] == pytest.approx([values["loss"] for values in expected], rel=1e-4)
    assert (ours.table - theirs.table).abs().max() < 1e-5


def test_no_part_is_larger_than_it_must_be(models: Path) -> None:
    """What is encoded at once is a part's distinct sentences; one that two parts have is encoded by both."""
    student = a_student(models)
    material, chosen = some_material(student), np.array([0, 1, 2, 0, 1, 2, 0])
    engine = eager_engine(student, material, ALL_THREE, an_optimizer(STEPS), EngineConfig(accumulate=3))
    pairs, lengths = all_pairs(), material.tokens.lengths
    parts = in_parts(chosen, 3)
    sentences = [np.unique([pairs.source[part], pairs.target[part]]) for part in parts]
    prepared = engine.prepare(chosen)
    assert [part.batch.rows.tolist() for part in prepared] == [one.tolist() for one in sentences]
    assert [part.whole for part in prepared] == [3, 2, 2]
    assert engine.step(prepared).tokens == sum(int(lengths[one].sum()) for one in sentences)
    engine.close()


def test_a_live_teacher_follows_once_a_step(models: Path) -> None:
    alone = CombinedLoss(LossSettings(mse=0.0, moving_teacher=1.0))

    def moved(parts: int) -> tuple[Student, MovingTeacher]:
        student = a_student(models, bridged=False)
        live = MovingTeacher(student, STEPS, 0.6)
        material = some_material(student, teacher=False)
        engine = eager_engine(student, material, alone, an_optimizer(STEPS), EngineConfig(accumulate=parts), live)
        take(engine, some_batches(STEPS))
        engine.close()
        return student, live

    (ours, teacher), (theirs, expected) = moved(3), moved(1)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4
    assert furthest(learnt(teacher.shadow), learnt(expected.shadow)) < 1e-4


def test_a_part_that_is_not_finite_moves_nothing(models: Path) -> None:
    student = a_student(models)
    material = some_material(student)
    assert material.teacher is not None
    engine = eager_engine(student, material, ALL_THREE, an_optimizer(STEPS), EngineConfig(accumulate=2))
    before, chosen = weights_of(student), np.arange(8)
    material.teacher[all_pairs().source[chosen[-1]]] = np.nan
    take(engine, [chosen])
    assert np.isnan(engine.losses()[0]["gradient_norm"]) and furthest(before, weights_of(student)) == 0.0
    engine.step_at = 0  # the step was not taken
    engine.close()


def test_stopped_in_the_middle_it_goes_on_to_the_same_weights(models: Path, tmp_path: Path) -> None:
    batches = some_batches(STEPS)

    def new() -> tuple[Student, EagerEngine]:
        student = a_student(models)
        config = EngineConfig(dropout=True, accumulate=3)
        return student, eager_engine(student, some_material(student), ALL_THREE, an_optimizer(STEPS), config)

    torch.manual_seed(3)
    whole, engine = new()
    take(engine, batches)
    engine.close()
    torch.manual_seed(3)
    _, cut = new()
    take(cut, batches[:4])
    torch.save(cut.state_dict(), tmp_path / "state.pt")
    torch.manual_seed(99)
    student, continued = new()
    continued.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    take(continued, batches[4:])
    continued.close()
    assert furthest(weights_of(whole), weights_of(student)) == 0.0


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        (TrainingSettings(accumulate=2, chunk_pairs=4), "both split a batch"),
        (TrainingSettings(accumulate=9, batch_pairs=8), "more parts than training.batch_pairs = 8 has pairs"),
    ],
)
def test_parts_that_cannot_be_are_refused(settings: TrainingSettings, complaint: str) -> None:
    with pytest.raises(RecipeError, match=complaint) as caught:
        Recipe(training=settings)
    assert caught.value.hint


def test_parts_that_can_be_are_not_refused() -> None:
    """A batch by tokens has as many pairs as fit, and as few parts as it has pairs."""
    for settings in (TrainingSettings(accumulate=8, batch_pairs=8), TrainingSettings(accumulate=99, batch_tokens=500)):
        assert Recipe(training=settings).training.accumulate == settings.accumulate


def test_a_recipe_with_parts_and_batches_by_tokens_trains_as_one_without(models: Path, bitext: Bitext) -> None:
    whole = TrainingSettings(epochs=2, batch_tokens=150, learning_rate=3e-3, dev_pairs=0)
    learnt_by = []
    for settings in (whole, whole.replace(accumulate=3)):
        student = Student.from_pretrained(str(models / "student"))
        distill(student, load(str(models / "teacher")), bitext, Recipe(training=settings))
        learnt_by.append(learnt(student))
    assert furthest(*learnt_by) < 1e-3
    assert furthest(learnt_by[0], learnt_by[1]) > 0, "parts are added up in another order"


# ── several processes ───────────────────────────────────────────────────────────────────────────────────────────────────


class InOneProcess:
    """What `torch.distributed` is asked for, between threads that take turns: who waits for the others lets them work.

    `test_distributed` has processes of their own; starting them here would take longer than all other tests of this file.
    """

    def __init__(self, size: int) -> None:
        self.size, self.turn, self.barrier = size, threading.Lock(), threading.Barrier(size)
        self.told: dict[tuple[int, int], torch.Tensor] = {}
        self.here = threading.local()

    def run(self, rank: int, work: Callable[[int], None]) -> None:
        """One thread's work."""
        self.here.rank, self.here.count = rank, 0
        with self.turn:
            try:
                work(rank)
            except BaseException:
                self.barrier.abort()  # nobody waits for it
                raise

    def everybodys(self, mine: torch.Tensor) -> list[torch.Tensor]:
        self.here.count += 1
        self.told[self.here.count, self.here.rank] = mine.detach().clone()
        self.turn.release()
        self.barrier.wait()
        self.turn.acquire()
        return [self.told[self.here.count, rank] for rank in range(self.size)]

    def all_gather(self, parts: list[torch.Tensor], mine: torch.Tensor) -> None:
        for part, told in zip(parts, self.everybodys(mine), strict=True):
            part.copy_(told)

    def all_reduce(self, tensor: torch.Tensor) -> None:
        tensor.copy_(torch.stack(self.everybodys(tensor)).sum(0))

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        tensor.copy_(self.everybodys(tensor)[source])


def test_several_processes_take_the_steps_of_one(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of 3 and 2 pairs, of which each process has its share, and parts of one, of which all but one have none."""
    size, batches = 3, [*some_batches(4), np.array([3]), np.array([5, 9])]
    optimizer, negatives = (
        an_optimizer(len(batches)),
        np.random.default_rng(4).integers(0, len(all_pairs()), (len(all_pairs()), 1)),
    )
    students, told = [a_student(models) for _ in range(size)], [[] for _ in range(size)]  # type: ignore[var-annotated]
    between = InOneProcess(size)
    monkeypatch.setattr(distributed, "dist", between)

    def work(rank: int) -> None:
        student, config = students[rank], EngineConfig(accumulate=3)
        together = distributed.Distributed(rank, size)
        engine = eager_engine(student, shared_material(student, negatives), ALL_THREE, optimizer, config, distributed=together)
        take(engine, batches)
        told[rank] = engine.losses()
        engine.close()

    with ThreadPoolExecutor(size) as threads:
        for one in [threads.submit(between.run, rank, work) for rank in range(size)]:
            one.result()
    theirs = a_student(models)
    expected = descend(theirs, shared_material(theirs, negatives), ALL_THREE, optimizer, batches, parts=3)
    for student, losses in zip(students, told, strict=True):
        for mine, other in zip(losses, expected, strict=True):
            assert mine == pytest.approx(other, rel=1e-3)
        assert furthest(learnt(student), learnt(theirs)) < 1e-4


def test_lstms_without_dropout_stay_in_training_mode() -> None:
    """CuDNN has no gradients of an LSTM that is in evaluation mode; what drops is turned off all the same."""
    plain, dropping, dropout = nn.LSTM(2, 2), nn.LSTM(2, 2, 2, dropout=0.5), nn.Dropout(0.5)
    whole = nn.ModuleList([plain, dropping, dropout])
    set_training_mode(whole, dropout=False)
    assert (plain.training, dropping.training, dropout.training) == (True, False, False)
    set_training_mode(whole, dropout=True)
    assert plain.training and dropping.training and dropout.training
