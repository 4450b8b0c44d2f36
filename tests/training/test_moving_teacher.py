"""A teacher that follows its student: the recurrence written out, over real steps."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from isogloss.config import LossSettings
from isogloss.losses.combined import CombinedLoss
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.training.tasks.distill import DistillTask
from training.by_hand import (
    SENTENCES,
    a_student,
    all_pairs,
    an_optimizer,
    eager_engine,
    encode,
    some_batches,
    some_material,
    unit_teacher,
)

ALONE = CombinedLoss(LossSettings(mse=0.0, moving_teacher=1.0))
STEPS, BASE = 8, 0.6


def new(models: Path, how: EngineConfig | None = None) -> tuple[Student, MovingTeacher, EagerEngine]:
    student = a_student(models, bridged=False)
    live = MovingTeacher(student, STEPS, BASE)
    return student, live, eager_engine(student, some_material(student, teacher=False), ALONE, an_optimizer(STEPS), how, live)


def tokens_of(engine: EagerEngine) -> TokenStore:
    (task,) = engine.tasks
    assert isinstance(task, DistillTask)
    return task.tokens


def parameters(student: Student) -> dict[str, torch.Tensor]:
    return {name: one.detach().double().clone() for name, one in student.model.named_parameters()}


def test_it_is_the_moving_average_of_its_student(models: Path) -> None:
    student, live, engine = new(models)
    expected = parameters(student)
    for step, chosen in enumerate(some_batches(STEPS)):
        engine.step(engine.prepare(chosen))
        tau = 1 - (1 - BASE) * (math.cos(math.pi * step / STEPS) + 1) / 2
        for name, theta in parameters(student).items():
            expected[name] = tau * expected[name] + (1 - tau) * theta
    for name, one in live.state_dict().items():
        assert torch.allclose(one.double(), expected[name], atol=1e-6), name
    far = max(float((expected[name] - theta).abs().max()) for name, theta in parameters(student).items())
    assert far > 1e-3, "it lags behind"


def test_the_loss_is_the_distance_of_translations_to_what_it_says_of_the_source(models: Path) -> None:
    student, live, engine = new(models)
    batches = some_batches(3)
    for chosen in batches[:2]:
        engine.step(engine.prepare(chosen))
    tokens, pairs, chosen = tokens_of(engine), all_pairs(), batches[2]
    with torch.no_grad():
        taught = encode(live.shadow, tokens, pairs.source[chosen])
        told = encode(student, tokens, pairs.target[chosen])
    engine.step(engine.prepare(chosen))
    last = engine.losses()[-1]
    assert last["moving_teacher"] == pytest.approx(float((told - taught).square().sum(1).mean()), rel=1e-4)
    assert last["moving_teacher"] > 0.1


def test_beside_it_a_fixed_teacher_stays_where_it_is(models: Path) -> None:
    student = a_student(models)
    live, both = MovingTeacher(student, STEPS, BASE), CombinedLoss(LossSettings(mse=1.0, moving_teacher=0.5))
    engine = eager_engine(student, some_material(student), both, an_optimizer(STEPS), None, live)
    batches, pairs, tokens = some_batches(3), all_pairs(), tokens_of(engine)
    for chosen in batches[:2]:
        engine.step(engine.prepare(chosen))
    source, target = pairs.source[batches[2]], pairs.target[batches[2]]
    with torch.no_grad():
        shown = [encode(student, tokens, rows) for rows in (source, target)]
        moved, fixed = encode(live.shadow, tokens, source), torch.from_numpy(unit_teacher()[source].astype(np.float32))
    engine.step(engine.prepare(batches[2]))
    last = engine.losses()[-1]
    assert last["mse"] == pytest.approx(float(sum((one - fixed).square().sum(1).mean() for one in shown)), rel=1e-4)
    assert last["moving_teacher"] == pytest.approx(float((shown[1] - moved).square().sum(1).mean()), rel=1e-4)
    assert last["loss"] == pytest.approx(last["mse"] + 0.5 * last["moving_teacher"], rel=1e-5)


def test_the_student_never_sees_a_source(models: Path) -> None:
    _, _, engine = new(models)
    chosen = np.arange(12)
    batch = engine.prepare(chosen)[0].batch
    assert set(batch.rows.tolist()) == set(all_pairs().target[chosen].tolist())
    assert batch.values["group"].tolist() == all_pairs().source[chosen].tolist()


def test_every_row_of_the_table_is_followed_at_every_step(models: Path) -> None:
    student, live, engine = new(models)
    assert engine.table is None, "rows that wait would be followed too late"
    start = student.table.detach().clone()
    for chosen in some_batches(3):
        engine.step(engine.prepare(chosen))
    assert not torch.equal(student.table[-1], start[-1]), "a row that no batch reads decays"
    assert not torch.equal(live.shadow.table[-1], start[-1])


def test_no_gradient_goes_into_it_and_it_has_weights_of_its_own(models: Path) -> None:
    student, live, engine = new(models)
    engine.step(engine.prepare(np.arange(8)))
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in live.shadow.model.parameters())
    assert not live.shadow.model.training
    vectors = live.vectors(tokens_of(engine), np.array([4, 1, 4]))
    assert not vectors.requires_grad and torch.equal(vectors[0], vectors[2])
    with torch.no_grad():
        assert torch.allclose(vectors, encode(live.shadow, tokens_of(engine), [4, 1, 4]), atol=1e-5)
    engine.close()
    assert np.abs(student.encode(SENTENCES[:3]) - live.shadow.encode(SENTENCES[:3])).max() > 1e-5


def test_stopped_in_the_middle_it_is_taken_up_again(models: Path, tmp_path: Path) -> None:
    how, batches = EngineConfig(dropout=True), some_batches(STEPS)
    torch.manual_seed(1)
    _, whole, engine = new(models, how)
    for step, chosen in enumerate(batches):
        if step == 3:
            torch.save(engine.state_dict(), tmp_path / "state.pt")
        engine.step(engine.prepare(chosen))
    _, again, continued = new(models, how)
    continued.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for chosen in batches[3:]:
        continued.step(continued.prepare(chosen))
    assert all(torch.equal(one, again.state_dict()[name]) for name, one in whole.state_dict().items())
