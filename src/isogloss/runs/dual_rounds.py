"""The stages of a dual encoder that change its weights, and the text beside the pairs that they read; `dual` is the run."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.corpora.reading.labelled import Labelled, read_nli
from isogloss.corpora.reading.questions import Questions, read_questions
from isogloss.corpora.reading.readers import read_lines
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.models.tokenizer_checks import refuse_unknown_text
from isogloss.progress import OnProgress, silent
from isogloss.runs.dual_settings import DualSettings
from isogloss.runs.labelled_files import labelled_files
from isogloss.runs.record import Metrics
from isogloss.storage import WORK, canonical_json, content_hash
from isogloss.training.batches import PairRows
from isogloss.training.dev_split import split_dev
from isogloss.training.distributed import Distributed
from isogloss.training.hard_negatives import mine_negatives
from isogloss.training.pair_dataset import PairDataset
from isogloss.training.tasks.base import Task, TaskSettings, run_tasks
from isogloss.training.tasks.mlm import MaskedHead, MaskedPairs, MaskedText
from isogloss.training.tasks.rank import AnswerHead, AnswerRanking, TranslationDev, TranslationRanking
from isogloss.training.tasks.sentence_pairs import NLITask, SentencePairs
from isogloss.training.work_files import kept_array
from isogloss.types import FloatArray, IntArray, PairSource

PRETRAIN, MINING = "pretrain", "hard negatives"


@dataclass(frozen=True, slots=True)
class OtherText:
    """What is trained on beside the pairs, read before any model is loaded."""

    nli: Labelled | None
    qa: Questions | None
    mlm: list[str]

    @classmethod
    def read(cls, settings: DualSettings) -> "OtherText":
        """From the files that the settings name."""
        nli = read_nli(labelled_files(settings.nli, "--nli")) if settings.nli else None
        qa = read_questions(settings.qa) if settings.qa else None
        lines = chain.from_iterable(map(read_lines, settings.mlm))
        return cls(nli, qa, list(dict.fromkeys(text for line in lines if (text := line.strip()))))

    @property
    def hash(self) -> str:
        """Names the content."""
        return content_hash(*(one.hash if one is not None else "" for one in (self.nli, self.qa)), *self.mlm)

    def sentences(self) -> list[str]:
        """All of it, for the vocabulary."""
        return [text for one in (self.nli, self.qa) if one is not None for text in one.sentences()] + self.mlm

    def counts(self) -> dict[str, int]:
        """How much there is of each."""
        sizes = {"nli": len(self.nli or ()), "questions": len(self.qa or ()), "text": len(self.mlm)}
        return {name: size for name, size in sizes.items() if size}


class Rounds:
    """The stages that change weights: masked language modelling, then one training after another."""

    def __init__(
        self,
        settings: DualSettings,
        student: Student,
        source: PairSource,
        others: OtherText,
        folder: Path,
        on_progress: OnProgress = silent,
    ) -> None:
        self.settings, self.student, self.others = settings, student, others
        self.folder, self.on_progress = folder, on_progress
        self.work = folder / WORK
        self.data = PairDataset.build(source, student.text_tokenizer, self.work, on_progress)
        refuse_unknown_text(self.data.tokens, student.tokenizer, student.name)
        self.pairs, self.dev_rows = self._without_dev()
        self.dev = TranslationDev(student, self.data.tokens, self.dev_rows) if len(self.dev_rows) else None
        self.summaries: dict[str, Any] = {}

    def _without_dev(self) -> tuple[PairRows, PairRows]:
        """The pairs to train on, and those that weights are chosen by."""
        one, pairs = self.settings, self.data.pairs
        trained, nothing, dev = split_dev(pairs, self.data.source_keys, one.dev_pairs, one.dev_share, one.seed)
        return trained, pairs.where(nothing) if dev is None else dev

    def stages(self) -> Iterator[str]:
        """Go through them; the student is as the stage left it when its name comes."""
        one = self.settings
        if one.mlm or one.tlm:
            self._train(PRETRAIN, self._masked(), self._how(one.pretrain_epochs, one.pretrain_learning_rate), None, "")
            yield PRETRAIN
        again = self.student.model.state_dict() if one.rounds > 1 else {}
        start = {name: value.detach().clone() for name, value in again.items()}
        negatives: IntArray | None = None
        for number in range(1, one.rounds + 1):
            if number > 1:
                negatives = self.negatives()
                self.student.model.load_state_dict(start)
            told = "" if negatives is None else content_hash(np.ascontiguousarray(negatives).tobytes())
            how = self._how(one.epochs, one.learning_rate, one.shares)
            self._train(f"round {number}", self.tasks(negatives), how, self.dev, told)
            yield f"round {number}"

    def tasks(self, negatives: IntArray | None) -> list[Task]:
        """The tasks of a round, with heads that know nothing yet."""
        one, student, others = self.settings, self.student, self.others
        found: list[Task] = [TranslationRanking(student, self.data.tokens, self.pairs, negatives, one.margin, one.temperature)]
        if others.nli is not None:
            pairs = SentencePairs.of(student, others.nli.first, others.nli.second)
            found.append(NLITask(student, pairs, others.nli.labels, one.seed))
        if others.qa is not None:
            asked = SentencePairs.of(student, others.qa.questions, others.qa.answers)
            found.append(AnswerRanking(student, asked, AnswerHead(student.dimension, one.seed), one.temperature))
        return found

    def negatives(self) -> IntArray:
        """For each pair the numbers of others whose translations the student, as it is now, takes for near; kept."""
        one = self.settings
        columns = (self.pairs.source, self.pairs.target, self.pairs.language)
        named = content_hash(self.student.fingerprint, self.data.key, *(np.asarray(part).tobytes() for part in columns))
        name = f"negatives-{content_hash(named, f'{one.hard_negatives} {one.seed}')[:16]}"

        def mine() -> IntArray:
            return mine_negatives(self.pairs, self._vectors, one.hard_negatives, one.seed)

        return kept_array(self.work, name, mine, Distributed.here(), self.on_progress, MINING)

    def _vectors(self, rows: IntArray) -> FloatArray:
        return self.student.vectors_of(self.data.tokens, rows, on_progress=self.on_progress, stage=MINING)

    def _masked(self) -> list[Task]:
        """Masked language modelling over text, over pairs, or both, by one head."""
        one, student = self.settings, self.student
        head = MaskedHead(student.body, one.seed)
        found: list[Task] = []
        if self.others.mlm:
            text = TokenStore.of(self.others.mlm, student.tokenizer, int(student.model.max_seq_length))
            found.append(MaskedText(student, text, head, one.seed))
        if one.tlm:
            found.append(MaskedPairs(student, self.data.tokens, self.pairs, head, one.seed))
        return found

    def _how(self, epochs: int, learning_rate: float, shares: tuple[float, ...] = ()) -> TaskSettings:
        one = self.settings
        return TaskSettings(
            epochs=epochs,
            steps=one.steps,
            batch=one.batch,
            weights=shares,
            learning_rate=learning_rate,
            warmup=one.warmup,
            dropout=one.dropout,
            seed=one.seed,
            dev_checks=one.dev_checks,
            checkpoint_seconds=one.checkpoint_seconds,
        )

    def _train(self, stage: str, tasks: list[Task], how: TaskSettings, dev: TranslationDev | None, negatives: str) -> None:
        one = self.settings
        heard = Metrics(self.folder / f"metrics-{stage.replace(' ', '-')}.jsonl", self.on_progress)
        told = canonical_json([stage, one.margin, one.temperature, one.dev_pairs, one.dev_share, one.pooling, one.max_tokens])
        key = content_hash(self.data.key, self.others.hash, negatives, told)
        summary = run_tasks(self.student, tasks, how, dev, self.work, heard, stage, key)
        self.summaries[stage] = asdict(summary) | {"tasks": {task.name: len(task) for task in tasks}}


def pooled_by(student: Student, how: str) -> None:
    """Let token states become sentence vectors in another way; "" leaves it as it is."""
    from sentence_transformers.sentence_transformer.modules import Pooling

    if how and how != student.pooling:
        student.model[1] = Pooling(int(student.body.config.hidden_size), how).to(student.model.device)
