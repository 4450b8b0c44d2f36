"""The ranking tasks of dual encoders: translations (LaBSE, mUSE) and answers (mUSE), one student for both sides.

`TranslationRanking` is `losses/ranking.py` over pairs of sentences, with the hard negatives of a round before if there are
some (`negatives.py` mines them). `AnswerRanking` is `losses/answers.py` over questions and answers. mUSE trains both, and
inference beside them, by turns (`tasks.TaskSchedule`). Each distinct sentence of a batch is encoded once.

Where translations are all that is trained, `distill` does the same by its own engines, over several processes too.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.losses.answers import answers
from isogloss.losses.ranking import ranking
from isogloss.models.student import Student
from isogloss.models.token_store import Ids, TokenStore
from isogloss.training.batches import Batch, PairRows
from isogloss.training.dev_set import DevScore, DevSet
from isogloss.training.engines.base import TokenCount
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.types import IntArray

TEMPERATURE = 0.05  # as losses.ranking_temperature


class TranslationRanking:
    """Translation ranking over pairs of rows of a token store.

    `negatives` has for each pair the numbers of other pairs whose translations are near and wrong; `margin` is LaBSE's m.
    """

    name = "translation"
    head = None

    def __init__(
        self,
        student: Student,
        tokens: TokenStore,
        pairs: PairRows,
        negatives: IntArray | None = None,
        margin: float = 0.0,
        temperature: float = TEMPERATURE,
    ) -> None:
        self.student, self.tokens, self.pairs, self.negatives = student, tokens, pairs, negatives
        self.margin, self.temperature = margin, temperature

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def prepare(self, chosen: IntArray) -> Batch:
        """The distinct sentences of the chosen pairs and of their negatives."""
        return Batch.of(self.pairs, chosen, self.negatives)

    def loss(self, prepared: Batch) -> Tensor:
        """Cross-entropy of finding translations, plus that of finding sources."""
        vectors = self.student.batch(self.tokens, prepared.rows, None).float()

        def on_device(numbers: IntArray) -> Tensor:
            return torch.from_numpy(numbers).to(vectors.device)

        hard: dict[str, Tensor] = {}
        if self.negatives is not None:
            hard["negatives"] = vectors[on_device(prepared.negative_at)]
            hard["negative_group"] = on_device(prepared.negative_group)
            hard["negative_target_group"] = on_device(prepared.negative_target_group)
        return ranking(
            vectors[on_device(prepared.source_at)],
            vectors[on_device(prepared.target_at)],
            on_device(prepared.group),
            temperature=self.temperature,
            margin=self.margin,
            target_group=on_device(prepared.target_group),
            **hard,
        )

    def tokens_read(self, prepared: Batch) -> tuple[Ids, int]:
        """The tokens of the distinct sentences."""
        return self.tokens.gather(prepared.rows)[0], self.tokens.pad_id

    def load(self, prepared: Batch) -> TokenCount:
        """Tokens of the distinct sentences."""
        return _load(self.student, self.tokens, prepared.rows)


class AnswerHead(nn.Module):
    """What answers go through and questions do not: two layers of the student's width, tanh between them."""

    def __init__(self, dimension: int, seed: int = 17) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(nn.Linear(dimension, dimension), nn.Tanh(), nn.Linear(dimension, dimension))

    def forward(self, vectors: Tensor) -> Tensor:
        """Vectors of answers, in the place where their questions should look."""
        moved: Tensor = self.layers(vectors)
        return moved


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Distinct sentences to encode, and the places of questions and answers among them: equal places are the same text."""

    rows: IntArray
    question_at: IntArray
    answer_at: IntArray


class AnswerRanking:
    """Question-answer ranking over pairs of a question (left) and an answer (right)."""

    name = "answers"

    def __init__(self, student: Student, pairs: SentencePairs, head: AnswerHead, temperature: float = TEMPERATURE) -> None:
        self.student, self.pairs, self.temperature = student, pairs, temperature
        self._head = head.to(student.model.device)

    @property
    def head(self) -> nn.Module:
        """The feed-forward layers of the answers."""
        return self._head

    def __len__(self) -> int:
        """Number of questions with an answer."""
        return len(self.pairs)

    def prepare(self, chosen: IntArray) -> Asked:
        """The distinct sentences of the chosen pairs."""
        rows, places = np.unique(np.concatenate([self.pairs.left[chosen], self.pairs.right[chosen]]), return_inverse=True)
        return Asked(rows, places[: len(chosen)], places[len(chosen) :])

    def loss(self, prepared: Asked) -> Tensor:
        """Cross-entropy of finding the answer to each question."""
        vectors = self.student.batch(self.pairs.tokens, prepared.rows, None).float()
        asked, given = (torch.from_numpy(at).to(vectors.device) for at in (prepared.question_at, prepared.answer_at))
        return answers(vectors[asked], self._head(vectors[given]), asked, given, temperature=self.temperature)

    def tokens_read(self, prepared: Asked) -> tuple[Ids, int]:
        """The tokens of the distinct sentences."""
        return self.pairs.tokens.gather(prepared.rows)[0], self.pairs.tokens.pad_id

    def load(self, prepared: Asked) -> TokenCount:
        """Tokens of the distinct sentences."""
        return _load(self.student, self.pairs.tokens, prepared.rows)


class TranslationDev:
    """Dev pairs of a training by tasks: how many translations the student finds as it is now (see `dev.DevSet`)."""

    def __init__(self, student: Student, tokens: TokenStore, pairs: PairRows) -> None:
        self.student, self.tokens, self.pairs = student, tokens, DevSet(pairs, None)

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.pairs)

    def score(self) -> DevScore:
        """Measure with the student itself: an engine of tasks has no one list of sentences."""
        return self.pairs.score(lambda rows: self.student.vectors_of(self.tokens, rows))


def _load(student: Student, tokens: TokenStore, rows: IntArray) -> TokenCount:
    lengths = tokens.lengths_of(rows)
    return TokenCount(int(lengths.sum()), student.tokens_computed(lengths))
