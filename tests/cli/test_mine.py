"""`isogloss mine` and `isogloss score` as a person meets them: files in, files out, one sentence for what is wrong."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from isogloss.amounts import amount
from isogloss.cli.app import main
from isogloss.cli.screens.mined import as_bytes
from isogloss.config.mining import MiningSettings
from isogloss.corpora.reading.readers import read
from isogloss.errors import IsoglossError
from isogloss.mining.mine import mine
from tiny import PAIRS

GERMAN = {pair.source: pair.target for pair in PAIRS if pair.language == "de"}


class Shell:
    """A folder with sentences and pairs, and the real entry point in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str], model: Path) -> None:
        self.capsys, self.model = capsys, model
        Path("x.en").write_text("\n".join([*GERMAN, "", "www.example.org"]) + "\n", encoding="utf-8")
        Path("x.de").write_text("\n".join([*GERMAN.values(), "www.example.org"]) + "\n", encoding="utf-8")
        Path("en-de.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in GERMAN.items()), encoding="utf-8")

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main([*map(str, arguments), "--model", str(self.model)])
        captured = self.capsys.readouterr()
        return int(caught.value.code or 0), captured.out, captured.err


@pytest.fixture
def isogloss(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Path) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(capsys, models / "student")


def test_mine_writes_pairs_and_says_what_it_did(isogloss: Shell) -> None:
    code, out, err = isogloss("mine", "x.en", "x.de", "--threshold", "0", "--out", "pairs.tsv", "--device", "cpu")
    assert code == 0, err
    header, *lines = Path("pairs.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == ["score", "source", "target", "source_id", "target_id"]
    assert 10 < len(lines) <= 40 and all(len(line.split("\t")) == 5 for line in lines)
    for words in ("same on both sides", "empty", "searched", f"{len(lines)} pairs of", "→ pairs.tsv", "threshold 0.0000"):
        assert words in out
    assert "neighbors" in err
    assert not Path("pairs.tsv.work").exists()


def test_mine_estimates_its_precision(isogloss: Shell) -> None:
    code, out, err = isogloss("mine", "x.en", "x.de", "--precision", "0.3", "--out", "pairs.jsonl", "--device", "cpu")
    assert code == 0, err
    assert "have no translation here" in out and "correct, %" in out and "█" in out
    code, out, _ = isogloss("mine", "x.en", "x.de", "--out", "pairs.jsonl", "--json", "--memory", "64M", "--device", "cpu")
    told = json.loads(out)
    assert code == 0 and told["path"] == "pairs.jsonl" and told["source"]["empty"] == 1
    assert told["calibration"]["curve"][0].keys() == {"threshold", "pairs", "precision"}


def test_the_page_has_the_curve_that_was_printed(isogloss: Shell) -> None:
    code, out, err = isogloss("mine", "x.en", "x.de", "--precision", "0.3", "--out", "a.tsv", "--json", "--device", "cpu")
    assert code == 0, err
    told, text = json.loads(out), Path("a.tsv.html").read_text(encoding="utf-8")
    assert told["page"] == "a.tsv.html" and f"chosen: {told['threshold']:.4f}" in text
    for point in told["calibration"]["curve"]:
        assert f"threshold {point['threshold']:.4f}: {amount(point['pairs'], 'pair')}, " in text
    code, out, _ = isogloss("mine", "x.en", "x.de", "--threshold", "0", "--out", "b.tsv", "--json", "--device", "cpu")
    page = Path("b.tsv.html").read_text(encoding="utf-8")
    assert json.loads(out)["page"] == "b.tsv.html" and "chosen" not in page, "nothing was estimated"
    assert "x.en: 42 sentences read, 40 searched" in page and str(isogloss.model) in page and "der Hund" in page
    code, out, _ = isogloss(
        "score", "en-de.tsv", "--threshold", "auto", "--precision", "0.5", "--out", "c.tsv", "--device", "cpu"
    )
    assert code == 0 and "→ c.tsv.html" in out and "Precision, de" in Path("c.tsv.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["found.tsv", "found.tsv.gz", "found.jsonl", "found.parquet"])
def test_what_was_mined_can_be_prepared(isogloss: Shell, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    mined = mine(str(isogloss.model), "x.en", "x.de", MiningSettings(threshold="0", device="cpu"))
    mined.write(name)
    middle = float(np.median(mined.pairs.column("score").to_numpy()))
    how = ["--language", "de", "--out", "store", "--held-out", "0", "--set", f"cleaning.min_scores=['*={middle:.6f}']"]
    with pytest.raises(SystemExit) as caught:
        main(["prepare", name, *how])
    assert not caught.value.code, capsys.readouterr().err
    found = read(name, language="de").table
    assert found.column("source").to_pylist() == mined.pairs.column("source").to_pylist()
    assert found.column("target").to_pylist() == mined.pairs.column("target").to_pylist()
    manifest = json.loads(Path("store/manifest.json").read_text(encoding="utf-8"))
    by_score = next(drop["count"] for drop in manifest["dropped"] if drop["rule"] == "low score in its corpus")
    assert manifest["rows_in"] == len(mined) and abs(by_score - len(mined) // 2) <= 1, "judged by the score it was mined with"


def test_mine_by_gold(isogloss: Shell) -> None:
    isogloss("mine", "x.en", "x.de", "--threshold", "0", "--out", "all.tsv", "--device", "cpu")
    found = [line.split("\t") for line in Path("all.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    Path("gold").write_text("".join(f"{row[3]}\t{row[4]}\n" for row in found[:8]), encoding="utf-8")
    how = ("mine", "x.en", "x.de", "--threshold", "gold:gold", "--out", "p.parquet", "--device", "cpu")
    code, out, err = isogloss(*how)
    assert code == 0, err
    assert "8 pairs of" in out and "precision 100 %, recall 100 %, F1 100 % by the gold pairs" in out
    page = Path("p.parquet.html").read_text(encoding="utf-8")
    assert "correct by the gold pairs" in page and "by the gold pairs 100 % correct, 100 % found" in page
    told = json.loads(isogloss(*how, "--json")[1])
    at = next(point for point in told["gold_curve"] if point["pairs"] == 8)
    assert at["precision"] == at["recall"] == 1 and told["calibration"]["curve"] and told["estimated_precision"] is not None
    taken = {row[4] for row in found if row[3] == found[0][3]}
    free = next(str(number) for number in range(1, 41) if str(number) not in taken)
    Path("gold").write_text(f"{found[0][3]}\t{free}\n", encoding="utf-8")
    assert "none of the candidates is a gold pair" in isogloss(*how)[1]


def test_a_threshold_that_nothing_reaches(isogloss: Shell) -> None:
    assert "none reaches the threshold 99" in isogloss("mine", "x.en", "x.de", "--threshold", "99", "--device", "cpu")[1]


def test_score_keeps_the_order_and_drops_if_asked(isogloss: Shell) -> None:
    code, out, err = isogloss("score", "en-de.tsv", "--out", "scored.tsv", "--device", "cpu")
    assert code == 0, err
    header, *lines = Path("scored.tsv").read_text(encoding="utf-8").splitlines()
    assert header.split("\t") == ["score", "source", "target", "language", "corpus", "split"]
    assert [line.split("\t")[1] for line in lines] == list(GERMAN)
    assert "40 of 40 pairs → scored.tsv" in out
    scores = sorted(float(line.split("\t")[0]) for line in lines)
    code, out, _ = isogloss("score", "en-de.tsv", "--threshold", scores[30], "--out", "good.jsonl", "--json", "--device", "cpu")
    told = json.loads(out)
    assert code == 0 and told["read"] == 40 and 9 <= told["pairs"] <= 11
    assert len(Path("good.jsonl").read_text(encoding="utf-8").splitlines()) == told["pairs"]
    code, out, _ = isogloss("score", "en-de.tsv", "--threshold", "auto", "--precision", "0.5", "--device", "cpu")
    assert code == 0 and "correct, %" in out and Path("scored.tsv").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mine", "nowhere.en", "x.de"), "nowhere.en: no such file"),
        (("mine", "x.en", "x.de", "--out", "pairs.doc"), "unknown output format"),
        (("mine", "x.en", "x.de", "--out", "x.de"), "unknown output format"),
        (("mine", "x.en", "x.de", "--margin", "cosine"), "margin = 'cosine' is not known"),
        (("mine", "x.en", "x.de", "--strategy", "best"), "strategy = 'best' is not known"),
        (("mine", "x.en", "x.de", "--search", "fast"), "search = 'fast' is not known"),
        (("mine", "x.en", "x.de", "--recall", "0"), "recall = 0.0 is out of range"),
        (("mine", "x.en", "x.de", "--threshold", "high"), "threshold = 'high' is not valid"),
        (("mine", "x.en", "x.de", "--threshold", "gold:none"), "none: no such file"),
        (("mine", "x.en", "x.de", "--memory", "much"), "--memory 'much' is not a size"),
        (("mine", "x.en", "x.de", "--ids"), "x.en line 1: no tab between id and sentence"),
        (("mine", ".", "x.de"), "a folder, but not a prepared store"),
        (("score", "en-de.tsv", "--out", "en-de.tsv"), "is also an input"),
        (("score", "en-de.tsv", "--threshold", "gold:x"), "threshold = 'gold:x' is not valid"),
        (("score", "x.en", "--out", "y.tsv"), "x.en"),
    ],
)
def test_what_is_wrong_is_one_sentence(isogloss: Shell, arguments: tuple[str, ...], message: str) -> None:
    code, _, err = isogloss(*arguments)
    assert code == 2
    assert message in err and "Traceback" not in err and "hint: " in err


def test_mine_says_how_it_searched(isogloss: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    how = ("mine", "x.en", "x.de", "--threshold", "0", "--out", "p.tsv", "--device", "cpu")
    assert "search: exact (comparing all pairs takes about 1 s)" in isogloss(*how)[1]
    assert "of all comparisons would be needed)" in isogloss(*how, "--search", "cells")[1]
    monkeypatch.setattr("isogloss.search.cells.WORTH_IT", 2)  # so few sentences are always compared as quickly
    code, out, err = isogloss(*how, "--search", "cells", "--recall", "0.05")
    assert code == 0, err
    assert "search: cells (copies of both sides fit into memory); index of 0 MiB; recall " in out
    assert "% of neighbors, measured on" in out and not Path("p.tsv.work").exists()
    told = json.loads(isogloss(*how, "--search", "cells", "--recall", "0.05", "--json")[1])["search"]
    assert told["kind"] == "cells" and told["recall_wanted"] == 0.05 and 0 < told["recall"] <= 1 and told["index_bytes"] > 0
    monkeypatch.setitem(sys.modules, "faiss", None)
    monkeypatch.delitem(sys.modules, "isogloss.search.faiss_index", raising=False)
    code, _, err = isogloss(*how, "--search", "hnsw")
    assert code == 2 and "needs the package faiss" in err and "pip install 'isogloss[mining]'" in err


def test_sizes() -> None:
    assert [as_bytes(text) for text in ("", "512", "4k", "1.5M", "2GiB", "1 TB")] == [
        0,
        512,
        4096,
        3 * 2**19,
        2**31,
        2**40,
    ]
    with pytest.raises(IsoglossError, match="is not a size"):
        as_bytes("-1")
