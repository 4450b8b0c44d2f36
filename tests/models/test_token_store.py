"""Tokens in one flat array: rows come back, padding is masked, batches by length hold every row once; trimmed or not."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from isogloss.models import token_store as tokens_module
from isogloss.models.token_store import TextTokenizer, TokenStore, by_length
from isogloss.models.vocabulary.coverage import survey
from isogloss.models.vocabulary.resize import with_rows
from isogloss.models.vocabulary.trim import kept_rows
from tiny import TEXTS, unigram

ODD = [
    "",
    " ",
    "the cat </s> runs",
    "<pad>",
    "ждёт автобус " * 30,
    "\n\tthe  cat\n",
    "zzz φιλία 漢字 👩‍👩‍👧",
    "the\u0000cat",
    "ﬁne",
]


def wordpiece() -> PreTrainedTokenizerFast:
    """BERT's way of cutting words, with a left side that is cut first."""
    words = sorted({piece for text in TEXTS for word in text.lower().split() for piece in (word[:3], f"##{word[3:]}")})
    vocabulary = {piece: number for number, piece in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        truncation_side="left",
    )


class Shouting(PreTrainedTokenizerFast):  # type: ignore[misc]
    """A model's own tokenizer class that does something to the text first."""

    def _encode_plus(self, text: Any, *more: Any, **named: Any) -> Any:  # noqa: ANN401 - as in transformers
        return super()._encode_plus([one.upper() for one in text], *more, **named)


def shouting() -> PreTrainedTokenizerFast:
    return Shouting(tokenizer_object=unigram().backend_tokenizer, pad_token="<pad>", unk_token="<unk>")


def rows_of(store: TokenStore) -> list[list[int]]:
    return [store.row(row).tolist() for row in range(len(store))]


def test_rows_are_what_the_tokenizer_gives() -> None:
    tokenizer = unigram()
    store = TextTokenizer(tokenizer, max_tokens=64).store(TEXTS)
    assert len(store) == len(TEXTS)
    assert rows_of(store) == tokenizer(TEXTS)["input_ids"]


@pytest.mark.parametrize("make", [unigram, wordpiece, shouting])
@pytest.mark.parametrize("prompt", ["", "query: "])
def test_the_fast_way_gives_the_wrappers_ids(
    make: Callable[[], PreTrainedTokenizerFast], prompt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens_module, "TEXTS_AT_ONCE", 7)
    tokenizer, texts = make(), [*ODD, *TEXTS[:30]]
    for max_tokens in (5, 64):
        store = TextTokenizer(tokenizer, max_tokens, prompt).store(texts)
        expected = make()([prompt + text for text in texts], truncation=True, max_length=max_tokens)["input_ids"]
        assert rows_of(store) == expected
        tokenizer(TEXTS[:2], padding="max_length", max_length=9)  # leaves its settings in the backend


def test_only_text_that_is_not_touched_goes_the_fast_way() -> None:
    asked: list[int] = []

    class Counting(PreTrainedTokenizerFast):  # type: ignore[misc]
        def _convert_encoding(self, *more: Any, **named: Any) -> Any:  # noqa: ANN401 - as in transformers
            asked.append(1)
            return super()._convert_encoding(*more, **named)

    TextTokenizer(Counting(tokenizer_object=unigram().backend_tokenizer, pad_token="<pad>"), 64).store(TEXTS)
    assert len(asked) == 1


def test_long_rows_are_cut_and_prompts_are_put_first() -> None:
    tokenizer = unigram()
    store = TextTokenizer(tokenizer, max_tokens=4).store(["the cat runs home."])
    assert store.lengths.tolist() == [4]
    prompted = TextTokenizer(tokenizer, max_tokens=64, prompt="the cat ").store(["runs home."])
    assert prompted.row(0).tolist() == tokenizer("the cat runs home.")["input_ids"]


def test_the_key_names_what_ids_depend_on_and_nothing_else() -> None:
    tokenizer = unigram()
    keys = [TextTokenizer(tokenizer, *how).key for how in ((64, ""), (32, ""), (64, "query: "))]
    keys.append(TextTokenizer(unigram(extra=("▁λόγος",)), 64).key)
    keys.append(TextTokenizer(wordpiece(), 64).key)
    assert len(set(keys)) == len(keys)
    tokenizer(TEXTS[:3], padding=True, truncation=True, max_length=7)
    assert TextTokenizer(tokenizer, 64).key == keys[0] == TextTokenizer(unigram(), 64).key


@st.composite
def stores(draw: st.DrawFn) -> TokenStore:
    lengths = np.array(draw(st.lists(st.integers(0, 9), min_size=1, max_size=30)), dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return TokenStore(np.arange(1, offsets[-1] + 1, dtype=np.int32), offsets, pad_id=0)


@given(stores(), st.data())
def test_gathered_and_padded_rows_are_the_rows_one_by_one(store: TokenStore, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(store) - 1), max_size=40))
    expected = [store.row(row).tolist() for row in rows]
    ids, lengths = store.gather(rows)
    assert ids.dtype == np.int32
    assert ids.tolist() == [one for row in expected for one in row]
    assert lengths.tolist() == store.lengths_of(rows).tolist() == [len(row) for row in expected]
    width = max(map(len, expected), default=0)
    batch = store.padded(np.array(rows, dtype=np.int64))
    assert batch["input_ids"].tolist() == [row + [0] * (width - len(row)) for row in expected]
    assert batch["attention_mask"].tolist() == [[1] * len(row) + [0] * (width - len(row)) for row in expected]


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 200))
def test_every_row_is_in_one_batch_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = list(by_length(np.array(lengths, dtype=np.int64), budget))
    assert sorted(row for batch in batches for row in batch.tolist()) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or max(lengths[row] for row in batch) * len(batch) <= budget
    for batch, after in pairwise(batches):
        assert lengths[after[0]] * (len(batch) + 1) > budget  # one more would not have fitted


# ── trimmed since ───────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.sampled_from([*ODD, *TEXTS]), min_size=1, max_size=12), st.sampled_from(["", "query: ", "x"]))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=40, deadline=None)
def test_renumbered_ids_are_those_of_the_trimmed_tokenizer(texts: list[str], prompt: str) -> None:
    full = TextTokenizer(unigram(), 16, prompt)
    store = full.store(texts)
    kept = kept_rows(full.tokenizer, survey(full.tokenizer, {"en": [prompt + text for text in texts]}), "corpus")
    trimmed = TextTokenizer(with_rows(full.tokenizer, kept), 16, prompt)
    expected, found = trimmed.store(texts), store.renumbered(kept, trimmed.pad_id)
    assert len(kept) < len(full.tokenizer) and found.pad_id == expected.pad_id
    assert rows_of(found) == rows_of(expected)
    assert found.ids.tolist() == expected.ids.tolist() and found.ids.dtype == np.int32
    rows = list(range(len(texts)))[::-1]
    assert found.gather(rows)[0].tolist() == expected.gather(rows)[0].tolist()
    assert found.padded(rows)["input_ids"].tolist() == expected.padded(rows)["input_ids"].tolist()
