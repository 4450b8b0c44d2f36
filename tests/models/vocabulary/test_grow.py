"""Growing: old rows and old segmentations stay, the new language is cut as the fuller vocabulary cuts it."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

from isogloss.errors import ModelError
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.models.vocabulary.coverage import survey
from isogloss.models.vocabulary.grow import changed_segmentations, needed_pieces, original_rows
from isogloss.models.vocabulary.resize import NewPiece, with_pieces, with_rows
from isogloss.models.vocabulary.trim import kept_rows
from tiny import PAIRS, unigram
from vocabularies import byte_level, wordpiece

ENGLISH = [pair.source for pair in PAIRS]
RUSSIAN = [pair.target for pair in PAIRS if pair.language == "ru"]
GERMAN = [pair.target for pair in PAIRS if pair.language == "de"]
WORDS = sorted({word for text in ENGLISH + GERMAN + RUSSIAN for word in text.split()} | {"Brotlied", "catdog", "Ω", "кот"})
SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)


@cache
def grown_unigram() -> tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast, PreTrainedTokenizerFast]:
    """The fuller vocabulary, one trimmed to English, and that one grown by what Russian text uses."""
    fuller = unigram()
    trimmed = with_rows(fuller, kept_rows(fuller, survey(fuller, {"en": ENGLISH}), "alphabet"))
    return fuller, trimmed, with_pieces(trimmed, needed_pieces(fuller, trimmed, {"ru": RUSSIAN}))


@given(text=SENTENCE)
@settings(deadline=None)
def test_old_text_is_cut_as_before_and_new_text_as_by_the_fuller_vocabulary(text: str) -> None:
    fuller, trimmed, grown = grown_unigram()
    full, old, new = fuller.tokenize(text), trimmed.tokenize(text), grown.tokenize(text)
    if set(full) <= set(trimmed.get_vocab()):
        assert new == old == full
    if set(full) <= set(grown.get_vocab()):
        assert new == full
    if new != old:
        assert set(new) - set(trimmed.get_vocab()), "text changes only where a new piece is used"


def test_unigram_pieces_come_with_their_scores_and_leave_the_numbers_alone() -> None:
    fuller, trimmed, grown = grown_unigram()
    before, after = trimmed.get_vocab(), grown.get_vocab()
    assert {piece: after[piece] for piece in before} == before
    assert sorted(after.values()) == list(range(len(grown)))
    assert "▁кошка" in after and "▁кошка" not in before and "▁schläft" not in after
    assert all(fuller.tokenize(text) == grown.tokenize(text) for text in RUSSIAN + ENGLISH)
    assert all(grown(text)["input_ids"] == trimmed(text)["input_ids"] for text in ENGLISH)
    spelled = needed_pieces(fuller, trimmed, {"ru": RUSSIAN[:2]}, "alphabet")
    assert {"▁собака", "ж"} <= {piece for piece, _ in spelled}


def test_a_mask_behind_the_vocabulary_keeps_its_number() -> None:
    fuller = unigram()
    fuller.add_special_tokens({"mask_token": "<mask>"})
    trimmed = with_rows(fuller, kept_rows(fuller, survey(fuller, {"en": ENGLISH}), "corpus"))
    grown = with_pieces(trimmed, needed_pieces(fuller, trimmed, {"ru": RUSSIAN}))
    assert grown.mask_token_id == trimmed.mask_token_id == len(trimmed) - 1
    assert grown.tokenize("<mask> кошка") == ["<mask>", "▁кошка"]


def test_rows_are_given_averaged_or_drawn_and_old_ones_untouched(models: Path, tmp_path: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    fuller, original = student.tokenizer, student.table.detach().clone()
    student.trim({"en": ENGLISH}, "alphabet")
    old, vectors, trimmed = student.table.detach().clone(), student.encode(ENGLISH), student.tokenizer
    pieces = [*needed_pieces(fuller, trimmed, {"ru": RUSSIAN}), NewPiece("▁catdog", -5.0), NewPiece("fox", -6.0)]
    only = original_rows(original, fuller, [piece for piece in pieces if piece.piece == "▁кошка"])
    growth = student.grow(pieces, only, old_texts={"en": ENGLISH, "xx": ["catdog", "the cat", "catdog runs", "a child"]})
    table, row_of = student.table.detach(), student.tokenizer.get_vocab()
    assert torch.equal(table[: len(old)], old)
    assert np.array_equal(student.encode(ENGLISH), vectors)
    assert torch.equal(table[row_of["▁кошка"]], original[fuller.get_vocab()["▁кошка"]])

    def mean(tokens: list[str]) -> torch.Tensor:
        rows = [trimmed.get_vocab()[token] for token in tokens if token in trimmed.get_vocab()]
        return old[rows].mean(0)

    assert torch.allclose(table[row_of["▁catdog"]], mean(trimmed.tokenize("catdog")), atol=1e-6)
    assert trimmed.tokenize("catdog")[0] == "▁cat"
    assert torch.allclose(table[row_of["fox"]], mean(["f", "o", "x"]), atol=1e-6)
    drawn = (table[row_of["о"]] - old.mean(0)) / old.std(0)
    assert 0 < float(drawn.abs().max()) < 5
    assert growth.given == 1 and growth.given + growth.averaged + growth.unknown == len(pieces)
    assert growth.rows_after == growth.rows_before + len(pieces) == len(table) == student.body.config.vocab_size
    assert growth.changed == {"en": 0.0, "xx": 0.5}
    student.save_pretrained(tmp_path / "model")
    loaded = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    assert np.allclose(loaded.encode(RUSSIAN + ENGLISH), student.encode(RUSSIAN + ENGLISH), atol=1e-5)


def test_given_rows_of_the_original_bring_its_vectors_back(models: Path) -> None:
    whole, student = (Student.from_pretrained(str(models / "student")) for _ in range(2))
    student.trim({"en": ENGLISH}, "alphabet")
    assert not np.allclose(student.encode(RUSSIAN), whole.encode(RUSSIAN), atol=1e-3)
    pieces = needed_pieces(whole.tokenizer, student.tokenizer, (("ru", [text]) for text in RUSSIAN))
    growth = student.grow(pieces, original_rows(whole.table, whole.tokenizer, pieces))
    assert growth.given == len(pieces) and growth.averaged == growth.unknown == 0
    assert np.array_equal(student.encode(RUSSIAN), whole.encode(RUSSIAN))


@cache
def grown_wordpiece() -> tuple[PreTrainedTokenizerFast, PreTrainedTokenizerFast]:
    old = wordpiece()
    return old, with_pieces(old, [NewPiece("catdog"), NewPiece("##og"), NewPiece("коша")])


@given(text=SENTENCE)
@settings(deadline=None)
def test_wordpiece_changes_only_where_a_new_piece_is_the_longest(text: str) -> None:
    old, new = grown_wordpiece()
    assert {piece: new.get_vocab()[piece] for piece in old.get_vocab()} == old.get_vocab()
    before, after = old.tokenize(text), new.tokenize(text)
    assert (before != after) == bool({"catdog", "##og", "коша"} & set(after))


def test_changes_are_counted_language_by_language() -> None:
    old = wordpiece()
    new = with_pieces(old, [NewPiece("kat")])  # "katze" is still the longer match, "katzen" is not there
    texts = [("de", ["katze", "katalog"]), ("en", ["cat", "dog"]), ("de", ["kat", "hund"]), ("sv", [])]
    found = changed_segmentations(old, new, iter(texts))
    assert found == {"de": 0.5, "en": 0.0, "sv": 0.0}


def test_a_static_student_grows_too() -> None:
    fuller, trimmed, _ = grown_unigram()
    student = static_student(trimmed, 8, max_tokens=6)
    wanted = student.encode(ENGLISH)
    growth = student.grow(needed_pieces(fuller, trimmed, {"ru": RUSSIAN}), old_texts={"en": ENGLISH})
    assert growth.changed == {"en": 0.0} and growth.rows_after == len(student.table) == len(student.tokenizer)
    assert np.array_equal(student.encode(ENGLISH), wanted)
    assert int(student.tokenize(["кошка спит " * 9]).lengths[0]) == 6


def test_what_cannot_grow_is_refused(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    with pytest.raises(ModelError, match="the vocabulary has the piece '▁cat' already"):
        student.grow([NewPiece("▁cat", -3.0)])
    with pytest.raises(ModelError, match="the vocabulary has the piece '▁neu' already"):
        student.grow([NewPiece("▁neu", -3.0), NewPiece("▁neu", -3.0)])
    with pytest.raises(ModelError, match="the piece '▁neu' has no score"):
        student.grow([NewPiece("▁neu")])
    with pytest.raises(ModelError, match="a BPE vocabulary cannot grow by pieces"):
        with_pieces(byte_level(), [NewPiece("Ġneu")])
    assert len(student.table) == len(student.tokenizer) == student.body.config.vocab_size
