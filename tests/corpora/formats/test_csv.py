"""CSV: what Python's own writer writes comes back, whatever is in the cells; broken quotes cost one line and no more."""

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.formats import csv as our_csv
from isogloss.corpora.formats.csv import _split
from isogloss.corpora.reading.malformed import Faults
from isogloss.corpora.reading.readers import read
from parallel import SOME, complaint, packings, put, rows, sides

CELL = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), max_size=20)
FILLED = CELL.filter(lambda text: text.strip())


def written(table: list[tuple[str, ...]], separator: str, quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=separator, lineterminator="\n", quoting=quoting).writerows(table)  # type: ignore[arg-type]
    return out.getvalue()


@given(
    pairs=st.lists(st.tuples(FILLED, FILLED), max_size=8),
    separator=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_cells_come_back_as_written(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]], separator: str, quoting: int
) -> None:
    path = put(tmp_path_factory.mktemp("x") / "x.csv", written([("en", "de"), *pairs], separator, quoting))
    assert sides(path) == [(source.strip(), target.strip()) for source, target in pairs]


@packings
def test_packed(tmp_path: Path, packing: str) -> None:
    path = put(
        tmp_path / "en-de.csv", written([("source", "target", "score"), *((s, t, "1.5") for s, t in SOME)], ","), packing
    )
    assert sides(path) == SOME


@given(st.text(st.sampled_from('a",'), max_size=30))
def test_splitting_agrees_with_the_csv_module(record: str) -> None:
    ours = next(_split(iter([(1, record)]), ","), (0, [""]))[1]
    theirs = list(csv.reader([record])) if record else [[""]]
    assert ours is None or ours == [cell for row in theirs for cell in row]
    assert (ours is None) == is_open(record)


def is_open(record: str) -> bool:
    """Whether a quoted cell is still open at the end, character by character."""
    state = "start"
    for character in record:
        if state == "quoted":
            state = "closing" if character == '"' else "quoted"
        elif character == '"' and state in ("start", "closing"):
            state = "quoted"
        else:
            state = "start" if character == "," else "plain"
    return state == "quoted"


def test_lines_are_counted_through_cells_of_several(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.csv", 'a,b\n\n"c\nc","d\nd"\ne,f\n')
    assert [(row["source"], row["line"]) for row in rows(path)] == [("a", 1), ("c\nc", 3), ("e", 6)]


@pytest.mark.parametrize(
    "line", ['x""y' * 10, 'c,"d","' + "z" * 40, '"a","b","' + "z" * 40], ids=["doubled", "opened again", "all quoted"]
)
def test_the_work_for_quotes_that_are_never_closed_grows_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """Counted in characters that are looked at for cells, which were up to a thousand times those of the file."""
    looked_at = []
    reader = csv.reader

    def counted(lines: Iterator[str], delimiter: str, strict: bool = False) -> Iterator[list[str]]:
        return reader(map(look_at, lines), delimiter=delimiter, strict=strict)

    def look_at(line: str) -> str:
        looked_at.append(len(line))
        return line

    monkeypatch.setattr(csv, "reader", counted)
    text = 'en,de\na,b\nc,"d\n' + f"{line}\n" * 3000
    path = put(tmp_path / "x.csv", text)
    assert len(read(path, on_error="skip")) >= 1
    assert sum(looked_at) < 50 * len(text)


def test_a_record_may_not_take_all_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(our_csv, "MAX_CHARACTERS", 100)
    path = put(tmp_path / "x.csv", 'en,de\na,"' + ("b" * 40 + "\n") * 4 + '"\nc,d\n')
    assert "line 2: a quote is opened and not closed" in complaint(path).message


def test_a_first_line_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "x.csv", "en,de" + ",fr" * 10_000 + "\na,b\n")
    assert "line 1: 10,002 columns, more than 10,000" in complaint(path).message


def test_a_quote_that_is_never_closed_costs_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(our_csv, "MAX_LINES", 5)
    path = put(tmp_path / "en-de.csv", "a,b\n" + '"open,c\n' + "".join(f"x{n},y{n}\n" for n in range(20)))
    assert "line 2: a quote is opened and not closed" in complaint(path).message
    faults = Faults("skip")
    assert len(sides(path, faults)) == 21 and faults.count == 1


def test_semicolons_are_seen_in_the_first_line_only(tmp_path: Path) -> None:
    assert sides(put(tmp_path / "en-de.csv", "One;Eins\nTwo, three;Zwei, drei\n")) == [
        ("One", "Eins"),
        ("Two, three", "Zwei, drei"),
    ]
    assert sides(put(tmp_path / "x.csv", "en;de\nOne, two;Eins, zwei\n")) == [("One, two", "Eins, zwei")]
    assert "1 column, expected 2" in complaint(put(tmp_path / "x.csv", "en,de\nOne;Eins\n")).message


def test_a_bad_line_inside_a_record_is_one_fault(tmp_path: Path) -> None:
    path = put(tmp_path / "en-de.csv", b'a,b\n\xff,x\nc,d\n"e,\xfe"\n')
    faults = Faults("skip")
    assert (sides(path, faults), faults.count) == ([("a", "b"), ("c", "d")], 2)
