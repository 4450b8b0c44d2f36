"""From a recipe's settings to the rules it asks for, in the order they are applied: the cheap and certain first."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.agreement import Addresses, Identical, Numbers
from isogloss.corpora.cleaning.language import Language, Script
from isogloss.corpora.cleaning.length import Empty, LengthRatio, TooLong, TooManyTokens
from isogloss.corpora.cleaning.quality_scores import NOTHING, GivenScore, Similarity, SimilarityModel, minimum_for
from isogloss.corpora.cleaning.repetition import Repetition
from isogloss.corpora.cleaning.rule import Rule
from isogloss.errors import DataError
from isogloss.storage import file_hash
from isogloss.types import IntArray


def rules_for(settings: CleaningSettings, corpus: str = "", judge: SimilarityModel | None = None) -> list[Rule]:
    """The rules for one corpus. A threshold that accepts everything leaves its rule out, and its scores uncomputed."""
    s = settings
    minimum = minimum_for(corpus, s.min_scores)
    wanted: list[tuple[bool, Callable[[], Rule]]] = [
        (True, Empty),
        (True, lambda: TooLong(s.max_characters)),
        (s.max_tokens > 0, lambda: TooManyTokens(s.max_tokens, s.tokenizer)),
        (True, lambda: LengthRatio(s.max_length_ratio)),
        (s.drop_identical, Identical),
        (minimum > NOTHING, lambda: GivenScore(minimum)),
        (s.min_script > 0, lambda: Script(s.min_script)),
        (s.max_repetition < 1, lambda: Repetition(s.max_repetition)),
        (s.min_numbers > 0, lambda: Numbers(s.min_numbers)),
        (s.min_addresses > 0, lambda: Addresses(s.min_addresses)),
        (s.min_language > 0, lambda: Language(s.min_language)),
        (bool(s.similarity_model), lambda: Similarity(s.min_similarity, s.similarity, judge)),
    ]
    return [make() for on, make in wanted if on]


def tokenizer_hash(name: str) -> str:
    """Names a tokenizer by its content; empty where none is named."""
    return file_hash(_tokenizer_file(name)) if name else ""


def _tokenizer_file(name: str) -> Path:
    path = Path(name)
    path = path / "tokenizer.json" if path.is_dir() else path
    if not path.is_file():
        raise DataError(f"{name}: no tokenizer.json there", hint="cleaning.tokenizer names the file, or a model folder with it")
    return path


def token_counter(name: str) -> Callable[[list[str]], IntArray]:
    """Count tokens as the tokenizer in `name` (a tokenizer.json, or a folder with one) does, special tokens included."""
    from tokenizers import Tokenizer

    path = _tokenizer_file(name)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises bare exceptions for files it cannot read
        raise DataError(f"{path}: not a tokenizer ({error})", hint="save it with tokenizer.save_pretrained") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def count(texts: list[str]) -> IntArray:
        return np.array([len(one.ids) for one in tokenizer.encode_batch(texts)], dtype=np.int64)

    return count
