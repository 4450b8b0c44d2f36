"""Training by tasks is the plainest loop there is, goes on after a stop with the same weights, and keeps the best ones."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isogloss.errors import IsoglossError, RecipeError
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.training.dev_set import DevScore
from isogloss.training.engines.base import OptimizerConfig, TokenCount
from isogloss.training.engines.eager import EagerEngine
from isogloss.training.engines.token_table import TableRows
from isogloss.training.schedules import rate_at
from isogloss.training.selection import NOTHING_COUNTED, SelectionScore
from isogloss.training.tasks.sentence_pairs import NLITask, STSTask
from isogloss.training.train import TaskSettings, train
from isogloss.types import IntArray
from training.by_hand import task_loss
from training.every_task import nli_task, sts_task


class Line:
    """The task of fitting y = w · x with one more weight as a head: small enough to be followed by hand."""

    def __init__(self, model: nn.Linear, name: str, slope: float, head: nn.Module | None = None) -> None:
        self.model, self.name, self.head = model, name, head
        self.x = torch.linspace(-1, 1, 12)[:, None]
        self.y = slope * self.x

    def __len__(self) -> int:
        return len(self.x)

    def prepare(self, chosen: IntArray) -> tuple[Tensor, Tensor]:
        return self.x[chosen], self.y[chosen]

    def loss(self, prepared: tuple[Tensor, Tensor]) -> Tensor:
        told: Tensor = self.model(prepared[0])
        told = told if self.head is None else self.head(told)
        return (told - prepared[1]).square().mean()

    def weight(self, prepared: tuple[Tensor, Tensor]) -> float:
        return len(prepared[0])

    def count(self, prepared: tuple[Tensor, Tensor]) -> TokenCount:
        return TokenCount(len(prepared[0]), len(prepared[0]))


def line(value: float = 0.5) -> nn.Linear:
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(value)
        model.bias.fill_(0.1)
    return model


def test_steps_are_those_of_a_plain_loop() -> None:
    """Weighted losses of both tasks, clipped, by AdamW without decay of biases, at the rate of the step."""
    settings = TaskSettings(
        epochs=3, batch_pairs=4, together=True, weights=(1.0, 0.25), learning_rate=0.05, clip_norm=0.5, weight_decay=0.1, seed=2
    )
    model, head = line(), nn.Linear(1, 1, bias=False)
    start = head.weight.detach().clone()
    train(model, [Line(model, "a", 2.0), Line(model, "b", -1.0, head)], settings)

    by_hand, its_head = line(), nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        its_head.weight.copy_(start)
    tasks = [Line(by_hand, "a", 2.0), Line(by_hand, "b", -1.0, its_head)]
    matrices = [by_hand.weight, its_head.weight]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": [by_hand.bias], "weight_decay": 0.0}], lr=0.0
    )
    orders = [[np.random.default_rng([2, task, epoch]).permutation(12) for epoch in range(3)] for task in range(2)]
    for step in range(9):
        optimizer.zero_grad()
        epoch, place = divmod(step, 3)
        for task, weight, order in zip(tasks, (1.0, 0.25), orders, strict=True):
            chosen = order[epoch][4 * place : 4 * place + 4]
            (weight * task.loss(task.prepare(chosen))).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_([*matrices, by_hand.bias], 0.5)
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step, 9, 0.05, round(0.1 * 9), "linear")
        optimizer.step()
    for learnt, wanted in ((model.weight, by_hand.weight), (model.bias, by_hand.bias), (head.weight, its_head.weight)):
        assert torch.allclose(learnt, wanted, rtol=1e-4, atol=1e-6)
    assert not torch.allclose(head.weight, start)


def test_a_head_that_shares_weights_is_trained_once() -> None:
    model = line()
    engine = EagerEngine(model, [Line(model, "a", 1.0, model)], OptimizerConfig([0.1] * 3))
    assert list(engine.parameters) == ["weight", "bias"]
    shared = nn.Sequential(model, nn.Linear(1, 1))
    engine = EagerEngine(model, [Line(model, "a", 1.0, shared)], OptimizerConfig([0.1] * 3))
    assert list(engine.parameters) == ["weight", "bias", "head.0.a.1.weight", "head.0.a.1.bias"]


class Witness:
    """A dev set that writes down the student's token table as it is when it is asked."""

    def __init__(self, student: Student) -> None:
        self.student = student
        self.tables: list[Tensor] = []

    def __len__(self) -> int:
        return 1

    def score(self) -> DevScore:
        self.tables.append(self.student.table.detach().clone())
        return DevScore(float(len(self.tables)), np.zeros(1), lead=float(len(self.tables)))


def test_rows_of_the_table_that_wait_are_where_a_dense_optimiser_has_them_when_they_are_measured(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TaskSettings(epochs=3, batch_pairs=2, learning_rate=1e-3, weight_decay=0.1, dropout=False, dev_checks=4, seed=5)
    seen = []
    for row_wise in (True, False):
        if not row_wise:
            monkeypatch.setattr(TableRows, "of", lambda *_: None)
        student = Student.from_pretrained(str(models / "student"), device="cpu")
        witness = Witness(student)
        task = nli_task(student)
        engine = EagerEngine(student, [task], OptimizerConfig([0.1] * 15))
        assert (engine.table is not None) == row_wise
        engine.close()
        assert not student.body.get_input_embeddings().sparse
        train(student, [task], settings, witness)
        seen.append([*witness.tables, student.table.detach()])
    by_rows, dense = seen
    assert len(by_rows) == len(dense) == 6  # before the first step, four times on the way, and what is left at the end
    for mine, wanted in zip(by_rows, dense, strict=True):
        assert (mine - wanted).abs().max() < 5e-5
    assert (by_rows[-1] - by_rows[0]).abs().max() > 1e-2


class Stop(Exception):
    """A kill, from the progress callback."""


def stopping_at(step: int) -> Callable[[Step], None]:
    def show(one: Step) -> None:
        if one.values.get("step", 0) >= step:
            raise Stop

    return show


SETTINGS = TaskSettings(epochs=2, batch_pairs=4, learning_rate=1e-3, checkpoint_seconds=0.0, seed=5)


def test_a_stopped_training_goes_on_to_the_same_weights(models: Path, tmp_path: Path) -> None:
    """With dropout, two tasks, and a classifier beside the student."""

    def tasks(student: Student) -> tuple[NLITask, STSTask]:
        return nli_task(student), sts_task(student)

    student = Student.from_pretrained(str(models / "student"), device="cpu")
    whole = tasks(student)
    once = train(student, whole, SETTINGS)
    other = Student.from_pretrained(str(models / "student"), device="cpu")
    with pytest.raises(Stop):
        train(other, tasks(other), SETTINGS, None, tmp_path, stopping_at(10), key="x")
    again = Student.from_pretrained(str(models / "student"), device="cpu")
    resumed = tasks(again)
    torch.manual_seed(99)
    summary = train(again, resumed, SETTINGS, None, tmp_path, key="x")
    assert 0 < summary.steps_now < summary.steps == once.steps == 36
    for (name, value), wanted in zip(again.model.state_dict().items(), student.model.state_dict().values(), strict=True):
        assert torch.equal(value, wanted), name
    assert torch.equal(resumed[0].head.weight, whole[0].head.weight)
    third = Student.from_pretrained(str(models / "student"), device="cpu")
    assert train(third, tasks(third), SETTINGS, None, tmp_path, key="x").steps_now == 0
    assert third.fingerprint == student.fingerprint


def test_other_data_settings_or_weights_do_not_go_on_from_a_checkpoint(models: Path, tmp_path: Path) -> None:
    settings = TaskSettings(steps=2, batch_pairs=4, learning_rate=1e-3)
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    train(student, [sts_task(student)], settings, None, tmp_path, key="x")  # and it is another student now

    def fresh() -> Student:
        return Student.from_pretrained(str(models / "student"), device="cpu")

    for model, of, key in [
        (student, settings, "x"),
        (fresh(), settings, "y"),
        (fresh(), TaskSettings(steps=2, batch_pairs=4), "x"),
    ]:
        assert train(model, [sts_task(model)], of, None, tmp_path, key=key).steps_now == 2
    same = fresh()
    assert train(same, [sts_task(same)], settings, None, tmp_path, key="x").steps_now == 0


def test_both_tasks_are_learnt(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    tasks = nli_task(student), sts_task(student)

    def losses() -> list[float]:
        student.model.eval()
        with torch.no_grad():
            return [float(task_loss(student, task, np.arange(len(task)))) for task in tasks]

    before = losses()
    settings = TaskSettings(epochs=6, batch_pairs=8, learning_rate=3e-3, dropout=False)
    train(student, tasks, settings)
    after = losses()
    assert after[0] < 0.5 * before[0] and after[1] < 0.5 * before[1]


def test_half_precision_is_near_single_and_leaves_weights_in_single(models: Path) -> None:
    told = {}
    for precision in ("float32", "bf16"):
        student = Student.from_pretrained(str(models / "student"), device="cpu")
        tasks = nli_task(student), sts_task(student)
        settings = TaskSettings(steps=4, batch_pairs=8, learning_rate=1e-3, dropout=False, precision=precision)
        losses: list[Step] = []
        train(student, tasks, settings, on_progress=losses.append)
        assert all(one.dtype == torch.float32 for one in student.model.parameters())
        told[precision] = losses[-1].values["loss"]
    assert told["bf16"] == pytest.approx(told["float32"], rel=0.05) and told["bf16"] != told["float32"]


class Told:
    """A dev set whose scores are known before."""

    def __init__(self, scores: list[float], weights: Callable[[], float]) -> None:
        self.scores, self.weights = list(scores), weights
        self.seen: list[float] = []

    def __len__(self) -> int:
        return 1

    def score(self) -> "Told":
        self.seen.append(self.weights())
        self.now = self.scores[len(self.seen) - 1]
        return self

    def selection_score(self, select: str) -> SelectionScore:
        return SelectionScore(NOTHING_COUNTED, self.now)

    def values(self) -> dict[str, float]:
        return {"dev": self.now}

    def note(self) -> str:
        return ""


@pytest.mark.parametrize("kept_on_disk", [True, False])
def test_the_best_weights_by_the_dev_set_are_kept(tmp_path: Path, kept_on_disk: bool) -> None:
    model = line()
    dev = Told([0.1, 0.4, 0.9, 0.3], lambda: model.weight.item())
    settings = TaskSettings(epochs=2, batch_pairs=4, learning_rate=0.05, dev_checks=3)
    summary = train(model, [Line(model, "a", 2.0)], settings, dev, tmp_path if kept_on_disk else None)
    assert summary.best_step == 4 and model.weight.item() == dev.seen[2] != dev.seen[3]
    assert summary.dev_before == {"dev": 0.1} and summary.dev == {"dev": 0.9} and not summary.setback


def test_progress_has_the_name_of_the_stage_and_the_losses_of_the_tasks() -> None:
    model, told = line(), []  # type: nn.Linear, list[Step]
    train(model, [Line(model, "a", 2.0), Line(model, "b", 1.0)], TaskSettings(batch_pairs=4), None, None, told.append, "NLI")
    assert {one.stage for one in told} == {"NLI"} and told[-1].finished and told[-1].total == 24
    last = told[-1].values
    assert {"loss", "gradient_norm", "learning_rate"} < set(last) and len({"a", "b"} & set(last)) == 1


def test_a_loss_that_is_not_finite_ends_it_with_a_hint() -> None:
    model = line()
    task = Line(model, "a", 2.0)
    task.y = task.y * math.nan
    with pytest.raises(IsoglossError, match="became nan") as caught:
        train(model, [task], TaskSettings(batch_pairs=4))
    assert "run isogloss doctor" in caught.value.hint


def test_what_does_not_fit_is_refused() -> None:
    model = line()
    tasks = [Line(model, "a", 1.0), Line(model, "b", 1.0)]
    negative = TaskSettings(weights=(1.0, -1.0), together=True)
    for wrong in (TaskSettings(weights=(1.0,)), TaskSettings(batches=(4, 0)), negative):
        with pytest.raises(RecipeError, match="does not fit 2 tasks"):
            train(model, tasks, wrong)
    impossible: list[dict[str, Any]] = [
        {"epochs": 0},
        {"learning_rate": math.nan},
        {"optimizer": "sgd"},
        {"batch_pairs": 0},
        {"seed": -1},
    ]
    for told in impossible:
        with pytest.raises(RecipeError, match=next(iter(told))):
            TaskSettings(**told)
    tasks[1].x = tasks[1].x[:0]
    with pytest.raises(IsoglossError, match="b has no examples"):
        train(model, tasks, TaskSettings())
