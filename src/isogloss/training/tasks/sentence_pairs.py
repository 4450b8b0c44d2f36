"""Tasks over pairs of sentences that one encoder sees apart: inference (`NLITask`) and similarity (`STSTask`).

Every distinct sentence is tokenized once, and encoded once a batch however many of its pairs are in it. `tasks` trains by
them; `cross_encoder` is the model that sees both sentences of a pair together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.losses.nli import Classifier, nli
from isogloss.losses.sts import sts
from isogloss.models.student import Student
from isogloss.models.token_store import Ids, TokenStore
from isogloss.models.tokenizer_checks import refuse_unknown_text
from isogloss.training.engines.base import TokenCount
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
        """Number of pairs."""
        return len(self.left)


@dataclass(frozen=True, slots=True, eq=False)
class PairBatch:
    """Distinct sentences to encode, where the sides of each pair are among them, and what is known of each pair."""

    rows: IntArray
    left_at: Tensor
    right_at: Tensor
    gold: Tensor


class SiamesePairs:
    """What tasks over pairs have in common: choosing, encoding, counting."""

    def __init__(self, student: Student, pairs: SentencePairs, gold: IntArray | FloatArray) -> None:
        self.student, self.pairs, self.gold = student, pairs, gold

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def prepare(self, chosen: IntArray) -> PairBatch:
        """The chosen pairs; a sentence that several of them share is there once."""
        left, right = self.pairs.left[chosen], self.pairs.right[chosen]
        rows, places = np.unique(np.concatenate([left, right]), return_inverse=True)
        left_at, right_at = (torch.from_numpy(part) for part in np.split(places, 2))
        return PairBatch(rows, left_at, right_at, torch.from_numpy(self.gold[chosen]))

    def vectors(self, batch: PairBatch) -> tuple[Tensor, Tensor]:
        """The vectors of both sides of every pair, with gradients."""
        vectors = self.student.batch(self.pairs.tokens, batch.rows, None)
        return vectors[batch.left_at.to(vectors.device)], vectors[batch.right_at.to(vectors.device)]

    def tokens_read(self, batch: PairBatch) -> tuple[Ids, int]:
        """The tokens of its sentences."""
        return self.pairs.tokens.gather(batch.rows)[0], self.pairs.tokens.pad_id

    def load(self, batch: PairBatch) -> TokenCount:
        """Tokens of its sentences."""
        lengths = self.pairs.tokens.lengths_of(batch.rows)
        return TokenCount(int(lengths.sum()), self.student.tokens_computed(lengths))


class NLITask(SiamesePairs):
    """Which relation premise and hypothesis have, told by a classifier over their vectors; labels are 0, 1 and 2."""

    name = "nli"

    def __init__(self, student: Student, pairs: SentencePairs, labels: IntArray, seed: int) -> None:
        super().__init__(student, pairs, labels)
        self.classifier = Classifier(student.dimension, seed).to(student.model.device)

    @property
    def head(self) -> nn.Module:
        """The classifier."""
        return self.classifier

    def loss(self, batch: PairBatch) -> Tensor:
        """Cross-entropy; see `losses.nli`."""
        u, v = self.vectors(batch)
        return nli(u, v, batch.gold.to(u.device), self.classifier)


class STSTask(SiamesePairs):
    """How alike two sentences are: gold scores from 0 to 5."""

    name = "sts"

    def __init__(self, student: Student, pairs: SentencePairs, scores: FloatArray) -> None:
        super().__init__(student, pairs, scores)

    @property
    def head(self) -> None:
        """It needs none."""
        return None

    def loss(self, batch: PairBatch) -> Tensor:
        """Squared error of the cosine; see `losses.sts`."""
        u, v = self.vectors(batch)
        return sts(u, v, batch.gold.to(u.device))
