"""Test sets in their makers' files: what is read, and what is said where something is missing or wrong."""

import gzip
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from isogloss.errors import DataError
from isogloss.evaluation.data.files import read_columns
from isogloss.evaluation.data.known_sets import SETS, TATOEBA, SetLayout
from isogloss.evaluation.data.test_sets import Data, open_data
from isogloss.evaluation.leak_report import SetFile
from made_up_sets import GERMAN, RUSSIAN, write_sets


@pytest.fixture
def data(tmp_path: Path) -> Data:
    return open_data(str(write_sets(tmp_path / "eval")))


def test_rated_pairs_whatever_the_file(data: Data) -> None:
    english = data.rated_pairs("sts2017", "en-en")
    assert english.texts[0][0] == english.texts[1][0] == GERMAN[0][0] and english.gold[:3].tolist() == [5.0, 2.5, 0.0]
    assert [one.name for one in english.origin] == ["sts2017/STS.en-en.txt.gz"] and english.unit == "sts2017 en-en"
    assert data.rated_pairs("stsb", "en-en").gold.tolist() == english.gold.tolist()
    korean = data.rated_pairs("korsts", "ko-ko")
    assert korean.texts[0] == english.texts[0], "a header is not a pair"
    translated = data.rated_pairs("stsb-multi", "de")
    assert translated.texts[0][0] == f"{GERMAN[0][0]}, {GERMAN[0][0]}", "quotes keep a comma"
    assert translated.languages == ("de", "de") and translated.unit == data.rated_pairs("stsb", "en-en").unit


def test_the_side_that_is_english_is_found(data: Data) -> None:
    arabic, spanish = data.rated_pairs("sts2017", "en-ar"), data.rated_pairs("sts2017", "en-es")
    assert arabic.languages == ("en", "ar") and arabic.texts[0][0] == GERMAN[0][0]
    assert spanish.languages == ("es", "en") and spanish.texts[1][0] == GERMAN[0][0]


def test_aligned_and_mined_and_labelled(data: Data) -> None:
    russian = data.translations("tatoeba", "rus")
    assert list(zip(*russian.texts[::-1], strict=True)) == RUSSIAN
    assert len(russian.origin) == 2
    haystack = data.haystack("bucc", "zh-en", "dev")
    assert haystack is not None and haystack.languages == ("zh", "en")
    assert haystack.gold[0] == ("zh-001", "en-001") and haystack.ids[0][0] == "zh-000"
    assert data.haystack("bucc", "zh-en", "test") is None
    rows = data.labelled("xnli", "de", "test")
    assert rows.texts[0][0] == GERMAN[0][1] and rows.labels[:3] == ["entailment", "neutral", "contradiction"]
    assert len(data.labelled("pawsx", "en", "dev").labels) == len(GERMAN) - 1, "rows nobody translated are left out"


def test_what_is_missing_is_an_error_with_what_fetches_it(data: Data, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="sts2017 en-de: not in") as caught:
        data.rated_pairs("sts2017", "en-de")
    assert "--data hub" in caught.value.hint
    with pytest.raises(DataError, match="tatoeba fra") as caught:
        data.translations("tatoeba", "fra")
    assert "git clone" in caught.value.hint
    with pytest.raises(DataError, match="no such folder"):
        open_data(str(tmp_path / "gone"))
    assert open_data("", {"ISOGLOSS_DATA": str(tmp_path)}).name == str(tmp_path)
    assert all(one.fetch for one in SETS.values()) and len(TATOEBA) == len(set(TATOEBA)) == 112


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"one\ttwo\n", r"line 1: 2 columns, expected 3"),
        (b"one\ttwo\tmany\n", r"row 1: the score is 'many'"),
        (b"\xff\xfe\n", r"not UTF-8"),
    ],
)
def test_a_file_that_does_not_fit(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "sts2017/STS.en-en.txt.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(text))
    with pytest.raises(DataError, match=message):
        open_data(str(tmp_path)).rated_pairs("sts2017", "en-en")


def test_files_that_do_not_belong_together(tmp_path: Path, data: Data) -> None:
    folder = tmp_path / "eval"
    (folder / "tatoeba_laser_v1/tatoeba.deu-eng.deu.gz").write_bytes(gzip.compress(b"one line\n"))
    with pytest.raises(DataError, match=r"has 1 line, .* has 40"):
        data.translations("tatoeba", "deu")
    (folder / "bucc2018_zh-en/zh-en.dev.gold.gz").write_bytes(gzip.compress(b"zh-000\ten-999\n"))
    with pytest.raises(DataError, match="en-999 is not among the sentences"):
        data.haystack("bucc", "zh-en", "dev")


class Rows:
    """As much of datasets.Dataset as is read: columns, and the names of classes."""

    def __init__(self, columns: dict[str, list[Any]], names: dict[str, list[str]]) -> None:
        self.columns = columns
        self.features = {name: type("Feature", (), {"names": names.get(name)})() for name in columns}

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Data:
    """The hub's place is taken by a dictionary; the client is the only thing that is not real."""
    shelves = {
        ("mteb/sts17-crosslingual-sts", "es-en", "test"): Rows(
            {"sentence1": ["el perro"], "sentence2": ["the dog is in the house"], "score": [4.5]}, {}
        ),
        ("facebook/xnli", "de", "validation"): Rows(
            {"premise": ["a"], "hypothesis": ["b"], "label": [1]}, {"label": ["entailment", "neutral", "contradiction"]}
        ),
        ("mteb/bucc-bitext-mining", "zh-en", "test"): Rows(
            {"sentence1": [["x", "y"]], "sentence2": [["u", "v"]], "gold": [[[2, 1]]]}, {}
        ),
        ("mteb/tatoeba-bitext-mining", "deu-eng", "test"): Rows({"sentence1": ["Hund"], "sentence2": ["dog"]}, {}),
    }

    def load_dataset(repository: str, configuration: str | None, split: str) -> Rows:
        return shelves[repository, configuration or "", split]

    package = ModuleType("datasets")
    package.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", package)
    return open_data("hub")


def test_the_hub_gives_the_same_values(hub: Data) -> None:
    pairs = hub.rated_pairs("sts2017", "en-es")
    assert pairs.languages == ("es", "en") and pairs.gold.tolist() == [4.5]
    assert pairs.origin == (SetFile("hub:mteb/sts17-crosslingual-sts/es-en/test"),)
    assert hub.labelled("xnli", "de", "dev").labels == ["neutral"]
    assert hub.translations("tatoeba", "deu").texts == (["Hund"], ["dog"])
    haystack = hub.haystack("bucc", "zh-en", "test")
    assert haystack is not None and haystack.gold == [("2", "1")] and haystack.texts == (["x", "y"], ["u", "v"])
    with pytest.raises(DataError, match=r"mteb/sts17-crosslingual-sts \(en-de or de-en, test\) cannot be read"):
        hub.rated_pairs("sts2017", "en-de")
    with pytest.raises(DataError, match="mstsb ar: not in hub"):
        hub.rated_pairs("mstsb", "ar")


def test_without_the_hubs_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="datasets is needed") as caught:
        open_data("", {})
    assert "pip install datasets" in caught.value.hint


def test_files_without_rows_and_with_cells_without_end(tmp_path: Path) -> None:
    (tmp_path / "xnli").mkdir()
    (tmp_path / "xnli" / "test-de.tsv").write_bytes(b"")
    with pytest.raises(DataError, match=r"xnli/test-de.tsv: no rows with text"):
        open_data(str(tmp_path)).labelled("xnli", "de", "test")
    (tmp_path / "stsb").mkdir()
    (tmp_path / "stsb" / "x.csv").write_text('"' + "a" * 200_000 + '",b,3\n')
    with pytest.raises(DataError, match=r"x.csv: not CSV \(field larger than field limit"):
        read_columns(tmp_path / "stsb/x.csv", SetLayout((), (0, 1, 2), comma=True))
