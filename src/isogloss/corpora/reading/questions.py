"""Questions with their answers, for the answers task of a dual encoder.

    Where is the station?<TAB>Two streets from here, behind the market.          TSV, with or without a header
    {"question": "Where is the station?", "answer": "Two streets from here."}    JSONL

Files may also be CSV or Parquet, and compressed. There may be further columns with names; without a header there are two. A
question may have several answers, each in a row of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.amounts import amount
from isogloss.corpora.reading.filenames import format_of
from isogloss.corpora.reading.tables import NAMED, read_table
from isogloss.errors import DataError
from isogloss.storage import content_hash

COLUMNS = ("question", "answer")


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Questions and their answers, row by row."""

    questions: list[str]
    answers: list[str]

    def __len__(self) -> int:
        """Number of rows."""
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
        for number, *row in _rows(path):
            for name, text in zip(COLUMNS, row, strict=True):
                if not text:
                    raise DataError(f"{path} line {number}: the {name} is empty", hint="remove the line")
            found.questions.append(row[0])
            found.answers.append(row[1])
        if len(found) == before:
            raise DataError(f"{path}: there are no questions in it", hint="it needs question<TAB>answer, one per line")
    return found


def _rows(path: Path) -> Iterator[tuple[int, str, str]]:
    """The number, the question and the answer of every row."""
    places, width = (0, 1), 0
    for number, cells in read_table(path):
        if not width:
            names = [cell.strip().lower() for cell in cells]
            headed = set(COLUMNS) <= set(names)
            places, width = (
                (names.index(COLUMNS[0]), names.index(COLUMNS[1])) if headed else (0, 1),
                len(cells) if headed else 2,
            )
            if headed:
                continue
            if format_of(path.name) in NAMED:
                raise DataError(
                    f"{path}: its columns are {', '.join(cells)[:200]}", hint=f"name them {COLUMNS[0]} and {COLUMNS[1]}"
                )
        if len(cells) != width:
            raise DataError(
                f"{path} line {number}: {amount(len(cells), 'column')}, expected {width}",
                hint="it needs question<TAB>answer, or a header that names the two",
            )
        yield number, cells[places[0]].strip(), cells[places[1]].strip()
