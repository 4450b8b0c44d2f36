"""Learn a joint vocabulary of all languages, for a student that is trained from scratch.

Text is normalized (NFKC), lower-cased, split at spaces and punctuation, then into pieces by byte-pair encoding, as in LASER
(50,000 merges over all languages; Artetxe & Schwenk 2019, §3), or by a Unigram model. LASER also splits words with Moses and
Jieba and romanizes Greek; this does not.

    <pad> 0    </s> 1    <unk> 2    then characters and pieces; every text ends with </s>
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.amounts import amount
from isogloss.errors import DataError, ModelError
from isogloss.storage import read_json, write_json

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

KINDS = ("bpe", "unigram")
PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
SPACE = "▁"
MIN_FREQUENCY = 2  # pieces seen once are mostly names
ROWS_PER_CHARACTER = 4  # at most a quarter of the rows are single characters; rarer ones are unknown

Blocks = Callable[[], Iterable[Sequence[str]]]


def learn_vocabulary(texts: Blocks, rows: int, kind: str = "bpe") -> "PreTrainedTokenizerFast":
    """A tokenizer of at most `rows` pieces, learned from all texts in two passes.

    With "bpe" the same text gives the same vocabulary, in any order of its sentences.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    if kind not in KINDS:
        raise ModelError(f"vocabulary kind {kind!r} is not known", hint=f"choose one of {', '.join(KINDS)}")
    backend = Tokenizer(models.BPE(unk_token=UNKNOWN, fuse_unk=True) if kind == "bpe" else models.Unigram())
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), spaces, normalizers.Strip()])
    words = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.Punctuation()])
    backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    alphabet = _alphabet(backend, texts, rows // ROWS_PER_CHARACTER)
    common: dict[str, Any] = {"vocab_size": rows, "special_tokens": [PAD, END, UNKNOWN], "show_progress": False}
    trainer = (
        trainers.BpeTrainer(min_frequency=MIN_FREQUENCY, initial_alphabet=alphabet, limit_alphabet=len(alphabet), **common)
        if kind == "bpe"
        else trainers.UnigramTrainer(initial_alphabet=alphabet, unk_token=UNKNOWN, **common)
    )
    try:
        backend.train_from_iterator(chain.from_iterable(texts()), trainer)
    except Exception as error:
        raise ModelError(
            f"a vocabulary of {amount(rows, 'piece')} cannot be learned from this text ({str(error).strip()[:120]})",
            hint='try another number of pieces, or kind "bpe"',
        ) from error
    # With </s> at the end, empty text has an embedding too, and a decoder learns where to stop.
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=[(END, backend.token_to_id(END))]
    )
    return _wrapped(backend)


def save_vocabulary(tokenizer: "PreTrainedTokenizerFast", path: Path) -> None:
    """Write a tokenizer as one JSON file."""
    write_json(path, json.loads(tokenizer.backend_tokenizer.to_str()))


def open_vocabulary(path: Path) -> "PreTrainedTokenizerFast | None":
    """The tokenizer that `save_vocabulary` wrote; None if the file is missing or damaged."""
    from tokenizers import Tokenizer

    try:
        found = read_json(path)
        known = [token["content"] for token in found["added_tokens"]] == [PAD, END, UNKNOWN]
        return _wrapped(Tokenizer.from_str(json.dumps(found))) if known else None
    except Exception:  # noqa: BLE001 - tokenizers raises plain Exception
        return None


def _wrapped(backend: "Tokenizer") -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=PAD, eos_token=END, unk_token=UNKNOWN)


def _alphabet(backend: "Tokenizer", texts: Blocks, most: int) -> list[str]:
    """The most frequent characters; ties are broken by code point, so that the result is reproducible."""
    seen: Counter[str] = Counter()
    for text in chain.from_iterable(texts()):
        seen.update(backend.normalizer.normalize_str(text))
    del seen[" "]
    if not seen:
        raise DataError("there is no text to learn a vocabulary from", hint="check the pairs: are their texts empty?")
    ranked = sorted(seen, key=lambda character: (-seen[character], character))
    return sorted({SPACE, *ranked[: max(most, 1)]})
