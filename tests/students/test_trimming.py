"""Trimming is exact: text whose pieces are kept gets the same pieces and the same vector."""

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
from isogloss.students.alphabets import Alphabet, letters_of, script_of
from isogloss.students.student import Student
from isogloss.students.trimming import coverage, kept_rows, trim_tokenizer
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


@pytest.mark.parametrize("how", ["alphabet", "corpus"])
@given(text=SENTENCE)
@settings(deadline=None)
def test_covered_text_gets_the_same_pieces(how: str, text: str) -> None:
    full = unigram()
    keep = kept_rows(full, BY_LANGUAGE, how)
    trimmed = trim_tokenizer(full, keep)
    rows = full(text)["input_ids"]
    if set(rows) <= set(keep.tolist()):
        assert [int(keep[row]) for row in trimmed(text)["input_ids"]] == rows
    assert trimmed.unk_token_id is not None and trimmed.pad_token_id is not None


def test_vectors_are_exactly_the_same(models: Path) -> None:
    full, trimmed = Student.load(str(models / "student")), Student.load(str(models / "student"))
    done = trimmed.trim(BY_LANGUAGE, "alphabet")
    assert done.rows_after < done.rows_before
    assert done.coverage == 1.0
    assert np.array_equal(full.encode(TEXTS), trimmed.encode(TEXTS))


def test_the_prompt_keeps_its_pieces(models: Path) -> None:
    full, trimmed = (Student.load(str(models / "student"), prompt="φιλία ") for _ in range(2))
    trimmed.trim(BY_LANGUAGE, "corpus")
    assert np.array_equal(full.encode(TEXTS[:6]), trimmed.encode(TEXTS[:6]))


def test_one_language_keeps_less(models: Path) -> None:
    student = Student.load(str(models / "student"))
    done = student.trim({"en": BY_LANGUAGE["en"]}, "alphabet")
    vocabulary = student.tokenizer.get_vocab()
    assert "▁кошка" not in vocabulary and "▁cat" in vocabulary
    assert done.rows_after == student.body.get_input_embeddings().weight.shape[0] == student.body.config.vocab_size


def test_unknown_characters_keep_their_price() -> None:
    """Unigram prices <unk> by the lowest score: dropping that piece would move segmentations around unknown letters."""
    full = unigram()
    keep = kept_rows(full, BY_LANGUAGE, "corpus")
    assert "▁φιλία" in trim_tokenizer(full, keep).get_vocab()


def test_coverage_counts_lost_tokens() -> None:
    full = unigram()
    english = kept_rows(full, {"en": BY_LANGUAGE["en"]}, "alphabet")
    assert coverage(full, english, BY_LANGUAGE["en"]) == 1.0
    assert coverage(full, english, BY_LANGUAGE["ru"]) < 0.7


def test_wordpiece_is_trimmed_and_bpe_is_refused() -> None:
    pieces = ["[UNK]", "[PAD]", "stone", "##s", "камень", "s"]
    wordpiece = Tokenizer(WordPiece({piece: row for row, piece in enumerate(pieces)}, unk_token="[UNK]"))
    wordpiece.pre_tokenizer = Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=wordpiece, unk_token="[UNK]", pad_token="[PAD]")
    trimmed = trim_tokenizer(wrapped, kept_rows(wrapped, {"en": ["stones"]}, "alphabet"))
    assert trimmed.tokenize("stones") == ["stone", "##s"]
    assert "камень" not in trimmed.get_vocab()
    bpe = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(BPE({"a": 0, "<unk>": 1}, [], unk_token="<unk>")), unk_token="<unk>"
    )
    with pytest.raises(ModelError, match="a BPE vocabulary cannot be trimmed"):
        trim_tokenizer(bpe, np.array([0, 1]))


def test_alphabets_know_scripts_and_letters() -> None:
    assert (script_of("ß"), script_of("я"), script_of("漢"), script_of("7")) == ("LATIN", "CYRILLIC", "CJK", "")
    assert letters_of("xx") is None
    german = Alphabet({"de": ["Straße"]})
    assert german.can_spell("Größe") and german.can_spell("2026!")
    assert not german.can_spell("část") and not german.can_spell("улица")
    unlisted = Alphabet({"xx": ["łódź"]})
    assert unlisted.can_spell("část")
