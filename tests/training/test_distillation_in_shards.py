"""Distillation of more pairs than fit into memory: they are drawn in shards."""

from pathlib import Path

import numpy as np
import pytest

from isogloss.config import BridgeSettings, LossSettings, Recipe, TrainingSettings
from isogloss.models.encoder import load
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.training import distillation
from isogloss.training.distillation import Distillation, distill
from isogloss.types import Bitext
from training.by_hand import same, weights_of

SOME_DEV = TrainingSettings(epochs=2, batch_pairs=8, checkpoint_seconds=0.0, dev_pairs=4, dev_share=0.5)


@pytest.fixture
def in_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if two dozen pairs were a million."""
    monkeypatch.setattr(distillation, "SHARD", 24)


@pytest.mark.usefixtures("in_shards")
@pytest.mark.parametrize("batch_tokens", [0, 150])
def test_in_shards_all_but_the_dev_pairs_are_drawn_once_an_epoch(models: Path, bitext: Bitext, batch_tokens: int) -> None:
    settings = SOME_DEV.replace(batch_tokens=batch_tokens)
    student = Student.from_pretrained(str(models / "student"))
    session = Distillation(student, load(str(models / "teacher")), bitext, Recipe(training=settings))
    whole, schedule = session.data.pairs, session._schedule()
    assert session.pairs is whole and session.dev is not None and len(session.dev) == len(session.left_out) == 8
    drawn = np.concatenate([schedule.examples(step) for step in range(schedule.steps)])
    times = np.bincount(drawn, minlength=len(whole))
    assert times[session.left_out].sum() == 0 and set(np.delete(times, session.left_out)) == {2}
    assert not set(whole.source[drawn]) & set(session.dev.source)


@pytest.mark.usefixtures("in_shards")
@pytest.mark.parametrize(("most", "seed"), [(100, 17), (12, 17), (7, 1), (7, 2), (7, 3), (7, 4)])
def test_in_shards_the_bridge_is_solved_without_dev_pairs(models: Path, bitext: Bitext, most: int, seed: int) -> None:
    settings = Recipe(seed=seed, training=SOME_DEV, bridge=BridgeSettings.model_construct(max_pairs=most))
    session = Distillation(Student.from_pretrained(str(models / "student")), load(str(models / "teacher")), bitext, settings)
    chosen, dev = session._bridge_pairs, session.dev
    assert dev is not None and not set(chosen.source) & set(dev.source)
    pairs = set(zip(chosen.source.tolist(), chosen.target.tolist(), strict=True))
    assert len(pairs) == len(chosen) == min(most, len(session.pairs) - len(dev))


@pytest.mark.usefixtures("in_shards")
def test_in_shards_negatives_are_numbers_of_pairs_that_are_trained_on(models: Path, bitext: Bitext) -> None:
    mined = Recipe(training=SOME_DEV, losses=LossSettings(ranking=1.0, hard_negatives=2))
    session = Distillation(Student.from_pretrained(str(models / "student")), load(str(models / "teacher")), bitext, mined)
    assert session.dev is not None and not set(session.pairs.source) & set(session.dev.source)
    assert session._schedule().pairs == 2 * len(session.pairs) == 2 * (len(session.data.pairs) - len(session.dev))
    session.build_bridge()
    assert session.train().steps_now > 0


@pytest.mark.usefixtures("in_shards")
def test_in_shards_it_learns_and_continues_to_the_same_weights(models: Path, bitext: Bitext, tmp_path: Path) -> None:
    teacher, whole, continued = (
        load(str(models / "teacher")),
        *(Student.from_pretrained(str(models / "student")) for _ in range(2)),
    )
    summary = distill(whole, teacher, bitext, Recipe(training=SOME_DEV), folder=tmp_path / "whole")
    assert summary.steps == 2 * 7 and summary.dev["dev_retrieval"] > 0

    def stop(step: Step) -> None:
        if step.values.get("step") == 10:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        distill(
            Student.from_pretrained(str(models / "student")),
            teacher,
            bitext,
            Recipe(training=SOME_DEV),
            tmp_path / "cut",
            on_progress=stop,
        )
    again = distill(continued, teacher, bitext, Recipe(training=SOME_DEV), folder=tmp_path / "cut")
    assert again.steps_now == 4 and same(weights_of(whole), weights_of(continued))


def test_a_training_in_one_order_is_not_continued_in_another(
    models: Path, bitext: Bitext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = load(str(models / "teacher"))
    distill(Student.from_pretrained(str(models / "student")), teacher, bitext, Recipe(training=SOME_DEV), folder=tmp_path)
    monkeypatch.setattr(distillation, "SHARD", 24)
    assert (
        distill(
            Student.from_pretrained(str(models / "student")), teacher, bitext, Recipe(training=SOME_DEV), folder=tmp_path
        ).steps_now
        > 0
    )
