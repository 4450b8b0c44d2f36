"""The ranking tasks give their losses' loss of vectors that plain sentence-transformers gives, and lower it."""

import numpy as np
import pytest
import torch

from isogloss.losses.answers import answers
from isogloss.losses.ranking import ranking
from isogloss.models.student import Student
from isogloss.training.batches import PairRows
from isogloss.training.dev_set import DevSet, MeasuredBy
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.eager import EagerEngine
from isogloss.training.tasks.protocol import Task
from isogloss.training.tasks.rank import AnswerRanking, answer_head, translation_ranking
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.training.train import TaskSettings, train
from isogloss.types import FloatArray
from tiny import PAIRS
from training.by_hand import task_loss

SPOKEN = [pair for pair in PAIRS if pair.language == "de"]
TEXTS = [pair.source for pair in SPOKEN] + [pair.target for pair in SPOKEN]
NUMBER = np.arange(len(SPOKEN))
ROWS = PairRows(NUMBER, NUMBER + len(SPOKEN), 0 * NUMBER, 0 * NUMBER)
QUESTIONS = [f"who {pair.source.split(' ', 2)[2]}" for pair in SPOKEN]
ANSWERS = [pair.source for pair in SPOKEN]


@pytest.fixture
def student(models: object) -> Student:
    return Student.from_pretrained(f"{models}/student", max_tokens=32, device="cpu")


def vectors(student: Student, texts: list[str]) -> torch.Tensor:
    """By plain sentence-transformers, one at a time."""
    found: FloatArray = student.model.encode(texts, batch_size=1, show_progress_bar=False)
    return torch.from_numpy(found)


def test_translations_cost_what_ranking_says(student: Student) -> None:
    negatives = (NUMBER[:, None] + np.array([1, 2, 3])) % len(NUMBER)
    chosen = np.array([4, 0, 7, 31])
    made = [TEXTS[row] for row in ROWS.source[chosen]], [TEXTS[row] for row in ROWS.target[chosen]]
    hard = negatives[chosen].ravel()
    source, target, wrong = (vectors(student, side) for side in (*made, [TEXTS[row] for row in ROWS.target[hard]]))
    group, text = torch.from_numpy(ROWS.source[chosen]), torch.from_numpy(ROWS.target[chosen])
    more = {
        "negatives": wrong,
        "negative_group": torch.from_numpy(ROWS.source[hard]),
        "negative_target_group": torch.from_numpy(ROWS.target[hard]),
    }
    tokens = student.tokenize(TEXTS)
    for found, given in ((None, {}), (negatives, more)):
        task = translation_ranking(tokens, ROWS, found, margin=0.3, temperature=0.1)
        expected = ranking(source, target, group, temperature=0.1, margin=0.3, target_group=text, **given)
        assert task_loss(student, task, chosen).item() == pytest.approx(expected.item(), rel=1e-4)
        assert len(task) == len(ROWS) and task.head is None
    assert ranking(source, target, group, temperature=0.1, margin=0.3, target_group=text, **more) > 1.01 * ranking(
        source, target, group, temperature=0.1, margin=0.3, target_group=text
    ), "negatives are seen"


def test_answers_cost_what_their_objective_says_behind_their_own_head(student: Student) -> None:
    head = answer_head(student.dimension, seed=3)
    task = AnswerRanking(student, SentencePairs.of(student, QUESTIONS, ANSWERS), head, temperature=0.1)
    chosen = np.array([0, 8, 3, 16, 1])
    asked, given = [QUESTIONS[row] for row in chosen], [ANSWERS[row] for row in chosen]
    assert len(set(asked)) < len(asked), "one question has two answers here"
    question, answer = (torch.tensor([side.index(text) for text in side]) for side in (asked, given))
    with torch.no_grad():
        expected = answers(vectors(student, asked), head(vectors(student, given)), question, answer, temperature=0.1)
        plain = answers(vectors(student, asked), vectors(student, given), question, answer, temperature=0.1)
    found = task_loss(student, task, chosen).item()
    assert found == pytest.approx(expected.item(), rel=1e-4) and found != pytest.approx(plain.item(), rel=1e-3)
    assert task.head is head


def test_gradients_reach_the_student_and_the_head(student: Student) -> None:
    head = answer_head(student.dimension)
    task = AnswerRanking(student, SentencePairs.of(student, QUESTIONS, ANSWERS), head)
    task_loss(student, task, np.arange(8)).backward()  # type: ignore[no-untyped-call]
    assert all(one.grad is not None and one.grad.abs().sum() > 0 for one in head.parameters())
    assert student.table.grad is not None and student.table.grad.abs().sum() > 0


def test_tokens_of_distinct_sentences_are_counted(student: Student) -> None:
    tokens = student.tokenize(TEXTS)
    engine = EagerEngine(student, [translation_ranking(tokens, ROWS)], OptimizerConfig([0.1]))
    twice = np.array([3, 3, 5])
    rows = np.concatenate([ROWS.source[[3, 5]], ROWS.target[[3, 5]]])
    assert engine.step(engine.prepare(twice)).tokens == int(tokens.lengths_of(rows).sum())


@pytest.mark.parametrize("kind", ["translation", "answers", "both"])
def test_training_lowers_the_loss(kind: str, student: Student) -> None:
    pairs = translation_ranking(student.tokenize(TEXTS), ROWS, margin=0.3)
    asked = AnswerRanking(student, SentencePairs.of(student, QUESTIONS, ANSWERS), answer_head(student.dimension))
    named: dict[str, list[Task]] = {"translation": [pairs], "answers": [asked], "both": [pairs, asked]}
    tasks = named[kind]

    def costs() -> list[float]:
        student.model.eval()
        with torch.no_grad():
            return [float(task_loss(student, task, NUMBER)) for task in tasks]

    before = costs()
    train(student, tasks, TaskSettings(steps=40, batch_pairs=20, learning_rate=4e-3, dropout=False))
    for old, new in zip(before, costs(), strict=True):
        assert new < 0.6 * old


def test_dev_pairs_are_measured_with_the_student_itself(student: Student) -> None:
    tokens = student.tokenize(TEXTS)
    dev = MeasuredBy(DevSet(ROWS, None), lambda rows: student.vectors_of(tokens, rows))
    expected = DevSet(ROWS, None).score(lambda rows: vectors(student, [TEXTS[row] for row in rows]).numpy())
    found = dev.score()
    assert found.retrieval == pytest.approx(expected.retrieval) and len(dev) == len(ROWS)


def test_where_as_many_are_found_the_larger_lead_is_better(student: Student) -> None:
    """Two languages, a source with two translations in one of them; by definition, in loops."""
    chosen = [(0, 40, 0), (0, 41, 0), (1, 42, 0), (2, 43, 0), (0, 50, 1), (3, 51, 1)]
    source, target, language = (np.array(column) for column in zip(*chosen, strict=True))
    pairs = PairRows(source, target, 0 * source, language)
    unit = torch.nn.functional.normalize(vectors(student, TEXTS))
    is_main_process = []
    for spoken in (0, 1):
        own = [(s, t) for s, t, one in chosen if one == spoken]
        won = [
            float(unit[s] @ unit[t]) - max(float(unit[s] @ unit[other]) for _, other in own if (s, other) not in own)
            for s, t in own
        ]
        is_main_process.append(sum(won) / len(won))
    found = MeasuredBy(DevSet(pairs, None), lambda rows: student.vectors_of(student.tokenize(TEXTS), rows)).score()
    assert found.lead == pytest.approx(sum(is_main_process) / 2, abs=1e-5)
    score = found.selection_score("")
    assert score.value == found.lead and score.found.sum() == pytest.approx(found.retrieval)
    assert found.values()["dev_lead"] == found.lead and "lead" in found.note()
