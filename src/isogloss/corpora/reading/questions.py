"""Questions with their answers, for the answers task of a dual encoder.

    Where is the station?<TAB>Two streets from here, behind the market.          TSV, with or without a header
    {"question": "Where is the station?", "answer": "Two streets from here."}    JSONL

A header or the keys of an object may name further columns; without a header there are two. Files may be compressed. A question
may have several answers, each in a row of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from isogloss.amounts import amount
from isogloss.corpora.reading.filenames import format_of
from isogloss.corpora.reading.lines import numbered_lines
from isogloss.errors import DataError
from isogloss.shapes import parse_json
from isogloss.storage import content_hash

COLUMNS = ("question", "answer")
Row = tuple[str, str]


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
        rows = _json_rows(path) if format_of(path.name) == "jsonl" else _tab_rows(path)
        for number, row in rows:
            for name, text in zip(COLUMNS, row, strict=True):
                if not text:
                    raise DataError(f"{path} line {number}: the {name} is empty", hint="remove the line")
            found.questions.append(row[0])
            found.answers.append(row[1])
        if len(found) == before:
            raise DataError(f"{path}: there are no questions in it", hint="it needs question<TAB>answer, one per line")
    return found


def _tab_rows(path: Path) -> Iterator[tuple[int, Row]]:
    places: tuple[int, int] | None = None
    for number, line in filter(_not_blank, numbered_lines(path)):
        cells = [cell.strip() for cell in line.rstrip("\r\n").split("\t")]
        if places is None:
            names = [cell.lower() for cell in cells]
            headed = all(name in names for name in COLUMNS)
            places = (names.index(COLUMNS[0]), names.index(COLUMNS[1])) if headed else (0, 1)
            wanted = len(cells) if headed else 2
            if headed:
                continue
        if len(cells) != wanted:
            columns = amount(len(cells), "column")
            raise DataError(
                f"{path} line {number}: {columns}, expected {wanted}",
                hint="it needs question<TAB>answer, or a header that names the two",
            )
        yield number, (cells[places[0]], cells[places[1]])


def _json_rows(path: Path) -> Iterator[tuple[int, Row]]:
    for number, line in filter(_not_blank, numbered_lines(path)):
        try:
            found = parse_json(line)
        except ValueError as error:
            raise DataError(f"{path} line {number}: not JSON ({str(error)[:60]})", hint="write one object per line") from error
        question, answer = (found.get(name) if isinstance(found, dict) else None for name in COLUMNS)
        if not isinstance(question, str) or not isinstance(answer, str):
            raise DataError(
                f"{path} line {number}: no question and answer in it", hint='write {"question": "…", "answer": "…"}'
            )
        yield number, (question.strip(), answer.strip())


def _not_blank(numbered: tuple[int, str]) -> bool:
    return bool(numbered[1].strip())
