"""How well a vocabulary covers text, per language, counted in one pass over any amount of text.

A `Survey` counts the uses of each row and collects characters. `trim` chooses rows from it; `coverage` compares the surveys of
a full and a trimmed vocabulary: tokens that kept their row, unknown tokens, tokens per word.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.models.vocabulary.resize import token_rows
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# Text by language, or blocks of (language, sentences) in any order.
Texts = Mapping[str, Sequence[str]] | Iterable[tuple[str, Sequence[str]]]
Coverage = dict[str, dict[str, Any]]  # by language

TEXTS_AT_ONCE = 10_000
UNSPACED = frozenset({"zh", "ja", "th", "lo", "km", "my", "bo"})  # without spaces between words: counted in characters


@dataclass(slots=True, eq=False)
class LanguageSurvey:
    """Counts of one language: uses of each row, lower-case characters, sentences, words (or characters)."""

    counts: IntArray
    characters: set[str] = field(default_factory=set)
    texts: int = 0
    words: int = 0

    @property
    def tokens(self) -> int:
        """All tokens of its text, without special tokens."""
        return int(self.counts.sum())

    @classmethod
    def without_tokens(cls, characters: str = "", texts: int = 0, words: int = 0) -> "LanguageSurvey":
        """Counts of text alone, as `text_as_dict` gives them."""
        return cls(np.zeros(0, dtype=np.int64), set(characters), texts, words)

    def text_as_dict(self) -> dict[str, Any]:
        """The counts of text, as JSON can store them."""
        return {"characters": "".join(sorted(self.characters)), "texts": self.texts, "words": self.words}

    def add_text(self, language: str, texts: Sequence[str]) -> None:
        """Count more text, but not its tokens."""
        self.characters.update("".join(texts).lower())
        self.texts += len(texts)
        self.words += sum(len(text if unit_of(language) == "character" else text.split()) for text in texts)


class Survey:
    """What text uses of a vocabulary. Start with `survey(tokenizer, texts)`."""

    def __init__(self, tokenizer: "PreTrainedTokenizerFast") -> None:
        self.tokenizer = tokenizer
        self.rows = 1 + max(tokenizer.get_vocab().values())
        self.languages: dict[str, LanguageSurvey] = {}

    def add(self, language: str, texts: Sequence[str]) -> None:
        """Count more text of a language."""
        seen = self.languages.setdefault(language, LanguageSurvey(np.zeros(self.rows, dtype=np.int64)))
        flat = np.fromiter(chain.from_iterable(token_rows(self.tokenizer, texts)), dtype=np.int64)
        seen.counts += np.bincount(flat, minlength=self.rows)
        seen.add_text(language, texts)

    @property
    def used(self) -> IntArray:
        """Rows that any language used, ascending."""
        return np.flatnonzero(sum((seen.counts for seen in self.languages.values()), np.zeros(self.rows, dtype=np.int64)))

    def unknown(self, language: str) -> float:
        """Share of a language's tokens that are the unknown token."""
        row, seen = self.tokenizer.unk_token_id, self.languages[language]
        return 0.0 if row is None or not seen.tokens else int(seen.counts[row]) / seen.tokens


def survey(tokenizer: "PreTrainedTokenizerFast", texts: Texts) -> Survey:
    """Count all text in one pass; of blocks, one is in memory at a time."""
    return survey_each((tokenizer,), texts)[0]


def survey_each(tokenizers: "Sequence[PreTrainedTokenizerFast]", texts: Texts) -> tuple[Survey, ...]:
    """The same for several tokenizers in one pass."""
    surveys = tuple(Survey(tokenizer) for tokenizer in tokenizers)
    for language, chunk in in_chunks(texts):
        for one in surveys:
            one.add(language, chunk)
    return surveys


def in_chunks(texts: Texts) -> Iterator[tuple[str, Sequence[str]]]:
    """Text by language in chunks of at most 10,000; a language without text has one empty chunk."""
    for language, sentences in texts.items() if isinstance(texts, Mapping) else texts:
        for start in range(0, max(len(sentences), 1), TEXTS_AT_ONCE):
            yield language, sentences[start : start + TEXTS_AT_ONCE]


def coverage(before: Survey, keep: IntArray, after: Survey) -> Coverage:
    """The coverage of each language if only the rows `keep` are left; `after` counts the same text with those rows.

    `rows` is the number of rows that the language used, `kept` the share of its tokens whose row is kept.
    """
    return {
        language: {
            "texts": old.texts,
            "tokens": old.tokens,
            "rows": int(np.count_nonzero(old.counts)),
            "kept": int(old.counts[keep[keep < before.rows]].sum()) / old.tokens if old.tokens else 1.0,
            "unknown_before": before.unknown(language),
            "unknown_after": after.unknown(language),
            "tokens_per_word_before": old.tokens / max(old.words, 1),
            "tokens_per_word_after": after.languages[language].tokens / max(old.words, 1),
            "unit": unit_of(language),
        }
        for language, old in sorted(before.languages.items())
    }


def unit_of(language: str) -> str:
    """What text is counted in: words, or characters for languages without spaces between words."""
    return "character" if language.split("-")[0] in UNSPACED else "word"
