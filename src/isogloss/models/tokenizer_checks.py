"""Can a tokenizer spell text at all? A folder without its tokenizer's files still loads, and then all text is unknown.

transformers builds an empty tokenizer for many kinds of models if it finds no files for one: every word becomes the unknown
token, or no token, and every sentence has the same vector. `refuse_speechless` finds that when a model is opened, by sentences
in fifteen scripts: a real tokenizer spells at least one of them, however small or specialised. `unknown_share` is for the text
at hand, which may be in a script that a good tokenizer does not know.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.token_store import Ids, TokenStore

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

MOSTLY = 0.5
ROWS_LOOKED_AT = 2_000
BLANK = "▁"  # before each word, a piece of its own where the word is unknown
AROUND = "▁Ġ# "  # marks of a piece's place in a word, by kind of tokenizer
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


def refuse_speechless(tokenizer: Any, name: str) -> None:  # noqa: ANN401 - of transformers, tokenizers or sentence-transformers
    """Raise if a tokenizer knows most of no sentence in any script: it is missing, or not the model's."""
    for sample in SAMPLES:
        pieces = _pieces(tokenizer, sample)
        if pieces is None or _known(pieces, sample) > MOSTLY:
            return
    raise ModelError(
        f"{name}: its tokenizer is missing or empty, so all text would become unknown tokens",
        hint="is the folder complete? it needs the files of the model's own tokenizer, such as tokenizer.json or vocab.txt",
    )


def _pieces(tokenizer: Any, text: str) -> list[str] | None:  # noqa: ANN401
    """A text's pieces as the vocabulary has them; None from a tokenizer of a kind that is not known here."""
    inner = getattr(tokenizer, "tokenizer", tokenizer)  # sentence-transformers' WordEmbeddings wraps it
    backend = getattr(inner, "backend_tokenizer", inner)
    try:
        if hasattr(backend, "id_to_token"):
            found = backend.encode(text, add_special_tokens=False)
            return [backend.id_to_token(one) or "" for one, real in zip(found.ids, found.attention_mask, strict=True) if real]
        if hasattr(inner, "convert_ids_to_tokens"):
            return [str(one) for one in inner.convert_ids_to_tokens(inner(text, add_special_tokens=False)["input_ids"])]
    except Exception:  # noqa: BLE001 - an empty WordPiece vocabulary raises for lack of an unknown token
        return []
    return None


def _known(pieces: Sequence[str], text: str) -> float:
    """The share of pieces that are spelled in the text; one of a byte is as good, a mark of white space is none."""
    said = [piece.removesuffix("</w>").strip(AROUND) for piece in pieces]
    said = [piece for piece in said if piece]
    folded = text.casefold()
    known = [piece.casefold() in folded or piece.startswith("<0x") for piece in said]
    return sum(known) / len(known) if known else 0.0


def unknown_share(ids: Ids, tokenizer: "PreTrainedTokenizerBase") -> float:
    """The share of tokens that are the unknown token, not counting special ones and those of white space alone."""
    unknown, blank = tokenizer.unk_token_id, tokenizer.convert_tokens_to_ids(BLANK)
    silent = np.array([one for one in (*tokenizer.all_special_ids, blank) if one not in (unknown, None)], dtype=np.int64)
    said = ids[~np.isin(ids, silent)]
    return float(np.mean(said == unknown)) if len(said) and unknown is not None else 0.0


def refuse_unknown_text(tokens: TokenStore, tokenizer: "PreTrainedTokenizerBase", name: str) -> None:
    """Raise if most of the text that a model is to be trained on is unknown to its tokenizer."""
    if len(tokens):
        rows = np.unique(np.linspace(0, len(tokens) - 1, ROWS_LOOKED_AT).astype(np.int64))
        refuse_unknown(unknown_share(tokens.gather(rows)[0], tokenizer), name)


def refuse_unknown(share: float, name: str) -> None:
    """Raise if so large a share of the training text is unknown that there is nothing to learn from."""
    if share > MOSTLY:
        raise ModelError(
            f"{name}: {share:.0%} of the tokens in the training text are unknown to its tokenizer",
            hint="name a model whose vocabulary has the scripts of these languages; isogloss doctor looks at each of them",
        )
