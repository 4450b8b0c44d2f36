"""Tokens in one flat array: rows come back, padding is masked, batches by length hold every row once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isogloss.encode.tokens import TokenStore, by_length
from tiny import TEXTS, unigram


def test_rows_are_what_the_tokenizer_gives() -> None:
    tokenizer = unigram()
    store = TokenStore.of(TEXTS, tokenizer, max_tokens=64)
    assert len(store) == len(TEXTS)
    assert [store.row(row).tolist() for row in range(len(TEXTS))] == tokenizer(TEXTS)["input_ids"]


def test_long_rows_are_cut_and_prompts_are_put_first() -> None:
    tokenizer = unigram()
    store = TokenStore.of(["the cat runs home."], tokenizer, max_tokens=4)
    assert store.lengths.tolist() == [4]
    prompted = TokenStore.of(["runs home."], tokenizer, max_tokens=64, prompt="the cat ")
    assert prompted.row(0).tolist() == tokenizer("the cat runs home.")["input_ids"]


def test_padding_is_masked() -> None:
    store = TokenStore.of(["the cat", "the cat runs home."], unigram(), max_tokens=64)
    batch = store.padded([1, 0])
    assert batch["attention_mask"].sum(1).tolist() == [store.lengths[1], store.lengths[0]]
    assert set(batch["input_ids"][1][batch["attention_mask"][1] == 0].tolist()) == {store.pad_id}


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(by_length(np.array(lengths, dtype=np.int64), budget))
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= budget
