"""Pieces are read without their marks, and written as the other tokenizer itself would write them."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from isogloss.models.vocabulary.pieces import Piece, Speller, Spellings, read_pieces, rows_like
from tiny import TEXTS, unigram
from vocabularies import LETTERS, byte_level, wordpiece

WORDPIECE = wordpiece(words=("sing", "singer"), inside=("er", "s", "in", "sin", "ter"))
SPELLER = Speller(WORDPIECE)


def names(tokenizer: PreTrainedTokenizerFast, spelt: Spellings, place: int = 0) -> list[str]:
    rows = spelt.rows[spelt.offsets[place] : spelt.offsets[place + 1]]
    found: list[str] = tokenizer.convert_ids_to_tokens(rows.tolist())
    return found


def greedy_inside(text: str, vocabulary: dict[str, int]) -> list[str]:
    """WordPiece by its definition, for the middle of a word: at each place the longest piece that continues one."""
    pieces, start = [], 0
    while start < len(text):
        ends = [end for end in range(start + 1, len(text) + 1) if f"##{text[start:end]}" in vocabulary]
        if not ends:
            return []  # one character that cannot be written, and the whole word is unknown
        pieces.append(f"##{text[start : max(ends)]}")
        start = max(ends)
    return pieces


@given(
    st.lists(
        st.sampled_from(["sing", "singer", "er", "ter", "sin", "in", "cat", "s", "g", "я", "ქ"]), min_size=1, max_size=8
    ).map("".join)
)
@settings(deadline=None)
def test_the_inside_of_a_word_is_split_as_wordpiece_goes_on(text: str) -> None:
    spelt = SPELLER.spell([Piece(text, False)])
    assert names(WORDPIECE, spelt) == greedy_inside(text, WORDPIECE.get_vocab())
    assert spelt.same[0] == (f"##{text}" in WORDPIECE.get_vocab())


@given(st.text(alphabet=LETTERS, min_size=1, max_size=12))
@settings(deadline=None)
def test_the_start_of_a_word_is_split_as_the_tokenizer_splits_it(text: str) -> None:
    assert names(WORDPIECE, SPELLER.spell([Piece(text, True)])) == WORDPIECE.tokenize(text)


@pytest.mark.parametrize(
    "tokenizer", [unigram(), wordpiece(inside=("er",)), wordpiece(lowercase=False), byte_level()], ids=lambda one: len(one)
)
def test_every_piece_is_its_own_writing(tokenizer: PreTrainedTokenizerFast) -> None:
    pieces = read_pieces(tokenizer)
    spelt = Speller(tokenizer).spell(list(pieces.values()))
    assert len(pieces) > 90 and not set(pieces) & set(tokenizer.all_special_ids)
    assert spelt.same.all()
    assert spelt.rows.tolist() == list(pieces)


def test_marks_are_understood_across_kinds() -> None:
    def written(text: str, begins: bool | None, tokenizer: PreTrainedTokenizerFast) -> list[str]:
        return names(tokenizer, Speller(tokenizer).spell([Piece(text, begins)]))

    assert read_pieces(unigram())[unigram().get_vocab()["▁cat"]] == Piece("cat", True)
    assert written("cat", True, unigram()) == ["▁cat"]
    assert written("a", False, unigram()) == ["a"] and written("a", True, unigram()) == ["▁a"]
    assert written("cat", True, WORDPIECE) == ["cat"] and written("s", False, WORDPIECE) == ["##s"]
    gpt = byte_level()
    assert written("cat", True, gpt) == gpt.tokenize(" cat") and written("cat", False, gpt) == gpt.tokenize("cat")
    assert Piece("cat", True) in read_pieces(gpt).values()
    assert written("catq", True, gpt) == gpt.tokenize(" catq") != written("catq", False, gpt) == gpt.tokenize("catq")


def test_an_uncased_vocabulary_sees_lower_case_and_a_cased_one_does_not() -> None:
    assert names(WORDPIECE, SPELLER.spell([Piece("Katze", True)])) == ["katze"]
    cased = wordpiece(lowercase=False)
    assert names(cased, Speller(cased).spell([Piece("Katze", True)])) == ["Katze"]
    assert names(cased, Speller(cased).spell([Piece("katze", True)])) == ["k", "##a", "##t", "##z", "##e"]


def test_what_is_cut_off_words_begins_one_wherever_it_stands() -> None:
    """WordPiece writes a comma and a Chinese character the same way behind a letter and behind a space."""
    spelt = SPELLER.spell([Piece(".", False), Piece("漢", False), Piece(".", True), Piece(".s", False)])
    assert [names(WORDPIECE, spelt, place) for place in range(4)] == [["."], ["漢"], ["."], [".", "s"]]
    assert spelt.same.tolist() == [True, True, True, False]
    assert read_pieces(WORDPIECE)[WORDPIECE.get_vocab()["."]].begins is None
    both = unigram(extra=("▁.", "▁,"))
    spelt = Speller(both).spell([Piece(".", None), Piece(",", None)])
    assert [names(both, spelt, place) for place in range(2)] == [["."], ["▁,"]], "behind a letter first, where it mostly is"


def test_unknown_text_is_written_with_nothing() -> None:
    spelt = SPELLER.spell([Piece("ქარი", True), Piece("", True), Piece("cat", True)])
    assert spelt.known.tolist() == [False, False, True]
    assert Speller(unigram()).spell([Piece("ქ", False)]).known.tolist() == [False]


def test_no_text_is_read_from_control_tokens_spare_rows_and_half_characters() -> None:
    assert not {"[CLS]", "[unused0]"} & {piece.text for piece in read_pieces(WORDPIECE).values()}
    gpt = byte_level()
    assert gpt.get_vocab()["Ð"] not in read_pieces(gpt), "the first byte of two is no letter yet"


def test_a_tokenizer_that_was_cut_and_padded_is_read_whole() -> None:
    """Fast tokenizers remember the truncation and padding of their last call."""
    tokenizer = wordpiece(inside=("er",))
    tokenizer(TEXTS[:2], truncation=True, max_length=3, padding="max_length")
    assert names(tokenizer, Speller(tokenizer).spell([Piece("zzzzzz", True)])) == ["z", *["##z"] * 5]


def test_new_rows_are_averages_or_drawn_like_the_table() -> None:
    table = torch.randn(50, 400, generator=torch.Generator().manual_seed(1)) * 3 + 5
    spelt = Spellings(np.array([3, 4, 4, 9]), np.array([0, 1, 1, 4, 4]), np.array([True, False, False, False]))
    rows = rows_like(table, spelt, seed=5)
    assert torch.equal(rows[0], table[3])
    assert torch.allclose(rows[2], (2 * table[4] + table[9]) / 3)
    drawn = (rows[[1, 3]] - table.mean(0)) / table.std(0)
    assert not torch.equal(rows[1], rows[3])
    assert abs(float(drawn.mean())) < 0.1 and abs(float(drawn.std()) - 1) < 0.1
    assert torch.equal(rows, rows_like(table, spelt, seed=5)) and not torch.equal(rows, rows_like(table, spelt, seed=6))
