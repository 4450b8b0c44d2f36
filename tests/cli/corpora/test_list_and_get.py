"""`isogloss corpora` as a person meets it: a list that fits the screen, files on standard output, errors with a hint."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpora.catalogue.service import Service
from corpora.catalogue.test_download import zipped
from isogloss.cli.app import main

MOSES = zipped(**{"x.en": "Hello\n", "x.de": "Hallo\n"})
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    server = Service()
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ISOGLOSS_OPUS_API", f"{server.url}/opusapi/")
    for corpus, pairs in (("TED2020", 293_562), ("Europarl", 1_908_920), ("Books", 51_467), ("KDE4", 200_000)):
        server.offer_on_opus(corpus, "v1", "de-en", MOSES, pairs=pairs)
    server.offer_on_opus("TED2020", "v1", "en-fr", MOSES)
    server.offer_on_opus("OpenSubtitles", "v2024", "en-fr", pairs=100)
    server.offer_on_opus("OpenSubtitles", "v2018", "en-fr", pairs=99, latest=False)
    yield server
    server.close()


@pytest.fixture
def isogloss(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["corpora", *map(str, arguments)])
        captured = capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err

    return run


def test_the_list_fits_the_screen_and_names_everything(isogloss: Run) -> None:
    code, out, _ = isogloss("list")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for name in ("TED2020", "OpenSubtitles2018", "MUSE", "Wikititles", "parallel-sentences-talks", "AIHub", "CC BY-SA 4.0"):
        assert name in out
    assert out.index("Sentences") < out.index("Europarl") < out.index("Dictionaries") < out.index("MUSE")


def test_the_list_for_a_pair(isogloss: Run) -> None:
    _, out, _ = isogloss("list", "--lang", "en-sw")
    listed = {line.split(" ")[0] for line in out.splitlines()}
    assert {"TED2020", "Tatoeba", "WikiMatrix"} <= listed
    assert not {"Europarl", "UNPC", "MUSE", "JParaCrawl"} & listed
    assert "--lang en-sw" in out


def test_everything_about_one(isogloss: Run) -> None:
    code, out, _ = isogloss("list", "ted-2020", "AIHub")
    assert code == 0
    for words in (
        "Subtitles of about 4,000",
        "108: af am",
        "Reimers & Gurevych 2020",
        "get TED2020 --lang en-de",
        "AIHub.ko-en.tsv",
    ):
        assert words in " ".join(out.split())
    assert all(len(line) <= 80 or "http" in line for line in out.splitlines())


def test_the_list_as_data(isogloss: Run) -> None:
    _, out, _ = isogloss("list", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert entries["WikiMatrix"]["min_score"] == 1.05 and entries["MUSE"]["dictionary"]
    assert entries["TED2020"]["online"] is None


def test_numbers_of_today(isogloss: Run, service: Service) -> None:
    code, out, _ = isogloss("list", "--online", "--lang", "en-de")
    assert code == 0 and len(service.asked) == 1
    assert max(map(len, out.splitlines())) <= 80
    (line,) = [line for line in out.splitlines() if line.startswith("TED2020")]
    assert line.split()[1:3] == ["293,562", "v1"]
    assert "OPUS has 2 more, the largest: opus:KDE4 (200,000), opus:Books (51,467)" in out
    assert "NewsCommentary" not in out and "Wikititles" in out
    _, out, _ = isogloss("list", "Europarl", "--online", "--lang", "de-en", "--json")
    assert json.loads(out)[0]["online"]["pairs"] == 1_908_920
    _, out, _ = isogloss("list", "--online", "--lang", "en-fr")
    (line,) = [line for line in out.splitlines() if line.startswith("OpenSubtitles2018")]
    assert line.split()[1:3] == ["99", "v2018"], "the version that would be fetched"
    code, _, err = isogloss("list", "--online")
    assert code == 2 and "--online needs a language pair" in err


def test_files_on_standard_output_and_licenses_beside_them(isogloss: Run, service: Service, tmp_path: Path) -> None:
    code, out, err = isogloss("get", "TED2020", "Europarl", "--lang", "en-de", "--out", "mine")
    assert code == 0
    assert out.splitlines() == ["mine/TED2020.en-de.zip", "mine/Europarl.en-de.zip"]
    assert all((tmp_path / line).read_bytes() == MOSES for line in out.splitlines())
    assert f"TED2020 en-de: v1, {len(MOSES)} bytes, license: TED usage policy" in err and "100%" not in err
    asked = len(service.asked)
    _, out, err = isogloss("get", "TED2020", "--lang", "en-de", "--out", "mine", "--json")
    (one,) = json.loads(out)
    assert (one["corpus"], one["languages"], one["bytes"]) == ("TED2020", ["en", "de"], len(MOSES))
    assert one["license"] == "TED usage policy" and len(one["sha256"]) == 64 and one["url"].startswith(service.url)
    assert len(service.asked) == asked and "reused from the cache" in err


def test_one_that_fails_does_not_keep_the_others_back(isogloss: Run, service: Service) -> None:
    code, out, err = isogloss("get", "TED2020", "Europarl", "--lang", "en-de", "--lang", "en-fr")
    assert code == 2
    assert [Path(line).name for line in out.splitlines()] == ["TED2020.en-de.zip", "Europarl.en-de.zip", "TED2020.en-fr.zip"]
    assert "isogloss: Europarl has no en-fr\nhint: with en it has de" in err
    assert "3 of 4 fetched" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("get", "Europal", "--lang", "en-de"), "hint: did you mean Europarl?"),
        (("get", "TED2020", "--lang", "english"), "hint: write two codes with a hyphen: --lang en-de"),
        (("get", "AIHub", "--lang", "en-ko"), "registered users only"),
        (("get", "TED2020", "--lang", "en-de", "--min-score", "1.1"), "cannot be fetched by score"),
        (
            ("get", "TED2020", "Europarl", "--lang", "en-de", "--out", "notes.txt"),
            "notes.txt: cannot be written (it is a file, not a folder)",
        ),
        (("get", "TED2020", "--lang", "en-de", "--out", "notes.txt/deep"), "notes.txt is a file, not a folder"),
        (("list", "Nothing-like-it"), "no corpus is called"),
    ],
)
def test_errors_are_a_sentence_and_a_hint(isogloss: Run, service: Service, arguments: tuple[str, ...], words: str) -> None:
    Path("notes.txt").write_text("mine")
    code, out, err = isogloss(*arguments)
    assert code == 2 and out == "" and words in err and err.count("hint: ") == 1
    assert err.startswith("isogloss: ") and not service.asked


@pytest.mark.parametrize("verb", ["list", "get"])
def test_help_has_an_example(isogloss: Run, verb: str) -> None:
    code, out, _ = isogloss(verb, "--help")
    assert code == 0 and f"  isogloss corpora {verb} " in out and len(out.splitlines()) < 40
    code, out, _ = isogloss("--help")
    assert "list" in out and "get" in out


def test_ctrl_c_says_that_it_goes_on(isogloss: Run, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isogloss.corpora.catalogue.download.read_some", interrupt)
    code, _, err = isogloss("get", "TED2020", "--lang", "en-de")
    assert code == 130 and "The same command continues from here" in err
