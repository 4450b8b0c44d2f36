"""How a preparation is told: what was left out in reading, by rules and for leaks; standard input by its name."""

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from isogloss.cli.app import main

Prepare = Callable[..., tuple[int, str, str]]
ENTRIES = 'msgid "Where is the cat?"\nmsgstr "Wo ist die Katze?"\n\n#, fuzzy\nmsgid "A guess"\nmsgstr "Raten"\n'
PAIRS = "".join(f"This is the house of number {n}.\tDas ist das Haus der Nummer {n}.\n" for n in range(40))


@pytest.fixture
def prepare(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object, piped: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(piped)))
        with pytest.raises(SystemExit) as caught:
            main(["prepare", *map(str, arguments)])
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_what_was_not_read_is_told_beside_what_was(prepare: Prepare) -> None:
    Path("app.de.po").write_text(ENTRIES)
    _, out, _ = prepare("app.de.po", "--out", "one")
    assert "1  pairs read (1 entry skipped: 1 fuzzy)" in out
    Path("b.en-de.tsv").write_text(PAIRS + "alone\n")
    _, out, _ = prepare("app.de.po", "b.en-de.tsv", "--on-error", "skip", "--out", "two")
    told = "1 bad line skipped, the first: b.en-de.tsv line 41: 1 column, expected 2 or more; 1 entry skipped: 1 fuzzy"
    assert f"41  pairs read ({told})" in out


def test_dropped_pairs_are_shown_where_there_are_any(prepare: Prepare) -> None:
    Path("en-de.tsv").write_text(PAIRS)
    _, out, _ = prepare("en-de.tsv", "--out", "store")
    assert out.endswith("\nMore about the store: isogloss corpora show store\n") and "ropped pair" not in out
    Path("en-de.tsv").write_text(PAIRS * 2)
    _, out, _ = prepare("en-de.tsv", "--out", "store")
    assert "All dropped pairs with their reasons: store/dropped. More about the store: isogloss corpora show store\n" in out


def test_as_many_examples_as_were_asked_for(prepare: Prepare) -> None:
    long = "and so on " * 12
    Path("en-de.tsv").write_text("".join(f"Hotel {n} {long}\tHotel {n} {long}\n" for n in range(9)) + PAIRS)
    for asked, shown in (((), 3), (("--explain", 7), 7), (("--explain", 50), 9)):
        _, out, _ = prepare("en-de.tsv", "--out", "store", *asked)
        examples = [line for line in out.splitlines() if " ↔ " in line]
        assert len(examples) == shown and all(("…" in line) == (not asked) for line in examples), "asked for, they are whole"


def test_sets_that_were_scanned_now_and_before(prepare: Prepare) -> None:
    for name, text in (("mine.txt", "The one and only sentence.\n"), ("yours.txt", "Another one.\nAnd another.\n")):
        Path(name).write_text(text)
    for name in ("a", "b"):
        Path(f"{name}.en-de.tsv").write_text(PAIRS.replace("This", name))
        _, out, _ = prepare(f"{name}.en-de.tsv", "--against", "mine.txt", "--out", name)
        assert "Checked against 1 text of mine.txt (level: near) and the held-out rows.\n" in out
    _, out, _ = prepare("a", "b", "--against", "yours.txt", "--out", "both")
    assert "Checked against 2 texts of yours.txt (level: near) and the held-out rows." in out
    assert "Its input stores had all been checked against mine.txt.\n" in out
    _, out, _ = prepare("a", "b.en-de.tsv", "--against", "yours.txt", "--out", "other")
    assert "input stores" not in out
    Path("deep").mkdir()
    for name, text in (("full.txt", "Some sentence here.\n"), ("scores.txt", "1.0\n2.0\n")):
        Path("deep", name).write_text(text)
    _, out, _ = prepare("a.en-de.tsv", "--against", "deep", "--out", "third")
    assert "Checked against 1 text of deep/full.txt" in out and "1 file had no sentences." in out


@pytest.mark.parametrize(
    ("piped", "message"),
    [
        (b"a cat\teine Katze\nalone\n", "standard input line 2: 1 column, expected 2 or more"),
        (b"a cat\teine \xff\n", "standard input line 1: not UTF-8"),
        (gzip.compress(PAIRS.encode() * 50)[:-9], "standard input: the compressed file is cut short after line"),
        (b"", "standard input: no pairs"),
    ],
)
def test_standard_input_is_called_that(prepare: Prepare, piped: bytes, message: str) -> None:
    code, _, err = prepare("-", "--language", "de", piped=piped)
    assert code == 2 and f"isogloss: {message}" in err
    assert "isogloss-" not in err, "no temporary folder is shown"


def test_standard_input_in_the_account(prepare: Prepare) -> None:
    code, out, _ = prepare("-", "--language", "de", "--on-error", "skip", "--json", piped=PAIRS.encode() + b"alone\n")
    assert code == 0 and '"name": "standard input"' in out
    assert '"first_fault": "standard input line 41: 1 column, expected 2 or more"' in out


def test_many_corpora_and_languages_are_shown_apart(prepare: Prepare) -> None:
    for number in range(16):
        name, text = f"corpus{number}", f"The house has the number {number}.\tDas Haus hat die Nummer {number}.\n"
        Path(f"{name}.en-de.tsv").write_text(text)
        Path(f"{name}.en-nl.tsv").write_text(text.replace("Das Haus hat die Nummer", "Het huis heeft nummer") * 2)
    _, out, _ = prepare(".", "--out", "store", "--held-out", "0")
    table = {line.split()[0]: line.split()[1:5] for line in out.splitlines() if line.startswith(("corpus", "de ", "nl "))}
    assert table["corpus7"] == ["3", "1", "2", "0"] and len(table) == 19
    assert table["de"] == ["16", "0", "16", "0"] and table["nl"] == ["32", "16", "16", "0"]
    assert "duplicate (16)" in out


def test_thresholds_from_the_data_are_told_with_their_reasons(prepare: Prepare) -> None:
    odd = "".join(f"Short {n}.\tDas ist ein Satz, der sehr viel länger ist als der andere, Nummer {n}.\n" for n in range(8))
    Path("en-de.tsv").write_text(PAIRS * 10 + odd)
    _, out, _ = prepare("en-de.tsv", "--auto", "--out", "store")
    assert "length ratio, de: 1." in out and "ordinary spread ends at" in out
    assert "3 more kept as they were set; the reasons are in manifest.json" in out


def test_languages_scores_and_nothing(prepare: Prepare) -> None:
    Path("many.tsv").write_text("en\tde\tfr\n" + "".join(f"number {n} one\tNummer {n}\tnuméro {n}\n" for n in range(20)))
    _, out, _ = prepare("many.tsv", "--languages", "fr", "--out", "store", "--set", "cleaning.min_language=0")
    assert "many    fr" in out and "many    de" not in out
    assert list(Path("store", "scored").iterdir())
    prepare("many.tsv", "--out", "store", "--forget-scores", "--set", "cleaning.min_language=0")
    assert not list(Path("store", "scored").iterdir())
    code, _, err = prepare()
    assert code == 2 and "isogloss: nothing to prepare\nhint: " in err
