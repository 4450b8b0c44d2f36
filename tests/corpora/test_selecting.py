"""Which pairs stay: copies, held-out text, and the slices in which they are compared."""

import pytest

from corpora.stores import prepared
from isogloss.config import CleaningSettings
from isogloss.corpora import selecting
from isogloss.errors import DataError
from isogloss.types import Pair


def test_slices_of_the_hash_space_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Pair(f"sentence {n % 90}", f"Satz {n % 80}", "de", "c", "") for n in range(300)]
    cleaning = CleaningSettings(duplicates="near")
    whole = prepared(rows, cleaning)
    monkeypatch.setattr(selecting, "ROWS_A_SLICE", 17)
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
    monkeypatch.setattr(selecting, "ROWS_A_SLICE", -(-12 // slices))
    others = [Pair(f"Number {n}.", f"Nummer {n}.", "de", "c", "train") for n in range(10)]
    test, leaking = Pair("The cat.", "Die Katze.", "de", "c", "test"), Pair(source, target, "de", "c", "train")
    assert prepared([leaking, test, *others], CleaningSettings(min_language=0), 0) == [test, *others]


@pytest.mark.parametrize(("level", "kept"), [("keep", 5), ("exact", 4), ("normalised", 3), ("near", 2)])
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
    cleaning = CleaningSettings(duplicates=level, near=0.7, min_language=0)
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
    with pytest.raises(DataError, match="no pairs are left of 2") as caught:
        prepared([Pair("!!", "??", "de", "c", ""), Pair("...", "--", "de", "c", "")], CleaningSettings(duplicates="near"))
    assert caught.value.hint == "most went by the rule: empty side (2)"
