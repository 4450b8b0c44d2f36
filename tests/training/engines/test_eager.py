"""The eager engine takes the steps of the plainest loop, whatever it saves on the way: rows, memory, repeated sentences."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from isogloss.config import LossSettings
from isogloss.losses.combined import CombinedLoss, LossBatch
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.tasks.distill import TrainingInputs
from isogloss.training.tasks.protocol import ModelTask
from isogloss.types import IntArray
from training.by_hand import (
    ALL_THREE,
    SENTENCES,
    a_student,
    all_pairs,
    an_optimizer,
    descend,
    eager_engine,
    furthest,
    learnt,
    shared_material,
    some_batches,
    some_material,
    unit_teacher,
    views_by_hand,
    weights_of,
)

STEPS = 14


def train(
    student: Student,
    material: TrainingInputs,
    combined: CombinedLoss = ALL_THREE,
    optimizer: OptimizerConfig | None = None,
    batches: list[IntArray] | None = None,
    config: EngineConfig | None = None,
) -> list[dict[str, float]]:
    """All steps, then the student back."""
    engine = eager_engine(student, material, combined, optimizer or an_optimizer(STEPS), config)
    for chosen in batches or some_batches(STEPS):
        engine.step(engine.prepare(chosen))
    told = engine.losses()
    engine.close()
    return told


@pytest.mark.parametrize(
    "combined", [ALL_THREE, CombinedLoss(LossSettings(mse=0.0, ranking=1.0, margin=0.2))], ids=["three", "ranking"]
)
def test_it_follows_the_loop_anybody_would_write(models: Path, combined: CombinedLoss) -> None:
    ours, theirs = a_student(models), a_student(models)
    material = some_material(ours)
    told = train(ours, material, combined)
    expected = descend(theirs, material, combined, an_optimizer(STEPS), some_batches(STEPS))
    for mine, other in zip(told, expected, strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4


@pytest.mark.parametrize("hard", [0, 2])
def test_translations_that_sources_share_are_no_negatives(models: Path, hard: int) -> None:
    ours, theirs, combined = a_student(models), a_student(models), CombinedLoss(LossSettings(mse=0.0, ranking=1.0))
    negatives = np.random.default_rng(4).integers(0, len(all_pairs()), (len(all_pairs()), hard)) if hard else None
    material = shared_material(ours, negatives)
    told = train(ours, material, combined)
    expected = descend(theirs, material, combined, an_optimizer(STEPS), some_batches(STEPS))
    assert [values["ranking"] for values in told] == pytest.approx([values["ranking"] for values in expected], rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4
    with torch.no_grad():
        views = views_by_hand(a_student(models), material, some_batches(1)[0])
        taken_for_wrong = combined(dataclasses.replace(views, target_group=None, negative_target_group=None))["ranking"]
    assert told[0]["ranking"] < float(taken_for_wrong) - 0.01


def test_the_table_alone_is_moved_by_rows_and_lands_where_dense_adamw_would(models: Path) -> None:
    """Most rows are read at few steps; forty steps leave some of them behind for long."""
    ours, theirs, optimizer, batches = (
        a_student(models),
        a_student(models),
        an_optimizer(40, peak=1e-3),
        some_batches(40, size=4),
    )
    engine = eager_engine(ours, some_material(ours), ALL_THREE, optimizer)
    assert engine.table is not None and ours.body.get_input_embeddings().sparse
    for chosen in batches:
        engine.step(engine.prepare(chosen))
    assert len(torch.unique(engine.table.adam.at)) > 3, "rows are at different steps"
    engine.close()
    assert not ours.body.get_input_embeddings().sparse
    descend(theirs, some_material(theirs), ALL_THREE, optimizer, batches)
    name = next(name for name, one in ours.model.named_parameters() if one is ours.table)
    table, start = ours.table.detach(), a_student(models).table.detach()
    dense = dict(theirs.model.named_parameters())[name].detach()
    assert (table - dense).abs().max() < 5e-5 < 1e-2 < (table - start).abs().max()
    unread = torch.ones(len(table), dtype=torch.bool)
    unread[torch.from_numpy(np.unique(some_material(ours).tokens.ids)).long()] = False
    kept = math.prod(1 - rate * optimizer.weight_decay for rate in optimizer.rates)
    assert unread.any() and torch.allclose(table[unread], kept * start[unread], atol=1e-7), "what no batch reads decays too"


def test_padding_that_a_body_gives_a_gradient_of_zeros_is_up_to_date(models: Path) -> None:
    """A table that does not know its padding row hands it a gradient, though nothing reads it."""
    ours, theirs, batches = a_student(models), a_student(models), some_batches(12)
    for student in (ours, theirs):
        student.body.get_input_embeddings().padding_idx = None
        student.table.data[some_material(student).tokens.pad_id] = 1.0
    lengths, pairs = some_material(ours).tokens.lengths, all_pairs()
    even = np.flatnonzero(lengths[pairs.source] == lengths[pairs.target])[:1]
    batches[3:10] = [even] * 7  # nothing is padded in these, and the row falls behind
    train(ours, some_material(ours), batches=batches)
    descend(theirs, some_material(theirs), ALL_THREE, an_optimizer(STEPS), batches)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4


@pytest.mark.parametrize("dropout", [False, True], ids=["still", "dropout"])
def test_chunks_give_the_gradient_of_the_whole_batch(models: Path, dropout: bool) -> None:
    """GradCache: with dropout the same units must be dropped when the gradient is taken as when the loss was."""
    ours = a_student(models)
    engine = eager_engine(ours, some_material(ours), ALL_THREE, an_optimizer(3), EngineConfig(chunk_pairs=2, dropout=dropout))
    (part,) = engine.prepare(some_batches(1, size=11)[0])
    ours.model.train(dropout)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    in_all = float(engine._backward(part, 1.0)["loss"].detach())
    after = torch.get_rng_state()
    in_chunks = {name: one.grad.to_dense() for name, one in engine.parameters.items() if one.grad is not None}
    for parameter in engine.parameters.values():
        parameter.grad = None
    torch.set_rng_state(before)
    rows, task = part.batch.rows, part.task
    assert not isinstance(task, ModelTask)
    vectors = torch.cat([engine._encode(task, rows[start : start + 4]) for start in range(0, len(rows), 4)])
    whole = engine._losses_of(task, vectors, part)
    whole["loss"].backward()  # type: ignore[no-untyped-call]
    assert torch.equal(torch.get_rng_state(), after), "what is drawn next does not depend on the second pass"
    assert in_all == pytest.approx(float(whole["loss"].detach()), rel=1e-5)
    assert len(in_chunks) == len(engine.parameters)
    for name, one in engine.parameters.items():
        assert one.grad is not None
        assert torch.allclose(in_chunks[name], one.grad.to_dense(), atol=1e-5), name
    engine.close()


def test_chunks_lead_to_the_same_weights(models: Path) -> None:
    ours, theirs = a_student(models), a_student(models)
    assert train(ours, some_material(ours), config=EngineConfig(chunk_pairs=2))[-1] == pytest.approx(
        train(theirs, some_material(theirs))[-1], rel=1e-3
    )
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4


def test_dropout_is_used_while_training_and_never_after(models: Path) -> None:
    ours, theirs = a_student(models), a_student(models)
    torch.manual_seed(0)
    assert train(ours, some_material(ours), config=EngineConfig(dropout=True))[0] != train(theirs, some_material(theirs))[0]
    assert not any(module.training for module in ours.model.modules())
    assert np.array_equal(ours.encode(SENTENCES[:4]), ours.encode(SENTENCES[:4]))


def test_lars_trains_every_matrix(models: Path) -> None:
    ours = a_student(models)
    told = train(ours, some_material(ours), optimizer=an_optimizer(STEPS, peak=3.0, optimizer="lars"))
    assert math.isfinite(told[-1]["loss"])
    start = weights_of(a_student(models))
    for name, one in weights_of(ours).items():
        assert torch.isfinite(one).all() and not (one.ndim > 1 and torch.equal(one, start[name])), name


def test_bf16_is_near_single_precision(models: Path) -> None:
    ours, theirs = a_student(models), a_student(models)
    rough = train(ours, some_material(ours), config=EngineConfig(bf16=True))
    exact = train(theirs, some_material(theirs))
    assert rough[0]["loss"] == pytest.approx(exact[0]["loss"], rel=0.05) and rough[0] != exact[0]
    assert {parameter.dtype for parameter in ours.model.parameters()} == {torch.float32}


def test_a_loss_that_is_not_finite_changes_nothing(models: Path) -> None:
    ours = a_student(models)
    material = some_material(ours)
    engine = eager_engine(ours, material, ALL_THREE, an_optimizer(STEPS))
    batches = some_batches(4)
    engine.step(engine.prepare(batches[0]))
    before = engine.weights()
    broken = material.teacher
    assert broken is not None
    broken[:] = np.nan
    engine.step(engine.prepare(batches[1]))
    last = engine.losses()[-1]
    assert math.isnan(last["loss"]) and math.isnan(last["gradient_norm"])
    engine.step_at = 1  # the step was not taken, so nothing is due for it
    assert furthest(before, engine.weights()) == 0.0 and engine.is_finite()
    engine.close()


def test_broken_weights_are_not_sound(models: Path) -> None:
    ours = a_student(models)
    engine = eager_engine(ours, some_material(ours), ALL_THREE, an_optimizer(STEPS))
    assert engine.is_finite()
    ours.model[-2].linear.bias.data[0] = torch.inf
    assert not engine.is_finite()
    engine.close()


def test_hard_negatives_enter_the_ranking_loss(models: Path) -> None:
    combined, pairs = CombinedLoss(LossSettings(mse=0.0, ranking=1.0)), all_pairs()
    random = np.random.default_rng(4)
    negatives = random.integers(0, len(pairs), (len(pairs), 2))
    ours, theirs, without = a_student(models), a_student(models), a_student(models)
    told = train(ours, some_material(ours, negatives), combined)
    expected = descend(theirs, some_material(theirs, negatives), combined, an_optimizer(STEPS), some_batches(STEPS))
    assert [values["ranking"] for values in told] == pytest.approx([values["ranking"] for values in expected], rel=1e-3)
    assert furthest(learnt(ours), learnt(theirs)) < 1e-4
    assert told[0]["ranking"] > train(without, some_material(without), combined)[0]["ranking"] + 0.01, "more to tell apart"


def test_stopped_in_the_middle_it_goes_on_to_the_same_weights(models: Path, tmp_path: Path) -> None:
    config, batches = EngineConfig(dropout=True), some_batches(STEPS)

    def new() -> tuple[Student, EagerEngine]:
        student = a_student(models)
        return student, eager_engine(student, some_material(student), ALL_THREE, an_optimizer(STEPS), config)

    def take(engine: EagerEngine, first: int, last: int) -> None:
        for chosen in batches[first:last]:
            engine.step(engine.prepare(chosen))

    torch.manual_seed(3)
    whole, engine = new()
    take(engine, 0, STEPS)
    engine.close()
    torch.manual_seed(3)
    _, cut = new()
    take(cut, 0, 6)
    torch.save(cut.state_dict(), tmp_path / "state.pt")
    take(cut, 6, 8)
    torch.manual_seed(99)
    student, continued = new()
    continued.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    take(continued, 6, STEPS)
    continued.close()
    assert furthest(weights_of(whole), weights_of(student)) == 0.0


def test_weights_of_an_earlier_step_are_what_the_student_was_then(models: Path) -> None:
    ours, short, batches = a_student(models), a_student(models), some_batches(STEPS)
    engine = eager_engine(ours, some_material(ours), ALL_THREE, an_optimizer(STEPS))
    for step, chosen in enumerate(batches):
        if step == 6:
            kept = engine.weights()
        engine.step(engine.prepare(chosen))
    engine.load_weights(kept)
    engine.close()
    train(short, some_material(short), batches=batches[:6])
    assert furthest(weights_of(ours), weights_of(short)) < 1e-6, "nothing that was still due is added to them"


@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_a_static_student_is_its_table(models: Path, clip: float) -> None:
    def new() -> Student:
        student = static_student(a_student(models).tokenizer, 16, max_tokens=32, seed=1)
        student.add_normalization()
        return student

    ours, theirs, optimizer = new(), new(), an_optimizer(STEPS, clip=clip)
    told = train(ours, some_material(ours), optimizer=optimizer)
    assert list(dict(ours.model.named_parameters())) == ["0.embedding.weight"]
    table = ours.table.detach()
    adamw = torch.optim.AdamW([theirs.model[0].embedding.weight], lr=1.0, weight_decay=optimizer.weight_decay)
    material, losses = some_material(theirs), []
    for rate, chosen in zip(optimizer.rates, some_batches(STEPS), strict=True):
        loss = ALL_THREE(static_views(theirs, material, chosen))["loss"]
        adamw.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_([theirs.table], clip or torch.inf)
        adamw.param_groups[0]["lr"] = rate
        adamw.step()
        losses.append(float(loss.detach()))
    assert [values["loss"] for values in told] == pytest.approx(losses, rel=1e-4)
    assert (table - theirs.table.detach()).abs().max() < 1e-5


def static_views(student: Student, material: TrainingInputs, chosen: IntArray) -> LossBatch:
    """Vectors by definition: the mean of the rows, at length 1."""

    def vectors(rows: IntArray) -> torch.Tensor:
        means = [student.table[torch.from_numpy(material.tokens.row(int(row)).astype(np.int64))].mean(0) for row in rows]
        return torch.nn.functional.normalize(torch.stack(means), dim=1)

    source, target = material.pairs.source[chosen], material.pairs.target[chosen]
    teacher = torch.from_numpy(unit_teacher()[source].astype(np.float32))
    return LossBatch(vectors(source), vectors(target), teacher, torch.from_numpy(source), target_group=torch.from_numpy(target))


def test_vectors_are_up_to_date_when_they_are_measured(models: Path) -> None:
    ours = a_student(models)
    material = some_material(ours)
    engine = eager_engine(ours, material, ALL_THREE, an_optimizer(STEPS))
    for chosen in some_batches(5, size=4):
        engine.step(engine.prepare(chosen))
    engine.synchronize()
    seen = ours.vectors_of(material.tokens, np.arange(len(SENTENCES)))
    engine.close()
    assert np.allclose(seen, ours.encode(SENTENCES), atol=1e-6)
    with torch.no_grad():
        by_hand = views_by_hand(ours, material, np.array([3]))
    assert np.allclose(seen[all_pairs().target[3]], by_hand.target[0].numpy(), atol=1e-5)
