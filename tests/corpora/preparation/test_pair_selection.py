"""Which pairs stay: copies, held-out text, and the slices in which they are compared."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from corpora.stores import prepared
from isogloss.config import CleaningSettings, LeakSettings
from isogloss.corpora.preparation import pair_selection as selecting
from isogloss.corpora.preparation.pair_selection import ScoredPart, Selection
from isogloss.corpora.prepare import prepare
from isogloss.corpora.text.minhash import likeness, signatures
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError
from isogloss.types import Bitext, Pair


def test_slices_of_the_hash_space_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Pair(f"sentence {n % 90}", f"Satz {n % 80}", "de", "c", "") for n in range(300)]
    cleaning = CleaningSettings(duplicates="near")
    whole = prepared(rows, cleaning)
    monkeypatch.setattr(selecting, "ROWS_PER_SLICE", 17)
    assert prepared(rows, cleaning) == whole


def test_a_held_out_copy_stays_before_a_training_copy() -> None:
    rows = [Pair("The cat.", "Die Katze.", "de", "a", "train"), Pair("the cat", "die katze", "de", "b", "test")]
    assert [(pair.corpus, pair.split) for pair in prepared([*rows, Pair("Dogs.", "Hunde.", "de", "a", "train")])] == [
        ("a", "train"),
        ("b", "test"),
    ]


@pytest.mark.parametrize("slices", [1, 9])
@pytest.mark.parametrize(
    ("source", "target"),
    [("The cat.", "Eine Katze."), ("A cat.", "Die Katze."), ("Die Katze.", "Ein Tier."), ("An animal.", "The cat.")],
)
def test_a_training_pair_goes_if_either_side_is_a_side_of_a_test_pair(
    source: str, target: str, slices: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selecting, "ROWS_PER_SLICE", -(-12 // slices))
    others = [Pair(f"Number {n}.", f"Nummer {n}.", "de", "c", "train") for n in range(10)]
    test, leaking = Pair("The cat.", "Die Katze.", "de", "c", "test"), Pair(source, target, "de", "c", "train")
    assert prepared([leaking, test, *others], CleaningSettings(min_language=0), 0) == [test, *others]


@pytest.mark.parametrize(("rows", "slices"), [(0, 1), (7, 1), (8, 2), (14, 2), (15, 3), (21, 3)])
def test_every_hash_is_in_one_slice(rows: int, slices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selecting, "ROWS_PER_SLICE", 7)
    part = ScoredPart(Path(), "c", "de", rows)
    within = list(Selection([part], CleaningSettings(), 0.1, [])._slices())
    edges = [edge + near for number in range(slices + 1) for edge in (number * (2**64 // slices),) for near in (-1, 0, 1)]
    hashes = np.array([*(edge for edge in edges if 0 <= edge < 2**64), 2**64 - 1, 2**63], dtype=np.uint64)
    assert len(within) == slices
    assert np.sum([inside(hashes) for inside in within], axis=0).tolist() == [1] * len(hashes)


def test_all_can_be_held_out() -> None:
    rows = [Pair(f"number {n}", f"Nummer {n}", "de", "c", "") for n in range(50)]
    assert {pair.split for pair in prepared(rows, CleaningSettings(min_language=0), 1.0)} == {"test"}


def test_what_the_leak_scan_takes_is_counted_by_its_level(tmp_path: Path) -> None:
    long = "the quick brown fox jumps over the lazy dog near the river"
    (tmp_path / "guarded.txt").write_text(f"{long}\n", encoding="utf-8")
    sources = [long, long.upper() + "!", f"{long}.", f"I saw that {long} yesterday", "something else"]
    rows = [Pair(source, f"Satz Nummer {n}", "de", "c", "train") for n, source in enumerate(sources)]
    scan = LeakSettings(against=(str(tmp_path / "guarded.txt"),))
    how = CleaningSettings(min_language=0, max_length_ratio=100)
    store = prepare(Bitext.of(rows), how, held_out=0, leaks=scan)
    wanted = {"exact": 1, "normalized": 2, "near": 1}
    assert store.manifest["leak_scan"]["removed"] == {f"in an evaluation set ({level})": n for level, n in wanted.items()}
    assert [pair.source for pair in store.bitext] == ["something else"]


@pytest.mark.parametrize(("level", "kept"), [("keep", 5), ("exact", 4), ("normalized", 3), ("near", 2)])
def test_levels_of_duplicates(level: str, kept: int) -> None:
    base = "a rather long sentence about a small cat that runs home every single evening before it rains"
    other = "ein ziemlich langer Satz über eine kleine Katze die jeden Abend nach Hause läuft bevor es regnet"
    rows = [
        (base, other),
        (base, other),
        (base.upper(), other + "!"),
        (base + " again", other + " wieder"),
        ("Dogs bark.", "Hunde."),
    ]
    cleaning = CleaningSettings(duplicates=level, near=0.7, min_language=0)  # type: ignore[arg-type]
    assert len(prepared([Pair(*row, "de", "c", "train") for row in rows], cleaning, 0)) == kept


def test_a_share_of_the_sources_is_held_out_with_all_translations() -> None:
    rows = [Pair(f"number {n}", f"{code} {n}", code, "c", "") for n in range(2000) for code in ("de", "fr")]
    cleaning = CleaningSettings(min_language=0)
    splits: dict[str, set[str]] = {}
    for pair in prepared(rows, cleaning, 0.1):
        splits.setdefault(pair.source, set()).add(pair.split)
    assert all(len(found) == 1 for found in splits.values())
    assert 0.07 < sum(found == {"test"} for found in splits.values()) / len(splits) < 0.13


def test_long_language_codes_are_told_apart() -> None:
    rows = [Pair("a cat", "貓在這裡", code, "c", "train") for code in ("zh-Hant-TW", "zh-Hant-HK")]
    assert len(prepared(rows, CleaningSettings(min_language=0), 0)) == 2


def test_pairs_without_a_word_have_no_near_copies() -> None:
    with pytest.raises(DataError, match="2 pairs read, none kept") as caught:
        prepared([Pair("!!", "??", "de", "c", ""), Pair("...", "--", "de", "c", "")], CleaningSettings(duplicates="near"))
    assert caught.value.hint == "most by the rule: empty side (2)"


@pytest.mark.parametrize("others", [0, 1, 5])
def test_of_near_copies_the_first_stays_whatever_stands_beside_them(others: int) -> None:
    long = "the quick brown fox jumps over the lazy dog near the river at night"
    rows = [Pair(long + end, f"Nummer {number} lang genug", "de", "c", "") for number, end in enumerate(("", " x", " y"))]
    unlike = ("apples", "bridges", "candles", "doors", "engines")
    rows += [Pair(f"{word} and some more {word} of ours", f"viele {word}", "de", "c", "") for word in unlike[:others]]
    kept = prepared(rows, CleaningSettings(duplicates="near", near=0.7, min_language=0), 0)
    assert [pair.source for pair in kept if pair.source.startswith("the")] == [long] and len(kept) == 1 + others


def test_text_held_out_in_any_part_is_not_trained_on_in_another() -> None:
    held = [Pair(f"Held out {name}.", f"Aus {name}.", "de", name, "test") for name in ("a", "b", "c")]
    leaking = [Pair(pair.source, f"Anders {pair.corpus}.", "de", "d", "train") for pair in held]
    assert prepared([*held, *leaking], CleaningSettings(min_language=0), 0) == held


def test_pairs_that_are_as_alike_as_the_threshold_says_are_near_copies() -> None:
    texts = ["the quick brown fox jumps over the lazy dog near the river at night", "das ist ein langer Satz von vielen Worten"]
    rows = [Pair(texts[0] + end, texts[1] + end, "de", "c", "") for end in ("", " again")]
    one, other = signatures(*(Side(pa.array(side), "") for side in zip(*(row[:2] for row in rows), strict=True)))
    alike = float(likeness(one[None], other[None])[0])
    assert 0.5 < alike < 1
    for near, kept in ((alike, 1), (alike + 1 / 128, 2)):
        assert len(prepared(rows, CleaningSettings(duplicates="near", near=near, min_language=0), 0)) == kept
