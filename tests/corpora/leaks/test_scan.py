"""The leak scan finds what it should, at the right level, and nothing else."""

import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.leaks import scan as leaks
from isogloss.corpora.leaks.scan import CLEAN, EXACT, LEVELS, NEAR, NORMALIZED, LeakScanner, ScannedSet, scanned_before
from isogloss.corpora.text.hashing import Hashes, among, mix
from isogloss.corpora.text.side import Side
from isogloss.types import BoolArray

LONG = "the quick brown fox jumps over the lazy dog near the river"


def check(guarded: list[str], texts: list[str], level: str = "near") -> list[int]:
    guard = LeakScanner([("set", pa.array(guarded, pa.string()))], level)
    found: list[int] = guard.check(Side(pa.array(texts, pa.string()), "")).tolist()
    return found


def test_each_level() -> None:
    texts = [LONG, LONG.upper() + "!", f"I saw that {LONG} yesterday", "the quick brown fox", "else"]
    assert check([LONG], texts) == [EXACT, NORMALIZED, NEAR, CLEAN, CLEAN]
    assert check([LONG], texts, "normalized") == [EXACT, NORMALIZED, CLEAN, CLEAN, CLEAN]
    assert check([LONG], texts, "exact") == [EXACT, CLEAN, CLEAN, CLEAN, CLEAN]
    assert check([LONG], texts, "off") == [CLEAN] * 5


def test_eight_words_in_a_row_are_needed_and_enough() -> None:
    words = LONG.split()
    around = "well {} indeed"
    assert check([LONG], [around.format(" ".join(words[2:10])), around.format(" ".join(words[2:9]))]) == [NEAR, CLEAN]
    assert check([" ".join(words[:8])], [" ".join(words[:8]) + " x", "x " + " ".join(words[:8])]) == [NEAR, NEAR]
    assert check([" ".join(words[:7])], [" ".join(words[:7]) + " x"]) == [CLEAN]


def test_words_of_two_sentences_are_not_in_a_row() -> None:
    words = LONG.split()
    parts = [" ".join(words[:6]), " ".join(words[6:])]
    assert check([LONG], parts) == [CLEAN, CLEAN]
    assert check(parts, [LONG]) == [CLEAN]
    assert check([LONG, "x"], [*parts, f"x {LONG}", "x x x x x x x"]) == [CLEAN, CLEAN, NEAR, CLEAN]


def test_one_letter_is_enough_to_be_normalised() -> None:
    assert check(["A!"], ["a", "b", "!"]) == [NORMALIZED, CLEAN, CLEAN]


def test_unspaced_scripts_need_sixteen_characters_in_a_row() -> None:
    text = "我今天早上在公园里看见了一只很漂亮的小猫"
    assert check([text], ["昨天" + text[:16], "昨天" + text[:15], text]) == [NEAR, CLEAN, EXACT]


def test_text_without_letters_is_not_normalised_to_nothing() -> None:
    assert check(["…", "!!!"], ["???", "…", ""]) == [CLEAN, EXACT, CLEAN]


def test_a_text_is_found_whatever_its_spaces_and_composition() -> None:
    assert check(["cafe\u0301  au lait"], ["café au lait"]) == [EXACT]


WORDS = st.lists(st.lists(st.sampled_from(["a", "b", "C", "d,", "é"]), max_size=14).map(" ".join), max_size=6)


@given(guarded=WORDS, texts=WORDS)
def test_against_loops(guarded: list[str], texts: list[str]) -> None:
    def plain(text: str) -> str:
        return re.sub(r"\W", "", text.lower())

    def runs(text: str) -> set[tuple[str, ...]]:
        words = re.findall(r"\w+", text.lower())
        return {tuple(words[place : place + 8]) for place in range(len(words) - 7)}

    known = {run for text in guarded for run in runs(text)}

    def level(text: str) -> int:
        if text in guarded:
            return EXACT
        if plain(text) and plain(text) in {plain(one) for one in guarded}:
            return NORMALIZED
        return NEAR if runs(text) & known else CLEAN

    assert check(guarded, texts) == [level(text) for text in texts]


def test_each_set_has_a_name_by_its_own_texts() -> None:
    texts = {"x": ["a", "b"], "y": ["c"], "z": ["d", "e", "f"]}
    together = LeakScanner([(name, pa.array(own)) for name, own in texts.items()]).sets
    alone = [LeakScanner([(name, pa.array(own))]).sets[0] for name, own in texts.items()]
    assert together == alone and len({one.hash for one in alone}) == 3
    assert not any(one.before for one in alone) and all(len(one.hash) == 16 for one in alone)


def test_a_bitmap_says_no_at_once_to_nearly_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand hashes take one place in 32 of it: so many of the others have to be looked up."""
    looked_up: list[int] = []

    def counting(hashes: Hashes, known: Hashes) -> BoolArray:
        looked_up.append(len(hashes))
        return among(hashes, known)

    monkeypatch.setattr(leaks, "among", counting)
    numbers = mix(np.arange(101_000, dtype=np.uint64))
    known = leaks.HashSet([numbers[:400], numbers[400:1000], numbers[:9]])
    assert known.has(numbers).tolist() == [True] * 1000 + [False] * 100_000
    assert 1 / 36 < (looked_up[0] - 1000) / 100_000 < 1 / 30
    assert not leaks.HashSet([]).has(numbers).any()


def test_the_name_of_a_guard_is_made_from_its_texts_and_level() -> None:
    one, same = LeakScanner([("x", pa.array(["a", "b"]))]), LeakScanner([("y", pa.array(["b", "a"]))])
    assert one.key == same.key != LeakScanner([("x", pa.array(["a", "c"]))]).key
    assert one.key != LeakScanner([("x", pa.array(["a", "b"]))], "exact").key and len(one.key) == 16
    assert [(found.name, found.texts) for found in one.sets] == [("x", 2)]


SETS = st.lists(
    st.builds(ScannedSet, st.just("set"), st.just(7), st.sampled_from("abc"), st.sampled_from(LEVELS[1:])),
    max_size=3,
    unique_by=lambda one: one.hash,
)


@given(inputs=st.lists(SETS, max_size=3), now=SETS)
def test_only_what_all_inputs_were_scanned_for_counts(inputs: list[list[ScannedSet]], now: list[ScannedSet]) -> None:
    found = {one.hash: one for one in scanned_before(inputs, now)}
    assert all(one.before for one in found.values())
    for name in "abc":
        levels = [LEVELS.index(one.level) for sets in inputs for one in sets if one.hash == name]
        least = min(levels) if levels and len(levels) == len(inputs) else 0
        done = max((LEVELS.index(one.level) for one in now if one.hash == name), default=0)
        assert (name in found) == (least > done)
        if name in found:
            assert LEVELS.index(found[name].level) == least


def test_one_unspaced_character_makes_a_window_of_the_other_kind() -> None:
    """Eight words, one of them a single character of an unspaced script, are no run of spaced words: sixteen are needed."""
    spaced = LONG.split()
    for place in range(8):
        words = [*spaced[:place], "猫", *spaced[place:7]]
        assert check([" ".join(words)], [" ".join([*words, "x"]), " ".join(["x", *words])]) == [CLEAN, CLEAN], words
    assert check([f"猫 {LONG}"], [f"x {LONG}"]) == [NEAR], "the eight words after it are"
    assert check([f"{LONG} 猫"], [f"{LONG} x"]) == [NEAR], "and so are those before it"
