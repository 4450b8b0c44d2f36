"""Trimming is exact: text whose pieces are kept gets the same pieces and the same vector."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE, WordPiece
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

from isogloss.errors import ModelError
from isogloss.models.student import Student
from isogloss.models.vocabulary.alphabets import Alphabet, letters_of, script_of
from isogloss.models.vocabulary.coverage import survey
from isogloss.models.vocabulary.resize import with_rows
from isogloss.models.vocabulary.trim import kept_rows
from isogloss.types import IntArray
from tiny import PAIRS, TEXTS, unigram

BY_LANGUAGE = {
    "en": [pair.source for pair in PAIRS],
    "de": [pair.target for pair in PAIRS if pair.language == "de"],
    "ru": [pair.target for pair in PAIRS if pair.language == "ru"],
}
SENTENCE = st.lists(
    st.sampled_from(sorted({word for text in TEXTS for word in text.split()} | {"Brotlied", "catdog", "Ω", "φ", "123"})),
    min_size=1,
    max_size=12,
).map(" ".join)


@cache
def trimmed_by(how: str) -> tuple[PreTrainedTokenizerFast, IntArray, PreTrainedTokenizerFast]:
    full = unigram()
    keep = kept_rows(full, survey(full, BY_LANGUAGE), how)
    return full, keep, with_rows(full, keep)


@pytest.mark.parametrize("how", ["alphabet", "corpus"])
@given(text=SENTENCE)
@settings(deadline=None)
def test_covered_text_gets_the_same_pieces(how: str, text: str) -> None:
    full, keep, trimmed = trimmed_by(how)
    rows = full(text)["input_ids"]
    if set(rows) <= set(keep.tolist()):
        assert [int(keep[row]) for row in trimmed(text)["input_ids"]] == rows
    assert trimmed.unk_token_id is not None and trimmed.pad_token_id is not None


def test_vectors_are_exactly_the_same(models: Path) -> None:
    full, trimmed = Student.from_pretrained(str(models / "student")), Student.from_pretrained(str(models / "student"))
    done = trimmed.trim(BY_LANGUAGE, "alphabet")
    assert done.rows_after < done.rows_before
    assert done.coverage == 1.0
    assert np.array_equal(full.encode(TEXTS), trimmed.encode(TEXTS))


def test_the_prompt_keeps_its_pieces(models: Path) -> None:
    full, trimmed = (Student.from_pretrained(str(models / "student"), prompt="φιλία ") for _ in range(2))
    trimmed.trim(BY_LANGUAGE, "corpus")
    assert np.array_equal(full.encode(TEXTS[:6]), trimmed.encode(TEXTS[:6]))


def test_one_language_keeps_less(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    done = student.trim({"en": BY_LANGUAGE["en"]}, "alphabet")
    vocabulary = student.tokenizer.get_vocab()
    assert "▁кошка" not in vocabulary and "▁cat" in vocabulary
    assert done.rows_after == student.body.get_input_embeddings().weight.shape[0] == student.body.config.vocab_size


def test_unknown_characters_keep_their_price() -> None:
    """Unigram prices <unk> by the lowest score: dropping that piece would move segmentations around unknown letters."""
    full = unigram()
    keep = kept_rows(full, survey(full, BY_LANGUAGE), "corpus")
    assert "▁φιλία" in with_rows(full, keep).get_vocab()


def test_a_prompt_keeps_its_pieces_but_is_no_language() -> None:
    """A Latin prompt must not open the whole Latin script, as the text of a language that is not listed would."""
    full = unigram(extra=("▁část", "▁query"))
    russian = survey(full, {"ru": BY_LANGUAGE["ru"]})
    kept = with_rows(full, kept_rows(full, russian, "alphabet", also=["φιλία: "])).get_vocab()
    assert "▁query" in kept and "▁φιλία" in kept and "▁část" not in kept
    without = with_rows(full, kept_rows(full, survey(full, {"ru": ["кошка"]}), "corpus", also=["the cat"])).get_vocab()
    assert "▁cat" in without and "▁dog" not in without


def test_what_trimming_saved_is_what_the_model_lost(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    before = sum(parameter.numel() for parameter in student.model.parameters())
    done = student.trim({"en": BY_LANGUAGE["en"]}, "corpus")
    assert done.parameters_saved == before - sum(parameter.numel() for parameter in student.model.parameters()) > 0
    assert done.megabytes_saved == pytest.approx(done.parameters_saved * 4 / 1e6)
    told = done.as_dict()
    assert told["rows_after"] == len(student.tokenizer) and told["parameters_saved"] == done.parameters_saved
    assert told["languages"]["en"]["kept"] == told["coverage"] == 1.0
    json.dumps(told)


def test_text_may_stream_by_in_blocks_and_is_read_once(models: Path) -> None:
    whole, streamed = (Student.from_pretrained(str(models / "student")) for _ in range(2))
    wanted = whole.trim(BY_LANGUAGE, "corpus")
    blocks = ((language, texts[start : start + 7]) for start in range(0, 80, 7) for language, texts in BY_LANGUAGE.items())
    assert streamed.trim(blocks, "corpus") == wanted
    assert streamed.tokenizer.get_vocab() == whole.tokenizer.get_vocab()


def test_other_text_tells_what_was_lost(models: Path) -> None:
    """Trimmed to English, measured on Russian: pieces are gone, and what they fall into is counted as the model sees it."""
    student = Student.from_pretrained(str(models / "student"))
    done = student.trim({"en": BY_LANGUAGE["en"]}, "alphabet", measured_on=((name, BY_LANGUAGE[name]) for name in ("en", "ru")))
    english, russian = done.languages["en"], done.languages["ru"]
    assert english["kept"] == 1.0 and english["unknown_after"] == english["unknown_before"] == 0.0
    assert russian["kept"] < 0.3 and done.coverage < 0.8
    rows = [row for text in BY_LANGUAGE["ru"] for row in student.tokenizer(text, add_special_tokens=False)["input_ids"]]
    assert russian["unknown_after"] == rows.count(student.tokenizer.unk_token_id) / len(rows) > 0.3
    assert russian["unknown_before"] == 0.0
    assert done.as_dict()["languages"]["ru"]["kept"] == round(russian["kept"], 6)


def test_added_tokens_behind_the_vocabulary_stay_themselves() -> None:
    """XLM-R's <mask> is no piece of its Unigram model but stands behind it."""
    full = unigram()
    full.add_special_tokens({"mask_token": "<mask>"})
    keep = kept_rows(full, survey(full, {"en": BY_LANGUAGE["en"]}), "corpus")
    trimmed = with_rows(full, keep)
    assert trimmed.mask_token_id == len(keep) - 1 == len(trimmed) - 1
    text = "the <mask> sleeps"
    assert [int(keep[row]) for row in trimmed(text)["input_ids"]] == full(text)["input_ids"]


def test_wordpiece_is_trimmed_and_bpe_is_refused() -> None:
    pieces = ["[UNK]", "[PAD]", "stone", "##s", "камень", "s"]
    wordpiece = Tokenizer(WordPiece({piece: row for row, piece in enumerate(pieces)}, unk_token="[UNK]"))
    wordpiece.pre_tokenizer = Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=wordpiece, unk_token="[UNK]", pad_token="[PAD]")
    trimmed = with_rows(wrapped, kept_rows(wrapped, survey(wrapped, {"en": ["stones"]}), "alphabet"))
    assert trimmed.tokenize("stones") == ["stone", "##s"]
    assert "камень" not in trimmed.get_vocab()
    bpe = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(BPE({"a": 0, "<unk>": 1}, [], unk_token="<unk>")), unk_token="<unk>"
    )
    with pytest.raises(ModelError, match="a BPE vocabulary cannot be trimmed"):
        with_rows(bpe, np.array([1]))


def test_alphabets_know_scripts_and_letters() -> None:
    assert (script_of("ß"), script_of("я"), script_of("漢"), script_of("7")) == ("LATIN", "CYRILLIC", "CJK", "")
    assert letters_of("xx") is None
    german = Alphabet({"de": ["Straße"]})
    assert german.can_spell("Größe") and german.can_spell("2026!")
    assert not german.can_spell("část") and not german.can_spell("улица")
    unlisted = Alphabet({"xx": ["łódź"]})
    assert unlisted.can_spell("část")
