"""Pairs are encoded as sentence-transformers encodes them, each sentence once, and lose what their formulas say."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from isogloss.models.student import Student
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.eager import EagerEngine
from isogloss.training.tasks.sentence_pairs import NLITask, SentencePairs, STSTask
from judged import rated
from training.by_hand import task_loss


@pytest.fixture
def student(models: Path) -> Student:
    return Student.from_pretrained(str(models / "student"), device="cpu")


def test_losses_are_those_of_the_vectors_that_plain_sentence_transformers_gives(student: Student, models: Path) -> None:
    pairs = rated()
    plain = SentenceTransformer(str(models / "student"), device="cpu")
    u, v = (torch.from_numpy(plain.encode(side)) for side in (pairs.first, pairs.second))
    chosen = np.array([3, 17, 4, 3])
    cosines = torch.nn.functional.cosine_similarity(u[chosen], v[chosen])
    wanted = (cosines - torch.from_numpy(pairs.gold[chosen]) / 5).square().mean()
    both = SentencePairs.of(student, pairs.first, pairs.second)
    task = STSTask(student, both, pairs.gold)
    student.model.eval()
    assert task_loss(student, task, chosen).item() == pytest.approx(wanted.item(), rel=1e-4)
    labels = np.arange(len(pairs)) % 3
    inference = NLITask(student, both, labels, seed=1)
    scores = torch.cat([u, v, (u - v).abs()], 1)[chosen] @ inference.head.weight.T
    expected = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels[chosen]))
    assert task_loss(student, inference, chosen).item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_sentence_is_encoded_once_and_counted_once(student: Student) -> None:
    pairs = SentencePairs.of(
        student, ["the cat runs home.", "a child sleeps at night.", "the cat runs home."], 3 * ["a child sleeps at night."]
    )
    assert len(pairs.tokens) == 2 and len(pairs) == 3
    task = STSTask(student, pairs, np.array([1, 5, 2], dtype=np.float32))
    batch = task.prepare(np.array([0, 1, 2]))
    assert batch.rows.tolist() == [0, 1] and batch.values["gold"].tolist() == [1, 5, 2]
    assert batch.at["left"].tolist() == [0, 1, 0] and batch.at["right"].tolist() == [1, 1, 1]
    engine = EagerEngine(student, [task], OptimizerConfig([0.1]))
    counted = engine.step(engine.prepare(np.array([0, 1, 2])))
    assert counted.tokens == int(pairs.tokens.lengths.sum()) <= counted.computed


def test_gradients_reach_the_body_and_the_classifier(student: Student) -> None:
    pairs = rated()
    task = NLITask(student, SentencePairs.of(student, pairs.first, pairs.second), np.arange(len(pairs)) % 3, seed=1)
    task_loss(student, task, np.arange(8)).backward()  # type: ignore[no-untyped-call]
    assert task.head.weight.grad is not None
    table = student.body.get_input_embeddings().weight
    assert table.grad is not None and float(table.grad.abs().sum()) > 0
