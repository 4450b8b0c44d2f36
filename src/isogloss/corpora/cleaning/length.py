"""Rules about how much text there is: none, too much, or far more on one side than on the other."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.rule import PairBatch, Rule
from isogloss.corpora.text.side import Side
from isogloss.errors import DataError
from isogloss.storage import file_hash
from isogloss.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Empty(Rule):
    """Drop pairs with a side that has no letter or digit."""

    name, order = "empty side", 10

    threshold: float = 1

    @classmethod
    def from_settings(cls, settings: CleaningSettings, corpus: str) -> "Empty":
        """Always on."""
        return cls()

    def score_side(self, side: Side) -> IntArray:
        """Letters and digits."""
        return np.diff(side.kept_starts)


@dataclass(frozen=True, slots=True)
class TooLong(Rule):
    """Drop pairs with a side that is too long for a sentence."""

    name, order = "too long", 20
    setting = "max_characters"
    higher_is_better = False

    def score_side(self, side: Side) -> IntArray:
        """Characters."""
        return side.lengths


@dataclass(frozen=True, slots=True)
class TooManyTokens(Rule):
    """Drop pairs with a side of more tokens than the student reads (128 in both papers).

    Tokens are those of `tokenizer`. Without one, a token is a word, a punctuation mark, or a character of a script that is
    written without spaces.
    """

    name, order = "too many tokens", 30
    higher_is_better = False

    tokenizer: str = ""  # a tokenizer.json, or a folder with one

    @classmethod
    def from_settings(cls, settings: CleaningSettings, corpus: str) -> "TooManyTokens | None":
        """Off at 0 tokens."""
        return cls(settings.max_tokens, settings.tokenizer) if settings.max_tokens > 0 else None

    def score_side(self, side: Side) -> IntArray:
        """Tokens."""
        return token_counter(self.tokenizer)(side.texts.to_pylist()) if self.tokenizer else side.token_counts

    def scoring_key(self) -> dict[str, Any]:
        """With the tokenizer's content instead of its path."""
        content = file_hash(_tokenizer_file(self.tokenizer)) if self.tokenizer else ""
        return {"rule": type(self).__name__, "tokenizer": content}


def _tokenizer_file(name: str) -> Path:
    path = Path(name)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise DataError(f"{name}: no tokenizer.json there", hint="cleaning.tokenizer names the file, or a model folder with it")
    return path


@cache
def token_counter(name: str) -> Callable[[list[str]], IntArray]:
    """Count tokens as a tokenizer does, special tokens included."""
    from tokenizers import Tokenizer

    path = _tokenizer_file(name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare exceptions for files it cannot read
        raise DataError(f"{path}: not a tokenizer ({error})", hint="save it with tokenizer.save_pretrained") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda texts: np.array([len(one.ids) for one in tokenizer.encode_batch(texts)], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LengthRatio(Rule):
    """Drop pairs whose sides differ in length beyond what translation explains: usually misaligned lines.

    Counted in UTF-8 bytes, because Chinese says in one three-byte character what English says in five letters.
    """

    name, order = "length ratio", 40
    setting = "max_length_ratio"
    compares_sides = for_sentences = True
    higher_is_better = False
    auto = "spread"

    min_bytes: int = 12  # "Hi." ↔ "Guten Tag." is fine: ratios mean nothing on very short text

    def score(self, pairs: PairBatch) -> FloatArray:
        """The longer side over the shorter; NaN where both are short."""
        left, right = pairs.source.byte_lengths, pairs.target.byte_lengths
        longer, shorter = np.maximum(left, right), np.minimum(left, right)
        return np.where(longer < self.min_bytes, np.nan, longer / np.maximum(shorter, 1)).astype(np.float32)
