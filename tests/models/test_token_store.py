"""Tokens in one flat array: rows come back, padding is masked, batches by length hold every row once; on disk as in memory."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from isogloss.models import token_store as tokens_module
from isogloss.models.token_store import IDS, OFFSETS, TextTokenizer, TokenStore, TokenWriter, by_length
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


# ── on disk ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.lists(st.sampled_from([*ODD, *TEXTS]), max_size=6), max_size=6), st.lists(st.integers(0, 5), max_size=3))
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=30, deadline=None)
def test_what_is_written_in_pieces_and_interrupted_is_what_memory_holds(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[list[str]], kills: list[int]
) -> None:
    folder, text_tokenizer = tmp_path_factory.mktemp("tokens"), TextTokenizer(unigram(), 16, "query: ")
    texts = [text for piece in pieces for text in piece]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens_module, "SAVE_SECONDS", 0.0)
        for kill in [*kills, len(pieces)]:
            with TokenWriter(folder, text_tokenizer) as writer:
                done = 0
                for piece in pieces[:kill]:
                    writer.add(piece[max(0, writer.rows - done) :])
                    done += len(piece)
                    assert TokenStore.open(folder) is None
        with TokenWriter(folder, text_tokenizer) as writer:
            writer.finish()
    expected = TextTokenizer(text_tokenizer.tokenizer, 16, "query: ").store(texts)
    for mapped in (True, False):
        store = TokenStore.open(folder, mapped)
        assert store is not None and store.pad_id == expected.pad_id
        assert np.array_equal(store.ids, expected.ids) and np.array_equal(store.offsets, expected.offsets)
        assert store.ids.dtype == np.int32 and store.offsets.dtype == np.int64


def test_a_kill_costs_what_was_not_saved_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text_tokenizer = TextTokenizer(unigram(), 64)
    monkeypatch.setattr(tokens_module, "SAVE_SECONDS", 0.0)
    with TokenWriter(tmp_path, text_tokenizer) as writer:
        writer.add(TEXTS[:5])
    for name in (IDS, OFFSETS):  # written after the last save, and torn
        with (tmp_path / name).open("ab") as handle:
            handle.write(b"\x07" * 13)
    with TokenWriter(tmp_path, text_tokenizer) as writer:
        assert writer.rows == 5
        writer.add(TEXTS[5:9])
        writer.finish()
    store = TokenStore.open(tmp_path)
    assert store is not None and rows_of(store) == unigram()(TEXTS[:9])["input_ids"]


def test_another_tokenizers_beginning_is_not_gone_on_with(tmp_path: Path) -> None:
    for max_tokens in (64, 5):
        with TokenWriter(tmp_path, TextTokenizer(unigram(), max_tokens)) as writer:
            assert writer.rows == 0
            writer.add(TEXTS[:5])
            writer.finish()
    store = TokenStore.open(tmp_path)
    assert store is not None and store.lengths.max() == 5


def test_damaged_files_are_not_opened(tmp_path: Path) -> None:
    assert TokenStore.open(tmp_path / "nowhere") is None
    with TokenWriter(tmp_path, TextTokenizer(unigram(), 64)) as writer:
        writer.add(TEXTS[:5])
        writer.finish()
    whole = (tmp_path / IDS).read_bytes()
    (tmp_path / IDS).write_bytes(whole[:-8])
    assert TokenStore.open(tmp_path) is None
    with TokenWriter(tmp_path, TextTokenizer(unigram(), 64)) as writer:
        assert writer.rows == 0


def test_rows_on_disk_are_mapped_and_not_read(tmp_path: Path) -> None:
    with TokenWriter(tmp_path, TextTokenizer(unigram(), 64)) as writer:
        writer.add(TEXTS)
        writer.finish()
    store = TokenStore.open(tmp_path)
    assert store is not None
    assert isinstance(store.ids.base, np.memmap) and isinstance(store.offsets.base, np.memmap)
