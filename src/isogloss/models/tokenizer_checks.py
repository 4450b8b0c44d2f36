"""Detect missing tokenizers and text that a tokenizer does not know.

If a model folder lacks the tokenizer's files, transformers often builds an empty tokenizer: every word becomes the unknown
token or no token, and every sentence gets the same embedding. `refuse_empty_tokenizer` detects that when a model is
loaded: any real tokenizer knows one of fifteen scripts. `unknown_share` is for a given text.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.token_store import Ids, TokenStore

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOSTLY = 0.5
SAMPLED_ROWS = 2_000
BLANK = "▁"  # precedes each word; a piece of its own if the word is unknown
WORD_MARKS = "▁Ġ# "  # of pieces at the start of a word or inside it
SAMPLES = (
    "Where is the station? I have read a book about the sea.",
    "Где находится вокзал?",
    "Πού είναι ο σταθμός;",
    "أين تقع المحطة؟",
    "היכן נמצאת התחנה?",
    "स्टेशन कहाँ है?",
    "স্টেশন কোথায়?",
    "நிலையம் எங்கே இருக்கிறது?",
    "สถานีอยู่ที่ไหน",
    "სად არის სადგური?",
    "Որտե՞ղ է կայարանը։",
    "ጣቢያው የት ነው?",
    "역이 어디에 있습니까?",
    "駅はどこですか。",
    "车站在哪里？",
)


def refuse_empty_tokenizer(tokenizer: Any, name: str) -> None:  # noqa: ANN401 - of transformers, tokenizers or sentence-transformers
    """Raise if a tokenizer knows less than half of every sample: its files are missing, or not the model's."""
    for sample in SAMPLES:
        pieces = _pieces(tokenizer, sample)
        if pieces is None or _known(pieces, sample) > MOSTLY:
            return
    raise ModelError(
        f"{name}: its tokenizer is missing or empty, so all text would become unknown tokens",
        hint="is the folder complete? it needs the files of the model's own tokenizer, such as tokenizer.json or vocab.txt",
    )


def _pieces(tokenizer: Any, text: str) -> list[str] | None:  # noqa: ANN401
    """The pieces of a text as in the vocabulary; None for a kind of tokenizer we cannot inspect."""
    inner = getattr(tokenizer, "tokenizer", tokenizer)  # sentence-transformers' WordEmbeddings wraps it
    backend = getattr(inner, "backend_tokenizer", inner)
    try:
        if hasattr(backend, "id_to_token"):
            found = backend.encode(text, add_special_tokens=False)
            return [backend.id_to_token(row) or "" for row, real in zip(found.ids, found.attention_mask, strict=True) if real]
        if hasattr(inner, "convert_ids_to_tokens"):
            return [str(piece) for piece in inner.convert_ids_to_tokens(inner(text, add_special_tokens=False)["input_ids"])]
    except Exception:  # noqa: BLE001 - an empty WordPiece vocabulary raises for lack of an unknown token
        return []
    return None


def _known(pieces: Sequence[str], text: str) -> float:
    """The share of pieces that occur in the text, or are single bytes; pieces of white space are not counted."""
    stripped = [piece.removesuffix("</w>").strip(WORD_MARKS) for piece in pieces]
    folded = text.casefold()
    known = [piece.casefold() in folded or piece.startswith("<0x") for piece in stripped if piece]
    return sum(known) / len(known) if known else 0.0


def unknown_share(ids: Ids, tokenizer: "PreTrainedTokenizerBase") -> float:
    """The share of tokens that are the unknown token, not counting special tokens and white space."""
    unknown, blank = tokenizer.unk_token_id, tokenizer.convert_tokens_to_ids(BLANK)
    ignored = np.array([row for row in (*tokenizer.all_special_ids, blank) if row not in (unknown, None)], dtype=np.int64)
    counted = ids[~np.isin(ids, ignored)]
    return float(np.mean(counted == unknown)) if len(counted) and unknown is not None else 0.0


def refuse_unknown_text(tokens: TokenStore, tokenizer: "PreTrainedTokenizerBase", name: str) -> None:
    """Raise if more than half of the training text is unknown to the tokenizer."""
    if len(tokens):
        rows = np.unique(np.linspace(0, len(tokens) - 1, SAMPLED_ROWS).astype(np.int64))
        refuse_unknown(unknown_share(tokens.gather(rows)[0], tokenizer), name)


def refuse_unknown(share: float, name: str) -> None:
    """Raise if more than half of the training text is unknown."""
    if share > MOSTLY:
        raise ModelError(
            f"{name}: {share:.0%} of the tokens in the training text are unknown to its tokenizer",
            hint="choose a model whose vocabulary covers these languages; isogloss doctor shows the share per language",
        )
