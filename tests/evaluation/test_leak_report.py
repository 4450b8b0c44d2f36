"""Whether a model's text was scanned for a test set: told by what is in the file, by its name only where nothing else is."""

import gzip
import json
from dataclasses import asdict
from pathlib import Path

import pytest

from isogloss.corpora.leaks.evaluation_text import evaluation_sets
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.evaluation.data.test_sets import open_data
from isogloss.evaluation.leak_report import Scan, SetFile, leak_state, scan_of
from isogloss.models.saving import TRAINING
from made_up_sets import write_sets

ROWS = [f"a sentence about the number {n}\tanother one about ﬁve and {n}\t{n % 5}" for n in range(30)]


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "sts2017"
    folder.mkdir()
    for name, rows in (("a.txt", ROWS), ("b.txt", ROWS[:20])):
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [folder / "a.txt", folder / "b.txt"]


def origins(*files: Path) -> list[SetFile]:
    return [SetFile(f"{file.parent.name}/{file.name}", file) for file in files]


def scan(*names: Path | str, form: str = "nfc") -> Scan:
    """What a store that was scanned for these files writes down."""
    sets = LeakScanner(evaluation_sets([str(name) for name in names]), "near", form).sets
    return Scan(tuple((one.name, one.hash) for one in sets))


def test_a_file_is_known_by_its_content(files: list[Path], tmp_path: Path) -> None:
    known = scan(tmp_path / "sts2017")
    assert leak_state(origins(*files), known) == "scanned"
    assert leak_state(origins(*files), scan(files[0])) == "partly scanned"
    packed = tmp_path / "renamed.tsv.gz"
    with gzip.open(packed, "wt", encoding="utf-8") as handle:
        handle.write("\n".join(reversed(ROWS)) + "\n")
    assert leak_state(origins(packed), known) == "scanned", "packed, renamed and in another order, it is the same text"
    files[0].write_text("\n".join(ROWS[1:]) + "\n", encoding="utf-8")
    assert leak_state(origins(files[0]), known) == "not scanned (other text of that name was)"
    assert leak_state(origins(*files), known) == "partly scanned"
    assert leak_state(origins(packed), scan(files[1])) == "not scanned"


@pytest.mark.parametrize("form", ["nfc", "nfkc", "ham-kim"])
def test_whatever_form_the_store_has(files: list[Path], form: str) -> None:
    assert leak_state(origins(files[0]), scan(files[0], form=form)) == "scanned"


def test_without_a_hash_names_must_do(files: list[Path]) -> None:
    a, b = origins(*files)
    by_name = Scan((("sts2017/a.txt", ""), ("b.txt", "")))
    assert leak_state([a, b], by_name) == "scanned, by name", "a file that was named itself has no folder"
    assert leak_state([a], Scan((("sts2016/a.txt", ""),))) == "not scanned"
    both = Scan((*scan(files[1]).sets, ("a.txt", "")))
    assert leak_state([a, b], both) == "scanned, by name", "one of them by its content"


def test_what_is_not_known(files: list[Path]) -> None:
    (a,) = origins(files[0])
    assert leak_state([a], None) == leak_state([], scan(files[0])) == "not known"
    assert leak_state([SetFile("hub:mteb/sts17")], scan(files[0])) == "not known"
    assert leak_state([a], Scan(())) == "not scanned"


def test_the_files_of_real_test_sets_carry_their_place(tmp_path: Path) -> None:
    data = open_data(str(write_sets(tmp_path / "eval")))
    pairs, sentences = data.rated_pairs("sts2017", "en-en"), data.translations("tatoeba", "deu")
    for origin in (*pairs.origin, *sentences.origin):
        assert origin.path is not None and origin.path.is_file() and str(origin) == origin.name
    assert leak_state(pairs.origin, scan(tmp_path / "eval")) == "scanned"
    english = scan(*(origin.path for origin in pairs.origin if origin.path))
    assert leak_state(sentences.origin, english) == "partly scanned", "these sets have the same English sentences"


def test_a_model_says_what_it_was_scanned_for(files: list[Path], tmp_path: Path) -> None:
    assert scan_of(tmp_path) is None and scan_of("muse") is None
    sets = [asdict(one) for one in LeakScanner(evaluation_sets([str(files[0])])).sets]
    training = {"leak_scan": {"sets": [*sets, {"name": "empty", "texts": 0}]}, "corpora": {"TED2020": {}, "": {}}}
    (tmp_path / "run" / "model").mkdir(parents=True)
    (tmp_path / "run" / "model" / TRAINING).write_text(json.dumps(training))
    told = scan_of(tmp_path / "run")
    assert told == scan_of(tmp_path / "run" / "model")
    assert told is not None and told.names == ("a.txt",) and told.corpora == ("TED2020",)
    assert leak_state(origins(files[0]), told) == "scanned"
    (tmp_path / "run" / "model" / TRAINING).write_text(json.dumps({"corpora": {}}))
    assert scan_of(tmp_path / "run") is None, "learnt from something of which no scan is known"


@pytest.mark.parametrize(
    "note",
    ["[]", "[" * 50_000, '{"leak_scan": []}', '{"leak_scan": {"sets": [3]}}', '{"leak_scan": {"sets": []}, "corpora": 1}'],
)
def test_a_note_that_is_none_says_nothing(tmp_path: Path, note: str) -> None:
    (tmp_path / TRAINING).write_text(note)
    assert scan_of(tmp_path) is None
