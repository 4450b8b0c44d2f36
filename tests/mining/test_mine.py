"""Mining as a whole: planted translations are found, what is in the way is counted, and files say what was found."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isogloss.config.mining import MiningSettings, ScoringSettings
from isogloss.errors import DataError, IsoglossError
from isogloss.mining.mine import Mined, mine
from isogloss.mining.score import derangement, score
from isogloss.mining.vectors import embedded, remove_work
from isogloss.progress import Step
from isogloss.types import Bitext, Pair
from search.interpreter import Interpreter
from tiny import PAIRS

GERMAN = {pair.source: pair.target for pair in PAIRS if pair.language == "de"}
RUSSIAN = {pair.source: pair.target for pair in PAIRS if pair.language == "ru"}
ANY = MiningSettings(threshold="-9", device="cpu", min_language=0)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    """English with four sentences more than German, which is in another order; one address on both sides, a copy, a blank."""
    english, german = list(GERMAN), list(GERMAN.values())[4:][::-1]
    (tmp_path / "x.en").write_text("\n".join([*english, "www.example.org", english[7], ""]) + "\n", encoding="utf-8")
    (tmp_path / "x.de").write_text("\n".join(["www.example.org", *german]) + "\n", encoding="utf-8")
    return tmp_path / "x.en", tmp_path / "x.de"


def pairs_of(mined: Mined) -> set[tuple[str, str]]:
    return set(zip(mined.pairs["source"].to_pylist(), mined.pairs["target"].to_pylist(), strict=True))


def test_planted_translations_are_found(sides: tuple[Path, Path]) -> None:
    mined = mine(Interpreter(), *sides, MiningSettings(device="cpu", source_language="en", target_language="de"))
    wanted = {(english, german) for english, german in list(GERMAN.items())[4:]}
    assert len(pairs_of(mined) & wanted) >= 33 and len(pairs_of(mined) - wanted) <= 4
    account, other = mined.accounts
    assert (account.read, account.empty, account.duplicate, account.on_both_sides, account.kept) == (43, 1, 1, 1, 40)
    assert (other.on_both_sides, other.kept) == (1, 36)
    scores = mined.pairs["score"].to_numpy()
    assert (np.diff(scores) <= 0).all() and scores.min() >= mined.threshold
    row = mined.pairs.slice(0, 1).to_pylist()[0]
    assert sides[0].read_text().splitlines()[int(row["source_id"]) - 1] == row["source"]
    assert sides[1].read_text().splitlines()[int(row["target_id"]) - 1] == row["target"]
    assert mined.bitext().languages == ("de",) and mined.bitext().source_language == "en"
    told = mined.summary()
    assert told["pairs"] == len(mined) and told["calibration"]["curve"] and told["source"]["kept"] == 40


def test_identical_text_is_found_if_asked_for(sides: tuple[Path, Path]) -> None:
    kept = mine(Interpreter(), *sides, MiningSettings(threshold="0.5", device="cpu", min_language=0, keep_identical=True))
    assert ("www.example.org", "www.example.org") in pairs_of(kept)
    assert ("www.example.org", "www.example.org") not in pairs_of(mine(Interpreter(), *sides, ANY))


def test_threshold_by_gold(sides: tuple[Path, Path], tmp_path: Path) -> None:
    english, german = (path.read_text(encoding="utf-8").splitlines() for path in sides)
    gold = [(english.index(one) + 1, german.index(other) + 1) for one, other in list(GERMAN.items())[4:]]
    gold[3] = (42, gold[3][1])  # the copy of sentence 8 stands for it
    (tmp_path / "gold").write_text("".join(f"{one}\t{other}\n" for one, other in gold), encoding="utf-8")
    mined = mine(Interpreter(), *sides, MiningSettings(threshold=f"gold:{tmp_path / 'gold'}", device="cpu", min_language=0))
    right = len(pairs_of(mined) & set(GERMAN.items()))
    assert mined.gold is not None
    assert mined.gold.precision == pytest.approx(right / len(mined)) and mined.gold.recall == pytest.approx(right / 36)
    assert mined.gold.recall == 1 and mined.summary()["gold"]["f1"] == mined.gold.f1
    assert mined.candidates >= len(mined)
    (tmp_path / "gold").write_text("x\ty\n", encoding="utf-8")
    with pytest.raises(DataError, match="none of its pairs"):
        mine(Interpreter(), *sides, MiningSettings(threshold=f"gold:{tmp_path / 'gold'}", min_language=0))
    (tmp_path / "gold").write_text("1\t2\n\n3 4\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 3: 1 column"):
        mine(Interpreter(), *sides, MiningSettings(threshold=f"gold:{tmp_path / 'gold'}", min_language=0))


@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz", "p.jsonl", "p.jsonl.zst", "p.parquet"])
def test_what_is_written_can_be_read(sides: tuple[Path, Path], tmp_path: Path, name: str) -> None:
    from isogloss.corpora.reading.readers import read

    mined = mine(Interpreter(), *sides, ANY)
    mined.write(tmp_path / name)
    columns = "source=source,target=target,score=score" if "tsv" in name else None
    found = read(tmp_path / name, language="de", columns=columns)
    assert {(pair.source, pair.target) for pair in found} == pairs_of(mined)
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    if name == "p.parquet":
        assert pq.read_table(tmp_path / name).column_names == ["score", "source", "target", "source_id", "target_id"]
    if name == "p.jsonl":
        first = json.loads((tmp_path / name).read_text(encoding="utf-8").splitlines()[0])
        assert first["score"] == pytest.approx(mined.pairs["score"][0].as_py(), abs=1e-6)


def test_vectors_and_neighbors_are_found_again(sides: tuple[Path, Path], tmp_path: Path) -> None:
    how = MiningSettings(threshold="0", device="cpu", folder=tmp_path / "work", min_language=0)
    model = Interpreter()
    first = mine(model, *sides, how)
    assert model.asked == 76
    steps: list[Step] = []
    again = mine(model, *sides, how, steps.append)
    assert model.asked == 76 and again.pairs.equals(first.pairs)
    assert {step.stage: step.note for step in steps if "reused" in step.note}.keys() == {
        "embedding source",
        "embedding target",
        "neighbors",
    }
    remove_work(tmp_path / "work")
    assert not (tmp_path / "work").exists()
    assert mine(model, *sides, how).pairs.equals(first.pairs)
    assert model.asked == 76  # the cache has them


def test_vectors_are_halves_of_what_the_model_says(tmp_path: Path) -> None:
    texts = list(GERMAN)
    rows = embedded("x", pa.array(texts), np.arange(40, dtype=np.uint64), Interpreter(), tmp_path, tmp_path / "cache")
    assert rows.dtype == np.float16 and np.array_equal(rows, Interpreter().encode(texts).astype(np.float16))


def test_a_real_model_mines_too(sides: tuple[Path, Path], models: Path) -> None:
    mined = mine(str(models / "student"), *sides, ANY)
    assert 0 < len(mined) <= 36 and pairs_of(mined) == pairs_of(mine(str(models / "student"), *sides, ANY))


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"margin": "cosine"}, "margin = 'cosine'"),
        ({"strategy": "best"}, "strategy = 'best'"),
        ({"threshold": "high"}, "threshold = 'high'"),
        ({"threshold": "gold:"}, "threshold = 'gold:'"),
        ({"threshold": "nan"}, "threshold = 'nan'"),
        ({"precision": 1.0}, "precision = 1.0"),
        ({"k": 0, "threshold": "1", "min_language": 0}, "k = 0 is out of range"),
    ],
)
def test_nonsense_is_refused_before_the_work(sides: tuple[Path, Path], how: dict[str, Any], message: str) -> None:
    with pytest.raises(IsoglossError, match=message):
        mine(Interpreter(), *sides, MiningSettings(**how))


def test_nothing_left_to_search(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("same\n\n", encoding="utf-8")
    with pytest.raises(DataError, match="no sentence is left") as caught:
        mine(Interpreter(), tmp_path / "a", tmp_path / "b")
    assert "1 were empty, 1 are the same on both sides" in caught.value.hint
    with pytest.raises(DataError, match="both sides cannot be standard input"):
        mine(Interpreter(), "-", "-")


def test_nothing_good_enough(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        words = ["".join(random.choice(list("abcdefgh"), 8)) for _ in range(60)]
        (tmp_path / name).write_text("\n".join(f"{name} {word}" for word in words), encoding="utf-8")
    mined = mine(Interpreter(), tmp_path / "a", tmp_path / "b", MiningSettings(precision=0.99, device="cpu"))
    assert len(mined) < 6
    json.dumps(mined.summary(), allow_nan=False)


def broken(share: int) -> Bitext:
    """Pairs of two languages, of which every `share`-th has the translation of another."""
    pairs = []
    for language, table in (("de", GERMAN), ("ru", RUSSIAN)):
        targets = list(table.values())
        for number, source in enumerate(table):
            wrong = number % share == 0
            pairs.append(Pair(source, targets[(number + 13) % 40] if wrong else targets[number], language, "x"))
    return Bitext.of(pairs)


def test_wrong_lines_score_low() -> None:
    scored = score(Interpreter(), broken(5), ScoringSettings(device="cpu"))
    assert len(scored) == scored.read == 80
    assert scored.pairs.column_names == ["score", "source", "target", "language", "corpus", "split"]
    assert scored.pairs["source"].to_pylist()[:40] == list(GERMAN)  # in their order
    scores = scored.pairs["score"].to_numpy().reshape(2, 40)
    wrong = np.arange(40) % 5 == 0
    assert scores[:, wrong].max() < scores[:, ~wrong].min()


@pytest.mark.parametrize("margin", ["ratio", "distance", "absolute"])
def test_scores_of_pairs_are_those_of_mining(margin: str, sides: tuple[Path, Path]) -> None:
    """Pairs of all sentences with one partner each are scored against the same neighbors as mining sees."""
    how = MiningSettings(threshold="-9", device="cpu", min_language=0, margin=margin, keep_identical=True)  # type: ignore[arg-type]
    mined = mine(Interpreter(), *sides, how)
    by_pair = {(row["source"], row["target"]): row["score"] for row in mined.pairs.to_pylist()}
    partner = {one: other for one, other in by_pair}
    english = [line for line in dict.fromkeys(sides[0].read_text(encoding="utf-8").splitlines()) if line]
    german = sides[1].read_text(encoding="utf-8").splitlines()
    pairs = [Pair(one, partner.get(one, german[0]), "de") for one in english]
    pairs += [Pair(english[0], other, "de") for other in german]
    scored = score(Interpreter(), Bitext.of(pairs), ScoringSettings(device="cpu", margin=margin))  # type: ignore[arg-type]
    for row in scored.pairs.to_pylist():
        if (row["source"], row["target"]) in by_pair:
            assert row["score"] == pytest.approx(by_pair[row["source"], row["target"]], rel=1e-6)


def test_pairs_below_the_threshold_go() -> None:
    every = score(Interpreter(), broken(5), ScoringSettings(device="cpu"))
    for threshold in ("auto", "1.0"):
        scored = score(Interpreter(), broken(5), ScoringSettings(device="cpu", threshold=threshold))
        wrong = [row for row in scored.pairs.to_pylist() if {**GERMAN, **RUSSIAN}.get(row["source"]) is None]
        assert 55 <= len(scored) <= 70 and not wrong
        assert set(scored.thresholds) == {"de", "ru"}
        assert scored.pairs["score"].to_numpy().min() >= min(scored.thresholds.values())
        json.dumps(scored.summary(), allow_nan=False)
    assert len(every) == 80
    with pytest.raises(DataError, match="threshold = 'gold:x'"):
        score(Interpreter(), broken(5), ScoringSettings(threshold="gold:x"))
    with pytest.raises(IsoglossError, match="margin = 'x'"):
        ScoringSettings(margin="x")  # type: ignore[arg-type]


def test_no_pair_stays_together_where_wrong_ones_are_made() -> None:
    for count in range(2, 60):
        rows = np.arange(count)
        mixed = derangement(rows)
        assert sorted(mixed) == rows.tolist() and not (mixed == rows).any()
    assert derangement(np.arange(1)).tolist() == [0]


def test_pairs_that_are_all_right_are_all_kept() -> None:
    """Were one of the wrong pairs a right one, its score would be the least that is taken."""
    for count in range(8, 41):
        right = Bitext.of([Pair(source, target, "de", "x") for source, target in list(GERMAN.items())[:count]])
        scored = score(Interpreter(), right, ScoringSettings(device="cpu", threshold="auto"))
        assert len(scored) == count
