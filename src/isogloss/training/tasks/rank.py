"""The ranking tasks of dual encoders: translations (LaBSE, mUSE) and answers (mUSE), one student for both sides.

`translation_ranking` is distillation with `losses/ranking.py` alone, with hard negatives (`hard_negatives.py`) if given.
`AnswerRanking` is `losses/answers.py` over questions and answers. mUSE trains both, and inference beside them, by turns.
"""

import torch
from torch import Tensor, nn

from isogloss.config import LossSettings
from isogloss.losses.answers import answers
from isogloss.losses.combined import CombinedLoss
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows
from isogloss.training.tasks.distill import DistillTask, TrainingInputs
from isogloss.training.tasks.protocol import SentenceBatch, Tensors
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.types import IntArray

TEMPERATURE = 0.05  # as losses.ranking_temperature


def translation_ranking(
    tokens: TokenStore,
    pairs: PairRows,
    negatives: IntArray | None = None,
    margin: float = 0.0,
    temperature: float = TEMPERATURE,
) -> DistillTask:
    """Translation ranking over pairs of rows; `margin` is LaBSE's m, `negatives` as in `TrainingInputs`."""
    losses = LossSettings(mse=0.0, ranking=1.0, margin=margin, ranking_temperature=temperature)
    return DistillTask(TrainingInputs(tokens, pairs, None, negatives), CombinedLoss(losses), name="translation")


def answer_head(dimension: int, seed: int = 17) -> nn.Sequential:
    """For answers only: two layers of the student's width with tanh between them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(dimension, dimension), nn.Tanh(), nn.Linear(dimension, dimension))


class AnswerRanking:
    """Question-answer ranking over pairs of a question (left) and an answer (right)."""

    name = "answers"

    def __init__(self, student: Student, pairs: SentencePairs, head: nn.Module, temperature: float = TEMPERATURE) -> None:
        self.pairs, self.temperature, self.tokens = pairs, temperature, pairs.tokens
        self.head = head.to(student.model.device)

    def __len__(self) -> int:
        """Number of questions with an answer."""
        return len(self.pairs)

    def prepare(self, chosen: IntArray) -> SentenceBatch:
        """The chosen questions and answers, each known by its row."""
        question, answer = self.pairs.left[chosen], self.pairs.right[chosen]
        return SentenceBatch.of({"question": question, "answer": answer}, {"question": question, "answer": answer})

    def loss(self, vectors: Tensors, values: Tensors, weight: Tensor) -> Tensor:
        """Cross-entropy of finding the answer to each question."""
        given = self.head(vectors["answer"])
        return answers(vectors["question"], given, values["question"], values["answer"], weight, self.temperature)
