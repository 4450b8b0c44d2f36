"""How often a whole run reads the text of its store, and how often it tokenizes a sentence for the student."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from isogloss.config import Recipe
from isogloss.corpora.prepare import prepare
from isogloss.corpora.store import Store
from isogloss.models.token_store import Ids, TextTokenizer
from isogloss.models.vocabulary import coverage, resize
from isogloss.progress import Step
from isogloss.runs.pipeline import run
from isogloss.types import TRAIN, Bitext, IntArray
from tiny import PAIRS, tiny_recipe

MAX_TOKENS = 32  # of the student; the teacher, with the same tokenizer, has 64
TRAINED = [pair for pair in PAIRS if pair.split == TRAIN]
SENTENCES = {text for pair in TRAINED for text in (pair.source, pair.target)}
STUDENTS = {
    "encoder": ("student.trim=corpus",),
    "by alphabet": ("student.trim=alphabet", "student.prompt=query: "),
    "untrimmed": ("student.trim=off",),
    "static": ("student.kind=static", "student.trim=corpus", "student.dimension=8", "training.train_layers=0"),
    "all tasks over pairs": (
        'stage=[{task="bridge"}, {task="distill"}, {task="rank", losses={ranking=1.0}}]',
        "training.train_layers=0",
        "student.trim=corpus",
    ),
}


class Counted:
    """Counts the blocks that are read from stores, and the training sentences that are tokenized for the student."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocks, self.tokenized = Counter[tuple[str, int]](), Counter[str]()
        tables, tokenize, token_rows = Store.tables, TextTokenizer.__call__, resize.token_rows

        def counted_tables(store: Store, *given: Any, **named: Any) -> Iterator[pa.Table]:  # noqa: ANN401
            for table in tables(store, *given, **named):
                self.blocks[table.column("language")[0].as_py(), table.num_rows] += 1
                yield table

        def counted_tokenizer(tokenizer: TextTokenizer, texts: Sequence[str]) -> tuple[Ids, IntArray]:
            if tokenizer.max_tokens == MAX_TOKENS:
                self.tokenized.update(SENTENCES.intersection(texts))
            return tokenize(tokenizer, texts)

        def counted_rows(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:  # noqa: ANN401
            self.tokenized.update(SENTENCES.intersection(texts))
            return token_rows(tokenizer, texts)

        monkeypatch.setattr(Store, "tables", counted_tables)
        monkeypatch.setattr(TextTokenizer, "__call__", counted_tokenizer)
        monkeypatch.setattr(coverage, "token_rows", counted_rows)

    def taken(self) -> tuple[dict[tuple[str, int], int], dict[str, int]]:
        """The counts since the last time."""
        counts = dict(self.blocks), dict(self.tokenized)
        self.blocks.clear()
        self.tokenized.clear()
        return counts


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    prepare(Bitext.of(PAIRS), out=tmp_path / "pairs")
    return tmp_path / "pairs"


def recipe(models: Path, pairs: Path, folder: Path, student: str) -> Recipe:
    # One candidate per language: nearly all training text is new to the teacher and to the student when training reads it.
    return tiny_recipe(models, pairs, folder, "evaluation.max_candidates=1", *STUDENTS[student])


@pytest.mark.parametrize("student", STUDENTS)
def test_a_run_reads_its_text_once_and_tokenizes_each_sentence_once(
    student: str, models: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    run(recipe(models, pairs, tmp_path / "run", student))
    blocks, tokenized = counted.taken()
    # The sample that is measured, training, and the example sentences of the card, for which the first block is enough.
    assert blocks == {("de", 40): 3, ("ru", 40): 2}
    assert tokenized == dict.fromkeys(SENTENCES, 1)
    run(recipe(models, pairs, tmp_path / "run", student))
    blocks, tokenized = counted.taken()
    assert blocks == {("de", 40): 2, ("ru", 40): 1}, "a run that was finished reads no text for training"
    assert tokenized == {}


def test_a_run_that_was_stopped_after_reading_reads_nothing_again(
    models: Path, pairs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(step: Step) -> None:
        if step.stage == "teacher":
            raise KeyboardInterrupt

    counted = Counted(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(recipe(models, pairs, tmp_path / "run", "encoder"), stop)
    assert counted.taken() == ({("de", 40): 2, ("ru", 40): 2}, dict.fromkeys(SENTENCES, 1))
    run(recipe(models, pairs, tmp_path / "run", "encoder"))
    assert counted.taken() == ({("de", 40): 2, ("ru", 40): 1}, {})
