"""Tasks over pairs of sentences that one encoder sees apart: inference (`NLITask`) and similarity (`STSTask`).

Every distinct sentence is tokenized once, and encoded once per batch. `cross_encoder` is the model that reads both sentences of
a pair together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from isogloss.losses.nli import Classifier, nli
from isogloss.losses.sts import sts
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.models.tokenizer_checks import refuse_unknown_text
from isogloss.training.tasks.protocol import SentenceBatch, Tensors
from isogloss.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class SentencePairs:
    """Pairs as two rows each of one tokenized list of distinct sentences."""

    tokens: TokenStore
    left: IntArray
    right: IntArray

    @classmethod
    def of(cls, student: Student, left: Sequence[str], right: Sequence[str]) -> "SentencePairs":
        """Tokenize both sides as the student does it."""
        places = {text: place for place, text in enumerate(dict.fromkeys([*left, *right]))}
        rows = [np.array([places[text] for text in side], dtype=np.int64) for side in (left, right)]
        tokens = student.tokenize(list(places))
        refuse_unknown_text(tokens, student.tokenizer, student.name)
        return cls(tokens, *rows)

    def __len__(self) -> int:
        return len(self.left)


class LabelledPairs:
    """What both tasks share: pairs, and a label or score for each."""

    def __init__(self, student: Student, pairs: SentencePairs, gold: IntArray | FloatArray) -> None:
        self.student, self.pairs, self.gold, self.tokens = student, pairs, gold, pairs.tokens

    def __len__(self) -> int:
        return len(self.pairs)

    def prepare(self, chosen: IntArray) -> SentenceBatch:
        """The chosen pairs; a sentence that several of them share is encoded once."""
        return SentenceBatch.of(
            {"left": self.pairs.left[chosen], "right": self.pairs.right[chosen]}, {"gold": self.gold[chosen]}
        )


class NLITask(LabelledPairs):
    """The relation of premise and hypothesis, by a classifier over their vectors; labels are 0, 1 and 2."""

    name = "nli"

    def __init__(self, student: Student, pairs: SentencePairs, labels: IntArray, seed: int) -> None:
        super().__init__(student, pairs, labels)
        self.head = Classifier(student.dimension, seed).to(student.model.device)

    def loss(self, vectors: Tensors, values: Tensors, weight: Tensor) -> Tensor:
        """Cross-entropy; see `losses/nli.py`."""
        return nli(vectors["left"], vectors["right"], values["gold"], self.head, weight)


class STSTask(LabelledPairs):
    """How similar two sentences are: gold scores from 0 to 5."""

    name, head = "sts", None

    def loss(self, vectors: Tensors, values: Tensors, weight: Tensor) -> Tensor:
        """Squared error of the cosine; see `losses/sts.py`."""
        return sts(vectors["left"], vectors["right"], values["gold"], weight)
