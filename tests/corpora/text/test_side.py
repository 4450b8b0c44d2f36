"""A side as arrays, against loops over its strings."""

import itertools
import unicodedata

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from isogloss.corpora.text import characters
from isogloss.corpora.text.arrays import count_marked
from isogloss.corpora.text.side import Side

TEXTS = st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=10)


def is_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc")


@given(texts=TEXTS)
@example(texts=["\U000e0100", "葛\U000e0101", "\U00032000"])
def test_views_agree_with_the_strings(texts: list[str]) -> None:
    side = Side(pa.array(texts, pa.string()), "xx")
    assert side.lengths.tolist() == [len(text) for text in texts]
    assert side.byte_lengths.tolist() == [len(text.encode()) for text in texts]
    assert "".join(map(chr, side.codes)) == "".join(texts)
    assert side.count(side.wordlike).tolist() == [sum(map(is_word, text)) for text in texts]


@given(texts=TEXTS, start=st.integers(0, 5))
def test_a_slice_of_a_longer_array_is_seen_as_itself(texts: list[str], start: int) -> None:
    part = pa.array(texts, pa.string()).slice(start)
    side = Side(part, "xx")
    assert side.texts.to_pylist() == texts[start:]
    assert "".join(map(chr, side.codes)) == "".join(texts[start:])


def test_words_and_unspaced_characters_are_tokens() -> None:
    side = Side(pa.array(["Don't stop, now!", "猫が走る", "", "2nd 犬cat"]), "xx")
    starts = (side.codes != 32) & ~side.continues
    # Don ' t stop , now !   猫 が 走 る   –   2nd 犬 cat
    assert side.count(starts).tolist() == [7, 4, 0, 3]
    names, owner, alone = side.tokens
    assert np.bincount(owner, minlength=4).tolist() == [4, 4, 0, 3]
    assert alone.sum() == 5
    assert len(set(names.tolist())) == len(names)


@given(st.lists(st.booleans(), max_size=40), st.lists(st.integers(0, 40), max_size=6))
def test_marks_are_counted_per_span(marked: list[bool], cuts: list[int]) -> None:
    starts = np.array(sorted(min(cut, len(marked)) for cut in [0, *cuts, len(marked)]), dtype=np.int64)
    wanted = [sum(marked[a:b]) for a, b in itertools.pairwise(starts)]
    assert count_marked(np.array(marked, dtype=bool), starts).tolist() == wanted


def test_scripts_digits_and_case_of_known_characters() -> None:
    names = {
        "a": "Latn",
        "ж": "Cyrl",
        "ქ": "Geor",
        "한": "Hang",
        "の": "Kana",
        "漢": "Hani",
        "ا": "Arab",
        "ก": "Thai",
    }
    for character, script in names.items():
        assert characters.SCRIPTS[characters.scripts()[ord(character)]] == script
    assert characters.scripts()[ord("5")] == characters.scripts()[ord("!")] == 0
    assert [characters.digits()[ord(one)] for one in "7٧७"] == [7, 7, 7]
    assert characters.digits()[ord("x")] == characters.NO_DIGIT
    assert chr(characters.lower_case()[ord("Ä")]) == "ä"
