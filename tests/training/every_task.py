"""Every task there is, over tiny models: what tests of resuming, of several processes and of the engines go through."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from isogloss.config import LossSettings
from isogloss.losses.combined import CombinedLoss
from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from isogloss.training.batches import PairRows
from isogloss.training.cross_encoder import CrossEncoder, PairScoring
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.training.tasks.distill import DistillTask
from isogloss.training.tasks.mlm import MaskedHead, MaskedTask, with_mask_token
from isogloss.training.tasks.protocol import Task
from isogloss.training.tasks.rank import AnswerRanking, answer_head, translation_ranking
from isogloss.training.tasks.sentence_pairs import NLITask, SentencePairs, STSTask
from isogloss.training.tasks.translate import PIVOT, SECOND, Decoder, DecoderSizes, Examples, Translation
from judged import judged, rated
from tiny import PAIRS, TEXTS
from training.by_hand import SENTENCES, a_student, all_pairs, some_material

Made = tuple[Student | nn.Module, list[Task]]


def _student(models: Path) -> Student:
    return Student.from_pretrained(str(models / "student"), max_tokens=32, device="cpu")


def nli_task(student: Student) -> NLITask:
    rows = judged(0, 30)
    labels = np.array([("entailment", "neutral", "contradiction").index(row[3]) for row in rows])
    return NLITask(student, SentencePairs.of(student, [row[0] for row in rows], [row[1] for row in rows]), labels, seed=4)


def sts_task(student: Student) -> STSTask:
    pairs = rated()
    return STSTask(student, SentencePairs.of(student, pairs.first, pairs.second), pairs.gold)


def rank_task(student: Student, negatives: int = 2) -> DistillTask:
    count = len(all_pairs())
    wrong = np.random.default_rng(4).integers(0, count, (count, negatives)) if negatives else None
    return translation_ranking(student.tokenize(SENTENCES), all_pairs(), wrong, margin=0.2)


def answers_task(student: Student) -> AnswerRanking:
    german = [pair for pair in PAIRS if pair.language == "de"]
    pairs = SentencePairs.of(student, [f"who {pair.source.split(' ', 2)[2]}" for pair in german], [p.source for p in german])
    return AnswerRanking(student, pairs, answer_head(student.dimension))


def translate_task(dropout: float = 0.1, layers: int = 2) -> Translation:
    """English to German and back, over the tiny pairs."""
    sizes = EncoderSizes(embedding=6, hidden=4, layers=layers, dropout=dropout)
    student = bilstm_student(learn_vocabulary(lambda: [TEXTS], 150), sizes, max_tokens=32)
    german = [pair for pair in PAIRS if pair.language == "de"]
    tokens = student.tokenize([text for pair in german for text in (pair.source, pair.target)])
    count = len(german)
    source = np.concatenate([2 * np.arange(count), 2 * np.arange(count) + 1])
    examples = Examples(source, source ^ 1, np.repeat([SECOND, PIVOT], count))
    decoder_sizes = DecoderSizes(embedding=4, hidden=16, layers=1, language=3, dropout=dropout)
    decoder = Decoder(len(student.table), student.dimension, 2, 0, decoder_sizes)
    return Translation(student, decoder, tokens, examples, end=1)


def _of_student(*tasks_of: Callable[[Student], Task]) -> Callable[[Path], Made]:
    def made(models: Path) -> Made:
        student = _student(models)
        return student, [task_of(student) for task_of in tasks_of]

    return made


def _masked(models: Path) -> Made:
    student = with_mask_token(_student(models))
    tokens, head = student.tokenize(SENTENCES), MaskedHead(student.body)
    pairs: PairRows = all_pairs()
    return student, [MaskedTask(student, tokens, head), MaskedTask(student, tokens, head, pairs)]


def _translate(_models: Path) -> Made:
    task = translate_task()
    return task.student, [task]


def _cross_encoder(models: Path) -> Made:
    encoder, pairs = CrossEncoder.open(str(models / "student"), device="cpu"), rated()
    return encoder.model, [PairScoring(encoder, encoder.tokenize(pairs.first, pairs.second), pairs.gold)]


def _distill(models: Path) -> Made:
    student = a_student(models)
    return student, [DistillTask(some_material(student), CombinedLoss(LossSettings(mse=1.0, soft_similarity=0.2, ranking=0.1)))]


def _bank(models: Path) -> Made:
    student = a_student(models)
    inputs = some_material(student)
    assert inputs.teacher is not None
    inputs = dataclasses.replace(inputs, bank=inputs.teacher.astype(np.float32))
    return student, [DistillTask(inputs, CombinedLoss(LossSettings(mse=1.0, bank_similarity=0.5)), device=student.table.device)]


def _moving(models: Path) -> Made:
    student = a_student(models, bridged=False)
    losses = CombinedLoss(LossSettings(mse=0.0, moving_teacher=1.0))
    return student, [DistillTask(some_material(student, teacher=False), losses, MovingTeacher(student, 16, 0.6))]


EVERY_TASK: dict[str, Callable[[Path], Made]] = {
    "nli": _of_student(nli_task),
    "sts": _of_student(sts_task),
    "rank": _of_student(rank_task),
    "answers": _of_student(answers_task),
    "by turns": _of_student(nli_task, rank_task, answers_task, sts_task),
    "mlm and tlm": _masked,
    "translate": _translate,
    "cross-encoder": _cross_encoder,
    "distill": _distill,
    "bank": _bank,
    "moving teacher": _moving,
}


def trained_weights(model: Student | nn.Module, tasks: Sequence[Task]) -> dict[str, torch.Tensor]:
    """All that training moves: the model's weights and those of the heads."""
    found = dict((model.model if isinstance(model, Student) else model).state_dict())
    for number, task in enumerate(tasks):
        if task.head is not None:
            found |= {f"head {number} {name}": value for name, value in task.head.state_dict().items()}
    return {name: value.detach().clone() for name, value in found.items() if ".pooler." not in name}
