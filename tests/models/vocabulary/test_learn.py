"""A vocabulary learnt from text: merges are the most frequent pairs, whatever the order of sentences; every text ends."""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.errors import DataError, ModelError
from isogloss.models.vocabulary.learn import learn_vocabulary, open_vocabulary, save_vocabulary
from tiny import TEXTS


def blocks(texts: list[str]) -> "list[list[str]]":
    return [texts[start : start + 7] for start in range(0, len(texts), 7)]


def words_of(texts: list[str]) -> Counter[tuple[str, ...]]:
    """Words as the module cuts them, for text without punctuation but full stops."""
    words: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        for word in text.lower().replace(".", " . ").split():
            words[tuple(word) if word == "." else ("▁", *word)] += 1
    return words


def merged(word: tuple[str, ...], pair: tuple[str, str]) -> tuple[str, ...]:
    out, place = [], 0
    while place < len(word):
        if word[place : place + 2] == pair:
            out.append("".join(pair))
            place += 2
        else:
            out.append(word[place])
            place += 1
    return tuple(out)


def test_each_merge_is_of_the_most_frequent_pair() -> None:
    tokenizer = learn_vocabulary(lambda: blocks(TEXTS), 250)
    words = words_of(TEXTS)
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    assert len(merges) > 100
    for pair in merges:
        counts: Counter[tuple[str, str]] = Counter()
        for word, times in words.items():
            for left, right in pairwise(word):
                counts[left, right] += times
        assert counts[tuple(pair)] == max(counts.values())
        words = Counter({merged(word, tuple(pair)): times for word, times in words.items()})


@given(st.permutations(TEXTS[:40]))
@settings(max_examples=5, deadline=None)
def test_the_order_of_sentences_does_not_matter(texts: list[str]) -> None:
    vocabularies = [learn_vocabulary(lambda some=some: blocks(some), 90).get_vocab() for some in (TEXTS[:40], texts)]  # type: ignore[misc]
    assert vocabularies[0] == vocabularies[1]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_text_goes_in_and_comes_out(kind: str) -> None:
    tokenizer = learn_vocabulary(lambda: blocks(TEXTS), 300, kind)
    assert len(tokenizer) <= 300
    assert [tokenizer.convert_ids_to_tokens(row) for row in range(3)] == ["<pad>", "</s>", "<unk>"]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id) == (0, 1, 2)
    for text in TEXTS:
        ids = tokenizer(f"  {text.upper()}\t")["input_ids"]
        assert ids[-1] == 1 and 2 not in ids
        assert tokenizer.decode(ids, skip_special_tokens=True).replace(" .", ".") == text.lower()
    assert tokenizer("")["input_ids"] == [1], "nothing is something too"


def test_the_rarest_characters_are_unknown() -> None:
    texts = ["abcdefgh " * 3] * 5 + ["x", "y"]
    tokenizer = learn_vocabulary(lambda: [texts], 32)  # room for eight characters
    assert [tokenizer.unk_token_id in tokenizer(one)["input_ids"] for one in ("abcdefgh", "x", "y")] == [False, True, True]


def test_of_equally_rare_characters_the_same_ones_are_known() -> None:
    words = ["abcdef", "ghijkl", "mnopqr"]
    learnt = [set(learn_vocabulary(lambda some=some: [some], 32).get_vocab()) for some in (words, words[::-1])]  # type: ignore[misc]
    assert learnt[0] == learnt[1] == {"<pad>", "</s>", "<unk>", "▁", *"abcdefgh"}


def test_it_kept_in_one_file(tmp_path: Path) -> None:
    tokenizer, path = learn_vocabulary(lambda: blocks(TEXTS), 120), tmp_path / "vocabulary.json"
    assert open_vocabulary(path) is None
    save_vocabulary(tokenizer, path)
    found = open_vocabulary(path)
    assert found is not None and found.get_vocab() == tokenizer.get_vocab()
    assert found(TEXTS)["input_ids"] == tokenizer(TEXTS)["input_ids"] and found.pad_token_id == 0
    path.write_text(path.read_text(encoding="utf-8")[:-100], encoding="utf-8")
    assert open_vocabulary(path) is None


def test_what_cannot_be_learnt() -> None:
    with pytest.raises(DataError, match="no text to learn a vocabulary from"):
        learn_vocabulary(lambda: [[" "], []], 100)
    with pytest.raises(ModelError, match="vocabulary kind 'words' is not known"):
        learn_vocabulary(lambda: [TEXTS], 100, "words")
    with pytest.raises(ModelError, match="a vocabulary of 20 pieces cannot be learned"):
        learn_vocabulary(lambda: [TEXTS], 20, "unigram")
