"""The graph engines train every task that can be recorded as the eager engine does, by turns, with heads and dropout."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isogloss.kernels.padded_lstm import bidirectional, max_pooled
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.training.dev_set import DevSet, MeasuredBy
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import Engine, OptimizerConfig
from isogloss.training.engines.choose import choose_engine, why_not_graphs
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.engines.graphs import GraphEngine
from isogloss.training.engines.model_graphs import ModelGraphEngine
from isogloss.training.train import TaskSettings, train
from isogloss.types import IntArray
from training.by_hand import SENTENCES, all_pairs, an_optimizer
from training.every_task import EVERY_TASK, nli_task, trained_weights, translate_task

SENTENCE_TASKS = ["nli", "sts", "rank", "answers", "by turns", "distill"]
STEPS, BATCH = 12, 8


def turns(sizes: list[int], steps: int = STEPS) -> list[IntArray]:
    """Batches of one task after another; every fourth has fewer examples, as the last one of an epoch has."""
    offsets, random = np.concatenate([[0], np.cumsum(sizes)]), np.random.default_rng(3)
    return [
        offsets[step % len(sizes)] + random.choice(sizes[step % len(sizes)], BATCH - 3 * (step % 4 == 3), replace=False)
        for step in range(steps)
    ]


def take(engine: Engine, batches: list[IntArray]) -> list[dict[str, float]]:
    for chosen in batches:
        engine.step(engine.prepare(chosen))
    return engine.losses()


def engine_of(
    student: Student, tasks: Sequence[Any], optimizer: OptimizerConfig, dropout: bool = False, record: bool = False
) -> GraphEngine:
    sizes = [BATCH] * len(tasks)
    return GraphEngine(student, tasks, optimizer, sizes, torch.float32, dropout=dropout, record=record, compiled=False)


def graph_engine(models: Path, name: str, dropout: bool = False) -> tuple[Student, GraphEngine]:
    student, tasks = EVERY_TASK[name](models)
    assert isinstance(student, Student)
    return student, engine_of(student, tasks, an_optimizer(STEPS), dropout)


@pytest.mark.parametrize("name", SENTENCE_TASKS)
def test_its_steps_are_those_of_the_eager_engine(name: str, models: Path) -> None:
    student, engine = graph_engine(models, name)
    batches = turns([len(task) for task in engine.tasks])
    values = take(engine, batches)
    engine.close()
    theirs, tasks = EVERY_TASK[name](models)
    eager = EagerEngine(theirs, tasks, an_optimizer(STEPS))
    for mine, other in zip(values, take(eager, batches), strict=True):
        assert mine == pytest.approx(other, rel=1e-3)
    eager.close()
    wanted, start = trained_weights(theirs, tasks), trained_weights(*EVERY_TASK[name](models))
    for weight, value in trained_weights(student, engine.tasks).items():
        if not weight.endswith("key.bias"):  # its gradient is rounding, of which AdamW makes steps
            assert (value - wanted[weight]).abs().max() < 1e-4, weight
            assert value.ndim < 2 or not torch.equal(value, start[weight]), weight


def test_stopped_in_the_middle_with_dropout_it_resumes_to_the_same_weights(models: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    whole, engine = graph_engine(models, "by turns", dropout=True)
    batches = turns([len(task) for task in engine.tasks])
    take(engine, batches[:5])
    torch.save(engine.state_dict(), tmp_path / "state.pt")
    take(engine, batches[5:])
    engine.close()
    assert not any(module.training for module in whole.model.modules())
    torch.manual_seed(99)
    again, resumed = graph_engine(models, "by turns", dropout=True)
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    take(resumed, batches[5:])
    resumed.close()
    found = trained_weights(again, resumed.tasks)
    assert all(torch.equal(value, found[name]) for name, value in trained_weights(whole, engine.tasks).items())


def test_dropout_is_on_in_steps_and_off_in_measuring(models: Path) -> None:
    """Also that of attention, which the fused projections have to do themselves."""
    losses = {}
    for kind in ("none", "all", "attention"):
        torch.manual_seed(0)
        student, tasks = EVERY_TASK["rank"](models)
        assert isinstance(student, Student)
        if kind == "attention":
            for module in student.body.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
            for layer in student.body.encoder.layer:
                layer.attention.self.dropout.p = 0.5
        optimizer = OptimizerConfig([0.0] * STEPS)
        engine = engine_of(student, tasks, optimizer, dropout=kind != "none")
        losses[kind] = take(engine, turns([len(tasks[0])], 1))[0]["loss"]
        tokens = engine.tasks[0].tokens
        first = student.vectors_of(tokens, np.arange(9))
        assert np.array_equal(first, student.vectors_of(tokens, np.arange(9)))
        engine.close()
        assert np.allclose(first, student.encode(SENTENCES[:9]), atol=1e-5), "and after it the student's own way is back"
    assert len(set(losses.values())) == 3, losses


def test_a_dev_set_measures_what_the_engine_trains(models: Path) -> None:
    student, engine = graph_engine(models, "rank")
    dev = MeasuredBy(DevSet(all_pairs(), None), lambda rows: student.vectors_of(engine.tasks[0].tokens, rows))
    before = dev.score().lead
    take(engine, turns([len(engine.tasks[0])]))
    engine.synchronize()
    during = dev.score().lead
    engine.close()
    assert during == pytest.approx(dev.score().lead, abs=1e-4) and abs(during - before) > 1e-3


def test_what_cannot_be_recorded_is_said(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = Student.from_pretrained(str(models / "student"), max_tokens=32, device="cpu")
    assert why_not_graphs(student, [nli_task(student)], "adamw", Distributed()) == "the model is not on a CUDA device"
    masked, tasks = EVERY_TASK["mlm and tlm"](models)
    bodiless, inference = [translate_task().student, static_student(student.tokenizer, 8)], nli_task(student)
    monkeypatch.setattr(type(student.model), "device", torch.device("cuda"))
    assert why_not_graphs(masked, tasks, "adamw", Distributed()) == "the batches of mlm have no fixed shape"
    for other in bodiless:
        assert "transformer body" in why_not_graphs(other, [inference], "adamw", Distributed())
    assert why_not_graphs(student, [], "lars", Distributed()) == "training.optimizer is not adamw"
    assert why_not_graphs(student, [], "adamw", Distributed(0, 2)) == "several processes train together"
    engine = choose_engine(student, [], OptimizerConfig([0.1]), EngineConfig(engine="eager"), Distributed(0, 1))
    assert isinstance(engine, EagerEngine)


# ── model tasks ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("layers", [1, 3])
def test_an_lstm_over_padded_rows_is_that_over_packed_ones(layers: int) -> None:
    torch.manual_seed(0)
    lstm = nn.LSTM(5, 4, layers, batch_first=True, bidirectional=True, dropout=0.3 if layers > 1 else 0.0).eval()
    lengths, inputs = torch.tensor([3, 7, 1, 6]), torch.randn(4, 9, 5, requires_grad=True)
    packed = nn.utils.rnn.pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    wanted = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True, total_length=9)[0]
    found = bidirectional(lstm, inputs, lengths)
    there = torch.arange(9) < lengths[:, None]
    assert torch.allclose(found[there], wanted[there], atol=1e-6)
    assert torch.equal(max_pooled(found, lengths)[0], found[0, :3].amax(0))
    slopes = [torch.autograd.grad(states[there].square().sum(), [inputs, *lstm.parameters()]) for states in (found, wanted)]
    for mine, other in zip(*slopes, strict=True):
        assert torch.allclose(mine, other, atol=1e-5)


def test_a_translation_batch_of_fixed_shape_costs_the_same() -> None:
    task = translate_task(dropout=0.0)
    chosen = np.array([3, 0, 35, 3, 60])
    tensors, count = task.prepare_fixed(chosen, 8)
    words = {"places", "after"}
    assert {name: len(value) for name, value in tensors.items() if name not in words} == dict.fromkeys({*tensors} - words, 8)
    assert tensors["read"].shape[1] % 16 == tensors["before"].shape[1] % 16 == 0
    assert {len(tensors[name]) % 64 for name in words} == {0}
    assert count.tokens == task.count(task.prepare(chosen)).tokens < count.computed
    parameters = [*task.student.model.parameters(), *task.decoder.parameters()]

    def with_slopes(loss: Tensor) -> tuple[float, tuple[Tensor, ...]]:
        return loss.item(), torch.autograd.grad(loss, parameters)

    (mine, slopes), (other, wanted) = with_slopes(task.loss_fixed(tensors)), with_slopes(task.loss(task.prepare(chosen)))
    assert mine == pytest.approx(other, rel=1e-5)
    for slope, right in zip(slopes, wanted, strict=True):
        assert torch.allclose(slope, right, atol=1e-6)


def model_engine(record: bool = False, device: str = "cpu") -> tuple[Student, ModelGraphEngine]:
    task = translate_task(dropout=0.0)
    task.student.model.to(device)
    task.decoder.to(device)
    return task.student, ModelGraphEngine(task.student, [task], an_optimizer(STEPS), [BATCH], record=record)


def same_as_eager(engine: ModelGraphEngine, student: Student, loose: float) -> None:
    batches = turns([len(engine.tasks[0])])
    values = take(engine, batches)
    engine.close()
    theirs = translate_task(dropout=0.0)
    eager = EagerEngine(theirs.student, [theirs], an_optimizer(STEPS))
    for mine, other in zip(values, take(eager, batches), strict=True):
        assert mine == pytest.approx(other, rel=10 * loose)
    wanted = trained_weights(theirs.student, [theirs])
    for name, value in trained_weights(student, engine.tasks).items():
        assert (value.cpu() - wanted[name]).abs().max() < loose, name


def test_fixed_shapes_take_the_steps_of_the_eager_engine() -> None:
    student, engine = model_engine()
    same_as_eager(engine, student, 1e-4)


def test_with_fixed_shapes_it_resumes_to_the_same_weights(tmp_path: Path) -> None:
    whole, engine = model_engine()
    batches = turns([len(engine.tasks[0])])
    take(engine, batches[:5])
    torch.save(engine.state_dict(), tmp_path / "state.pt")
    take(engine, batches[5:])
    again, resumed = model_engine()
    resumed.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert len(take(resumed, batches[5:])) == len(batches) - 5
    found = trained_weights(again, resumed.tasks)
    assert all(torch.equal(value, found[name]) for name, value in trained_weights(whole, engine.tasks).items())


# ── on a GPU ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.gpu
@pytest.mark.parametrize("dropout", [False, True])
@pytest.mark.parametrize("name", SENTENCE_TASKS)
def test_recorded_tasks_learn(name: str, dropout: bool, models: Path) -> None:
    """Without dropout as operation by operation; with it, differently and to a finite loss."""
    values = []
    for record in (False, True):
        student, tasks = EVERY_TASK[name](models)
        assert isinstance(student, Student)
        student.model.to("cuda")
        for task in tasks:
            if task.head is not None:
                task.head.to("cuda")
        engine = engine_of(student, tasks, an_optimizer(30), dropout, record)
        values.append([losses["loss"] for losses in take(engine, turns([len(task) for task in tasks], 30))])
        if record:
            assert any(step.graph is not None for step in engine.recorder.steps.values())
        engine.close()
    assert np.isfinite(values).all()
    if not dropout:
        assert values[1] == pytest.approx(values[0], rel=2e-2)


@pytest.mark.gpu
def test_a_recorded_replay_drops_other_units_each_time(models: Path) -> None:
    student, tasks = EVERY_TASK["rank"](models)
    assert isinstance(student, Student)
    student.model.to("cuda")
    engine = engine_of(student, tasks, OptimizerConfig([0.0] * 8), dropout=True, record=True)
    values = [losses["loss"] for losses in take(engine, turns([len(tasks[0])], 1) * 8)]
    engine.close()
    assert len(set(values)) == 8


@pytest.mark.gpu
def test_a_recorded_translation_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # the steps on the CPU have no TF32
    student, engine = model_engine(record=True, device="cuda")
    same_as_eager(engine, student, 2e-3)


@pytest.mark.gpu
def test_on_cuda_tasks_are_recorded_unless_told_otherwise(models: Path) -> None:
    for name in ("nli", "translate"):
        student, tasks = EVERY_TASK[name](models)
        assert isinstance(student, Student)
        student.model.to("cuda")
        for task in tasks:
            if task.head is not None:
                task.head.to("cuda")
        train(student, tasks, TaskSettings(steps=6, batch_pairs=BATCH, engine="graphs"))
        assert np.isfinite(student.encode(["the cat runs home."])).all()
