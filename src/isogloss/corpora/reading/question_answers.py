"""Questions with their answers, for the answers task of a dual encoder.

    Where is the station?<TAB>Two streets from here, behind the market.          TSV, with or without a header
    {"question": "Where is the station?", "answer": "Two streets from here."}    JSONL

Files may also be CSV or Parquet, and compressed. There may be further columns with names; without a header there are two. A
question may have several answers, each in a row of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.corpora.reading.tables import read_columns
from isogloss.errors import DataError
from isogloss.storage import content_hash

COLUMNS = ("question", "answer")
HINT = "it needs question<TAB>answer, or columns named question and answer"


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions and their answers, row by row."""

    questions: list[str]
    answers: list[str]

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def hash(self) -> str:
        """Hash of the content."""
        return content_hash(*self.questions, *self.answers)

    def sentences(self) -> list[str]:
        """Every distinct text, in order of first appearance."""
        return list(dict.fromkeys([*self.questions, *self.answers]))


def read_questions(paths: Sequence[str | Path]) -> Questions:
    """The questions and answers of all files. A malformed row raises."""
    found = Questions([], [])
    for path in map(Path, paths):
        before = len(found)
        for place, row in read_columns(path, [(name,) for name in COLUMNS], lambda rows: (0, 1), HINT):
            for name, text in zip(COLUMNS, row, strict=True):
                if not text:
                    raise DataError(f"{place}: the {name} is empty", hint="remove the line")
            found.questions.append(row[0])
            found.answers.append(row[1])
        if len(found) == before:
            raise DataError(f"{path}: there are no questions in it", hint="it needs question<TAB>answer, one per line")
    return found
