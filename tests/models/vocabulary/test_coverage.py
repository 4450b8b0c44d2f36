"""Coverage equals counting token by token, whatever blocks the text comes in; and no block is held longer than needed."""

import weakref
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.models.vocabulary import coverage as module
from isogloss.models.vocabulary.coverage import coverage, survey, survey_each, unit_of
from isogloss.models.vocabulary.resize import with_rows
from isogloss.models.vocabulary.trim import kept_rows
from tiny import PAIRS, unigram
from vocabularies import wordpiece

FULL = unigram()
SENTENCE = st.lists(
    st.sampled_from([word for pair in PAIRS[:20] for word in pair.target.split()] + ["Ω", "φ", "1", ""]), max_size=6
)
BLOCKS = st.lists(st.tuples(st.sampled_from(["de", "ru", "zh"]), st.lists(SENTENCE.map(" ".join), max_size=4)), max_size=6)


@given(blocks=BLOCKS, dropped=st.sets(st.integers(4, len(FULL) - 1), max_size=60))
@settings(deadline=None)
def test_coverage_is_what_counting_gives(blocks: list[tuple[str, list[str]]], dropped: set[int]) -> None:
    keep = np.array([row for row in range(len(FULL)) if row not in dropped])
    trimmed = with_rows(FULL, keep)
    before, after = survey_each((FULL, trimmed), iter(blocks))
    found = coverage(before, keep, after)
    assert set(found) == {language for language, _ in blocks}
    for language, one in found.items():
        texts = [text for name, some in blocks for text in some if name == language]
        old = [row for text in texts for row in FULL(text, add_special_tokens=False)["input_ids"]]
        new = [row for text in texts for row in trimmed(text, add_special_tokens=False)["input_ids"]]
        words = sum(len(text) if language == "zh" else len(text.split()) for text in texts)
        assert (one["texts"], one["tokens"], one["rows"]) == (len(texts), len(old), len(set(old)))
        assert one["kept"] == pytest.approx(sum(row not in dropped for row in old) / len(old) if old else 1.0)
        assert one["unknown_before"] == pytest.approx(old.count(3) / len(old) if old else 0.0)
        assert one["unknown_after"] == pytest.approx(new.count(trimmed.unk_token_id) / len(new) if new else 0.0)
        assert one["tokens_per_word_before"] == pytest.approx(len(old) / max(words, 1))
        assert one["tokens_per_word_after"] == pytest.approx(len(new) / max(words, 1))


@given(blocks=BLOCKS)
@settings(deadline=None)
def test_blocks_add_up(blocks: list[tuple[str, list[str]]]) -> None:
    whole: dict[str, list[str]] = {}
    for language, texts in blocks:
        whole.setdefault(language, []).extend(texts)
    once, in_blocks = survey(FULL, whole), survey(FULL, blocks)
    assert once.used.tolist() == in_blocks.used.tolist()
    for language, seen in once.languages.items():
        other = in_blocks.languages[language]
        assert (seen.counts == other.counts).all() and seen.characters == other.characters
        assert (seen.texts, seen.words) == (other.texts, other.words)


def test_only_one_block_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million pairs go by in blocks: a survey that kept them would need all of their memory."""

    class Block(list[str]):
        pass

    monkeypatch.setattr(module, "TEXTS_AT_ONCE", 3)
    alive: list[weakref.ref[Block]] = []

    def blocks() -> Iterator[tuple[str, Block]]:
        for number in range(20):
            assert sum(block() is not None for block in alive) <= 1
            block = Block([f"die Katze {number}.", "der Hund"] * 4)
            alive.append(weakref.ref(block))
            yield "de", block
            del block

    assert survey(FULL, blocks()).languages["de"].texts == 160


def test_special_tokens_and_an_earlier_cut_do_not_count() -> None:
    tokenizer = wordpiece()
    tokenizer(["the cat sleeps at night"] * 2, truncation=True, max_length=3, padding="max_length")
    seen = survey(tokenizer, {"en": ["the cat sleeps at night", "the dog"]})
    assert seen.languages["en"].tokens == 7
    assert not set(tokenizer.all_special_ids) & set(seen.used.tolist())
    keep = kept_rows(tokenizer, seen, "corpus")
    assert set(tokenizer.all_special_ids) <= set(keep.tolist())


def test_units_and_plain_values() -> None:
    assert (unit_of("zh-tw"), unit_of("de")) == ("character", "word")
    seen = survey(FULL, {"de": ["die Katze", "ein Kind Ω"]})
    german = coverage(seen, np.arange(len(FULL)), seen)["de"]
    assert german["unit"] == "word" and german["kept"] == 1.0 and german["unknown_before"] > 0
