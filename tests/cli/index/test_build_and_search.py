"""`isogloss index build` and `search`, from the command line: what is printed, what is refused."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from isogloss.cli.app import main
from tiny import SUBJECTS, VERBS

SENTENCES = [f"{subject} {verb}." for subject in SUBJECTS for verb in VERBS]


class Call:
    """A folder with documents, and the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        Path("docs.tsv").write_text("".join(f"d{row}\t{text}\n" for row, text in enumerate(SENTENCES)), encoding="utf-8")

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["index", *map(str, arguments)])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def index(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    return Call(capsys)


def test_build_and_search(index: Call, models: Path) -> None:
    teacher = ("--model", models / "teacher")
    code, out, err = index("build", "docs.tsv", *teacher, "--index", "out/docs.npy", "--batch-size", "16")
    assert code == 0 and out == "" and "out/docs.npy: 40 documents, 16 dimensions, cosine" in err
    code, out, err = index("search", *teacher, "--index", "out/docs.npy", "-k", "3", SENTENCES[7])
    assert code == 0, err
    first, *others = out.splitlines()
    assert first.split(maxsplit=3) == ["1", "1.0000", "d7", SENTENCES[7]] and len(others) == 2
    code, out, _ = index("search", *teacher, "--index", "out/docs.npy", "--json", "-k", "2", SENTENCES[3], SENTENCES[9])
    found = json.loads(out)
    assert [one["query"] for one in found] == [SENTENCES[3], SENTENCES[9]]
    assert found[1]["matches"][0] == {"id": "d9", "score": pytest.approx(1, abs=1e-6), "text": SENTENCES[9]}
    assert len(found[0]["matches"]) == 2 and found[0]["matches"][0]["score"] >= found[0]["matches"][1]["score"]


def test_build_as_json(index: Call, models: Path) -> None:
    Path("more.txt").write_text("one\n\nthree\n")
    code, out, err = index("build", "more.txt", "-m", models / "teacher", "-i", "docs.parquet", "--metric", "dot", "--json")
    assert code == 0, err
    expected = {"address": "docs.parquet", "documents": 2, "skipped": 1, "continued_at": 0, "dimension": 16, "metric": "dot"}
    assert json.loads(out) == expected | {"model": str(models / "teacher")}
    code, _, err = index("build", "docs.tsv", "-m", models / "teacher", "-i", "docs.parquet", "--metric", "dot")
    assert code == 2 and "docs.parquet: already exists" in err and "--append" in err
    code, _, err = index("build", "docs.tsv", "-m", models / "teacher", "-i", "docs.parquet", "--append", "--replace")
    assert code == 2 and "exclude each other" in err
    code, _, err = index("build", "docs.tsv", "-m", models / "teacher", "-i", "docs.parquet", "--metric", "dot", "--append")
    assert code == 0 and "40 documents" in err
    _, out, _ = index("search", "-m", models / "teacher", "-i", "docs.parquet", "-k", "99", "--json", "one")
    assert len(json.loads(out)[0]["matches"]) == 42


def test_queries_from_a_file_and_from_standard_input(index: Call, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index("build", "docs.tsv", "-m", models / "teacher", "-i", "docs.npy")
    Path("queries.txt").write_text(f"{SENTENCES[1]}\n\n{SENTENCES[2]}\n")
    search = ("search", "-m", models / "teacher", "-i", "docs.npy", "-k", "1", "--queries")
    code, from_file, _ = index(*search, "queries.txt")
    assert code == 0 and from_file.splitlines()[0] == SENTENCES[1] and "d2" in from_file.splitlines()[4]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("queries.txt").read_bytes())))
    assert index(*search, "-") == (0, from_file, index(*search, "queries.txt")[2])


def test_lines_fit_the_screen(index: Call, models: Path) -> None:
    Path("long.tsv").write_text(f"{'i' * 60}\t{'wörter und ' * 30}\n二\t{'漢字' * 50}\n3\ta\\tb\n", encoding="utf-8")
    index("build", "long.tsv", "-m", models / "teacher", "-i", "docs.npy")
    _, out, _ = index("search", "-m", models / "teacher", "-i", "docs.npy", "x" * 100, "y")
    from rich.cells import cell_len

    assert all(cell_len(line) <= 80 for line in out.splitlines()), out
    assert out.count("…") >= 6 and out.splitlines()[0].startswith("xxx")


def test_what_is_wrong_is_said_before_anything_is_loaded(index: Call, models: Path) -> None:
    np.save("other.npy", np.eye(3, dtype=np.float32))
    teacher = ("-m", models / "teacher")
    for arguments, message in (
        (("search", "-i", "other.npy", *teacher), "there are no queries"),
        (("search", "-i", "other.npy", *teacher, "x"), "other.npy holds vectors of 3 dimensions, but"),
        (("search", "-i", "none.npy", "-m", "no-such-model", "x"), "none.npy: no such file"),
        (("search", "-i", "other.npy", "-m", "./none", "x"), "./none: no such folder"),
        (("search", "-i", "other.npy", *teacher, " "), "there is an empty query"),
        (("search", "-i", "docs.tsv", *teacher, "x"), "not the address of a vector index"),
        (("build", "none.tsv", "-i", "docs.npy", *teacher), "none.tsv: no such file"),
        (("build", "docs.tsv", "-i", "other.npy", *teacher), "was not built by isogloss"),
        (("build", "docs.tsv", "-i", "docs.npy", *teacher, "--prompt", "x", "--precision", "int8"), "int8"),
    ):
        code, _, err = index(*arguments)
        assert code == 2 and message in err, err


def test_another_model_is_warned_of(index: Call, models: Path, caplog: pytest.LogCaptureFixture) -> None:
    index("build", "docs.tsv", "-m", models / "teacher", "-i", "docs.npy")
    assert index("search", "-m", models / "teacher", "-i", "docs.npy", "-k", "1", "a")[0] == 0
    assert "another model" not in caplog.text
    assert index("search", "-m", models / "teacher", "--prompt", "query: ", "-i", "docs.npy", "-k", "1", "a")[0] == 0
    assert "docs.npy was built with" in caplog.text and "is another model" in caplog.text


def test_without_texts(index: Call, models: Path) -> None:
    np.save("rows.npy", np.eye(16, dtype=np.float32))
    code, out, err = index("search", "-m", models / "teacher", "-i", "rows.npy", "-k", "2", "a")
    assert code == 0 and [len(line.split()) for line in out.splitlines()] == [3, 3], err
    np.save("rows.npy", np.full((2, 16), np.nan, dtype=np.float32))
    code, _, err = index("search", "-m", models / "teacher", "-i", "rows.npy", "a")
    assert code == 2 and "has NaN or infinity (2 of 2 looked at)" in err
