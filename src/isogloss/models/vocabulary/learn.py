"""A vocabulary of its own for a student that starts from nothing: one for all languages, learnt from their text.

Text is composed (NFKC), lower-cased and cut at spaces and around punctuation, then into pieces: by byte-pair encoding, as
LASER does it (50,000 merges over all languages together; Artetxe & Schwenk 2019, §3), or by a Unigram model. LASER cuts
words with Moses, Chinese with Jieba, and writes Greek in Latin letters first; here only spaces and punctuation are known.

    <pad> 0    </s> 1    <unk> 2    then characters and pieces; every text ends with </s>

`vocabulary` moves rows of a tokenizer that is there, `trimming` and `growing` decide which; here one is made.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
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
AT_LEAST = 2  # a piece that is seen once is a name
CHARACTERS = 4  # one of so many rows may be a single character; the rarest ones beyond that are unknown

Blocks = Callable[[], Iterable[Sequence[str]]]


def learn_vocabulary(texts: Blocks, rows: int, kind: str = "bpe") -> "PreTrainedTokenizerFast":
    """A tokenizer of at most `rows` pieces, learnt from all texts that the blocks hold; they are gone through twice.

    With "bpe" the same text gives the same vocabulary, in whatever order its sentences come.
    """
    from tokenizers import Tokenizer, models, trainers

    if kind not in KINDS:
        raise ModelError(f"a vocabulary of kind {kind!r} is not known", hint=f"choose from: {', '.join(KINDS)}")
    model = models.BPE(unk_token=UNKNOWN, fuse_unk=True) if kind == "bpe" else models.Unigram()
    backend = _prepared(Tokenizer(model))
    alphabet = _alphabet(backend, texts, rows // CHARACTERS)
    common: dict[str, Any] = {"vocab_size": rows, "special_tokens": [PAD, END, UNKNOWN], "show_progress": False}
    trainer = (
        trainers.BpeTrainer(min_frequency=AT_LEAST, initial_alphabet=alphabet, limit_alphabet=len(alphabet), **common)
        if kind == "bpe"
        else trainers.UnigramTrainer(initial_alphabet=alphabet, unk_token=UNKNOWN, **common)
    )
    try:
        backend.train_from_iterator(_flat(texts), trainer)
    except Exception as error:
        raise ModelError(
            f"no vocabulary of {amount(rows, 'piece')} can be learnt from this text ({str(error).strip()[:120]})",
            hint='ask for another number of pieces, or for kind "bpe"',
        ) from error
    return _wrapped(_ending(backend))


def save_vocabulary(tokenizer: "PreTrainedTokenizerFast", path: Path) -> None:
    """Write it as one JSON file."""
    write_json(path, json.loads(tokenizer.backend_tokenizer.to_str()))


def open_vocabulary(path: Path) -> "PreTrainedTokenizerFast | None":
    """What `save_vocabulary` wrote; None where there is nothing whole."""
    from tokenizers import Tokenizer

    try:
        found = read_json(path)
        known = [token["content"] for token in found["added_tokens"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if known != [PAD, END, UNKNOWN]:
        return None
    try:
        return _wrapped(Tokenizer.from_str(json.dumps(found)))
    except Exception:  # noqa: BLE001 - the library has no name of its own for what it cannot read
        return None


def _prepared(backend: "Tokenizer") -> "Tokenizer":
    from tokenizers import Regex, decoders, normalizers, pre_tokenizers

    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), spaces, normalizers.Strip()])
    words = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.Punctuation()])
    backend.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return backend


def _ending(backend: "Tokenizer") -> "Tokenizer":
    """Every text ends with </s>: an empty one has a vector too, and a decoder learns where to stop."""
    from tokenizers import processors

    special = [(END, backend.token_to_id(END))]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A {END} $B {END}", special_tokens=special
    )
    return backend


def _wrapped(backend: "Tokenizer") -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=PAD, eos_token=END, unk_token=UNKNOWN)


def _alphabet(backend: "Tokenizer", texts: Blocks, most: int) -> list[str]:
    """The characters that are written most often; equally frequent ones in their own order, or it would be chance."""
    seen: Counter[str] = Counter()
    for text in _flat(texts):
        seen.update(backend.normalizer.normalize_str(text))
    del seen[" "]
    if not seen:
        raise DataError("there is no text to learn a vocabulary from", hint="name pairs that have some")
    ranked = sorted(seen, key=lambda character: (-seen[character], character))
    return sorted({SPACE, *ranked[: max(most, 1)]})


def _flat(texts: Blocks) -> Iterator[str]:
    for block in texts():
        yield from block
