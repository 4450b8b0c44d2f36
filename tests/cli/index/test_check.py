"""`isogloss index check` as a person meets it: a table, a certificate, exit codes, one sentence for what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest

from isogloss.cli.app import main
from isogloss.models.cached_encoder import embed
from tiny import PAIRS

SOURCES = list(dict.fromkeys(pair.source for pair in PAIRS))
RUSSIAN = {pair.source: pair.target for pair in PAIRS if pair.language == "ru"}


class Shell:
    """A folder with an index of the tiny teacher and queries that it knows, and the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], model: Path) -> None:
        self.capsys, self.model = capsys, model
        np.save("docs.npy", embed(str(model), SOURCES))
        Path("docs.tsv").write_text("".join(f"d{row}\t{text}\n" for row, text in enumerate(SOURCES)), encoding="utf-8")
        lines = [f"q{row}\t{text}\t{text}\t{RUSSIAN[text]}\td{row}" for row, text in enumerate(SOURCES)]
        Path("queries.tsv").write_text("\n".join(["id\ten\tde\tru\tgold", *lines]) + "\n", encoding="utf-8")
        Path("en-de.tsv").write_text("".join(f"{text}\t{text}\n" for text in SOURCES), encoding="utf-8")

    def __call__(self, *arguments: object, models: bool = True) -> tuple[int, str, str]:
        named = ["--student", str(self.model), "--teacher", str(self.model)] if models else []
        with pytest.raises(SystemExit) as caught:
            main(["index", "check", *map(str, arguments), *named])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys, models / "teacher")


def test_a_language_that_fails_ends_with_3_and_says_what_to_do(check: Shell) -> None:
    code, out, err = check("--index", "docs.npy", "--queries", "queries.tsv", "--min-queries", "20", "--resamples", "200")
    assert code == 3, err
    lines = out.splitlines()
    table = {line.split()[0]: line for line in lines if line[:1].isalpha() and line.split()[0] in ("de", "ru", "en", "average")}
    assert "✓ ship" in table["de"] and "100 (100–100)" in table["de"] and "✗ do not ship" in table["ru"]
    assert table["average"].split()[-1] == "80", "queries"
    assert all(len(line.rstrip()) <= 80 for line in table.values())
    assert "The teacher's own recall at 10 with English queries: 100 %" in out
    assert "40 stored texts embedded again: the stored vectors are those of" in out
    assert "chance alone finds 25 %" in out and "→ check the whole index" in out
    assert "✗ Do not ship: ru fails. Train on more pairs, or leave it out: --languages de." in out
    assert lines[-1] == "certificate: index-check/certificate.html" and "searching, student" in err
    assert {path.name for path in Path("index-check").iterdir()} == {"certificate.json", "certificate.html"}


def test_json_is_the_certificate(check: Shell) -> None:
    code, out, err = check(
        *("-i", "docs.npy", "--queries", "queries.tsv", "--languages", "de", "-k", "1", "--out", "cert", "--json"),
        *("--resamples", "200", "--min-queries", "20"),
    )
    assert code == 0, err
    told = json.loads(out)
    written = json.loads(Path("cert/certificate.json").read_text(encoding="utf-8"))
    assert told.pop("page") == "cert/certificate.html" and written.pop("checksum") and told == written
    assert told["verdict"]["level"] == "ship" and list(told["languages"]) == ["de", "en"] and told["settings"]["k"] == 1
    again = told["command"].split()
    assert again[:3] == ["isogloss", "index", "check"] and "--languages" in again
    code, out, err = check(*again[3:], "--json", models=False)
    assert code == 0 and json.loads(out)["languages"] == told["languages"], "the command measures the same again"


def test_the_command_names_the_options_of_the_address(check: Shell) -> None:
    Path("docs.tsv").rename("other.tsv")
    code, out, err = check("-i", "docs.npy?ids=other.tsv&metric=dot", "--queries", "queries.tsv", "--languages", "de", "--json")
    assert code == 0, err
    assert "--index 'docs.npy?ids=other.tsv&metric=dot'" in json.loads(out)["command"]


def test_pairs_and_few_queries(check: Shell) -> None:
    code, out, err = check("-i", "docs.npy", "--pairs", "en-de.tsv", "--resamples", "200")
    assert code == 0, err
    assert "! with care" in out and "only 40 queries" in out and "de with 50 queries or more" in out
    assert "! Ship with care: de passes with care." in out and "recall" not in out.split("certificate")[0].split("stored")[0]


def test_a_prompt_for_the_teacher(check: Shell) -> None:
    code, out, err = check("-i", "docs.npy", "--queries", "queries.tsv", "--teacher-prompt", "query: ", "--resamples", "200")
    assert code == 3, err
    assert "without a prompt" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-i gone.npy --queries queries.tsv", "gone.npy: no such file"),
        ("-i docs.npy --queries gone.tsv", "gone.tsv: no such file"),
        ("-i docs.npy --queries queries.tsv --pairs en-de.tsv", "--queries and --pairs exclude each other"),
        ("-i docs.npy --queries queries.tsv --languages tr", "queries.tsv: there are no queries in tr"),
        ("-i narrow.npy --queries queries.tsv", "narrow.npy holds vectors of 8 dimensions"),
        ("-i empty.npy --queries queries.tsv", "empty.npy: the index is empty"),
        ("-i docs.npy", "so there are no held-out queries"),
        ("-i docs.npy --queries queries.tsv --out docs.tsv", "docs.tsv: cannot be written"),
    ],
)
def test_what_is_wrong_is_one_sentence_and_exit_code_2(check: Shell, arguments: str, message: str) -> None:
    np.save("narrow.npy", np.ones((3, 8), dtype=np.float32))
    np.save("empty.npy", np.ones((0, 16), dtype=np.float32))
    code, out, err = check(*arguments.split())
    assert code == 2 and not out
    (said,) = [line for line in err.splitlines() if line.startswith("isogloss: ")]
    assert message in said and "hint: " in err
    assert not list(Path().glob("index-check/*")), "nothing was written"


def test_a_prompt_needs_a_named_teacher(check: Shell) -> None:
    code, _, err = check("-i", "docs.npy", "-s", check.model, "--teacher-prompt", "query: ", models=False)
    assert code == 2 and "--teacher-prompt needs --teacher" in err
