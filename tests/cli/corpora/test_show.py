"""`isogloss corpora show` as a person meets it: eighty columns, a page, JSON, errors with a hint."""

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from isogloss.cli.app import main
from isogloss.cli.corpora.show import _overlap
from isogloss.corpora.overlap import Overlap
from isogloss.corpora.prepare import prepare
from isogloss.corpora.summary import Summary
from isogloss.types import Bitext, Pair

Run = Callable[..., tuple[int, str, str]]


def pairs() -> list[Pair]:
    made = []
    for number in range(40):
        source = f"We walked along the river for {number} hours and then we went home."
        made.append(Pair(source, f"Wir gingen {number} Stunden am Fluss entlang und dann nach Hause.", "de", "walks", ""))
        if number < 10:
            made.append(Pair(source, f"Wir gingen {number} Stunden den Fluss entlang, dann heim.", "de", "again", ""))
            made.append(Pair(source, f"私たちは川に沿って{number}時間歩いて、それから家に帰りました。", "ja", "walks", ""))
    return made


@pytest.fixture
def isogloss(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    prepare(Bitext.of(pairs()), held_out=0.2, out=tmp_path / "store")

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["corpora", "show", *map(str, arguments)])
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_what_is_told_fits_the_screen(isogloss: Run, tmp_path: Path) -> None:
    code, out, _ = isogloss("store")
    assert code == 0
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    manifest = json.loads((tmp_path / "store" / "manifest.json").read_text())
    assert lines[0].startswith("store: 60 pairs, ") and manifest["hash"] in lines[1] and "2 languages, 2 corpora" in lines[1]
    for corpus, counts in manifest["corpora"].items():
        (line,) = [line.split() for line in lines if line.startswith(f"{corpus} ")]
        assert line[1:3] == [str(counts["train"]), str(counts["test"])] and line[-2:] == ["not", "stated"]
    (german,) = [line for line in lines if line.startswith("de ") and "█" in line]
    assert german.count("█") == 20 and german.split()[1] == str(manifest["languages"]["de"]["train"])
    (japanese,) = [line for line in lines if line.startswith("ja ") and "█" in line]
    assert japanese.count("█") == 4, "ten pairs beside fifty"
    assert "40 different source sentences" in out and "languages per sentence: 30 in 1, 10 in 2" in out
    assert " 100.0 % of again is also in walks" in out and "  25.0 % of walks is also in again" in out
    assert out.count(" ↔ ") == 6 and "川に沿って" in out
    assert lines[-1] == "HTML page: store/summary.html"


def test_the_page_is_written(isogloss: Run, tmp_path: Path) -> None:
    isogloss("store")
    assert ElementTree.parse(tmp_path / "store" / "summary.html").findtext("body/header/h1") == "store"
    code, out, _ = isogloss("store", "--html", "deep/er.html", "--samples", 1)
    assert code == 0 and out.endswith("HTML page: deep/er.html\n") and out.count(" ↔ ") == 2
    page = ElementTree.parse(tmp_path / "deep" / "er.html").getroot()
    assert len([one for one in page.iter("ul") if one.get("class") == "pairs"]) == 2
    code, out, _ = isogloss("store", "--samples", 0)
    assert code == 0 and " ↔ " not in out


def test_as_data(isogloss: Run, tmp_path: Path) -> None:
    code, out, _ = isogloss("store", "--json")
    data = json.loads(out)
    assert code == 0 and data["pairs"] == 60 and data["page"] is None and not (tmp_path / "store" / "summary.html").exists()
    assert [own["language"] for own in data["languages"]] == ["de", "ja"] and len(data["languages"][0]["samples"]) == 3
    assert data["overlap"]["ways"] == [30, 10] and data["corpora"]["walks"]["license"] == ""
    _, out, _ = isogloss("store", "--json", "--html", "page.html")
    assert json.loads(out)["page"] == "page.html" and (tmp_path / "page.html").is_file()


def test_a_store_that_was_shown_is_still_a_store(isogloss: Run, tmp_path: Path) -> None:
    _, first, _ = isogloss("store")
    prepare(Bitext.of(pairs()), held_out=0.2, out=tmp_path / "store")
    assert isogloss("store")[1] == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere",), "nowhere: not a prepared store"),
        ((".",), ".: not a prepared store"),
        (("store", "--html", "store"), "store: is a folder"),
        (("store", "--html", "store/manifest.json"), "store/manifest.json: is also an input"),
        (("store", "--html", "store/manifest.json/page.html"), "cannot be written"),
    ],
)
def test_errors_are_a_sentence_and_a_hint(isogloss: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = isogloss(*arguments)
    assert code == 2 and out == "" and message in err and "hint: " in err and "Traceback" not in err


def test_a_damaged_part_is_named(isogloss: Run, tmp_path: Path) -> None:
    part = next((tmp_path / "store" / "pairs").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    code, out, err = isogloss("store")
    assert code == 2 and out == "" and part.name in err and "hint: run the same isogloss prepare again" in err
    assert not (tmp_path / "store" / "summary.html").exists()


def test_large_numbers_fit_the_screen_too() -> None:
    overlap = Overlap(("a", "b"), ((9, 3), (3, 3)), tuple([987_654_321] * 8), one_in=4)
    lines = _overlap(Summary("en", (), (), overlap, ()))
    assert max(map(len, lines)) <= 80 and lines[0].startswith("about 7,901,234,568 different")
    assert "987,654,321 in 4, 3,950,617,284 in more" in " ".join(" ".join(lines).split())


def test_help_has_an_example(isogloss: Run) -> None:
    code, out, _ = isogloss("--help")
    assert code == 0 and "  isogloss corpora show pairs" in out and len(out.splitlines()) < 40
