"""Rows of a tokenizer in another order, fewer or more: texts get the same pieces under their new numbers."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from isogloss.models.vocabulary.resize import NewPiece, unigram_scores, with_pieces, with_rows
from tiny import TEXTS, unigram
from vocabularies import byte_level, wordpiece


def masked_unigram() -> PreTrainedTokenizerFast:
    """With <mask> behind the vocabulary, as XLM-R has it."""
    tokenizer = unigram()
    tokenizer.add_special_tokens({"mask_token": "<mask>"})
    return tokenizer


@pytest.mark.parametrize("kind", [unigram, masked_unigram, wordpiece, byte_level])
@given(seed=st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=10)
def test_any_order_gives_the_same_pieces(kind: Callable[[], PreTrainedTokenizerFast], seed: int) -> None:
    old = kind()
    order = np.random.default_rng(seed).permutation(len(old))
    new = with_rows(old, order)
    for text in [*TEXTS[:6], "Ω the cat <mask>", ""]:
        assert [int(order[row]) for row in new(text)["input_ids"]] == old(text)["input_ids"]
    pair = new(TEXTS[0], TEXTS[1])["input_ids"]
    assert [int(order[row]) for row in pair] == old(TEXTS[0], TEXTS[1])["input_ids"]
    for role in ("pad", "unk", "cls", "sep", "mask"):
        row = getattr(new, f"{role}_token_id")
        assert (None if row is None else int(order[row])) == getattr(old, f"{role}_token_id")
    assert new.model_max_length == old.model_max_length


def test_scores_are_known_of_unigram_vocabularies_only() -> None:
    scores = unigram_scores(unigram())
    assert scores is not None and scores["▁φιλία"] == -14.0 == min(scores.values())
    assert unigram_scores(wordpiece()) is None
    grown = unigram_scores(with_pieces(unigram(), [NewPiece("▁neu", -3.5)]))
    assert grown == scores | {"▁neu": -3.5}


@pytest.mark.parametrize("kind", [unigram, masked_unigram, wordpiece])
def test_more_pieces_leave_every_number_as_it_was(kind: Callable[[], PreTrainedTokenizerFast]) -> None:
    old = kind()
    new = with_pieces(old, [NewPiece("▁neu", -3.5), NewPiece("neu", -4.0)])
    before, after = old.get_vocab(), new.get_vocab()
    assert {piece: after[piece] for piece in before} == before
    assert (after["▁neu"], after["neu"]) == (len(old), len(old) + 1)
    assert new("the cat <mask>")["input_ids"] == old("the cat <mask>")["input_ids"]
