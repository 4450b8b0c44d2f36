"""Change the rows of a tokenizer: fewer, more, or in another order. `trim` and `grow` decide which.

A fast tokenizer can be written as JSON; its vocabulary is edited there.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from isogloss.errors import ModelError
from isogloss.memory import gc_paused
from isogloss.types import IntArray

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

State = dict[str, Any]


class NewPiece(NamedTuple):
    """A piece to be added, as the vocabulary writes it ("▁Haus", "##er"), with its Unigram score if it has one."""

    piece: str
    score: float | None = None


def state_of(tokenizer: "PreTrainedTokenizerFast") -> State:
    """The tokenizer as data: normalizer, pre-tokenizer, model, added tokens, template."""
    with gc_paused():
        state: State = json.loads(tokenizer.backend_tokenizer.to_str())
    return state


def pieces_of(tokenizer: "PreTrainedTokenizerFast") -> list[tuple[int, str]]:
    """Row number and piece, ascending."""
    return sorted((row, piece) for piece, row in tokenizer.get_vocab().items())


def unigram_scores(tokenizer: "PreTrainedTokenizerFast") -> dict[str, float] | None:
    """The log probability of each piece of a Unigram vocabulary; None for other kinds."""
    model = state_of(tokenizer)["model"]
    return dict(model["vocab"]) if model["type"] == "Unigram" else None


def with_rows(tokenizer: "PreTrainedTokenizerFast", rows: IntArray) -> "PreTrainedTokenizerFast":
    """The same tokenizer with some of its rows, in the given order: row i of the result was `rows[i]`."""
    state = state_of(tokenizer)
    model = state["model"]
    _absorb_added(state)
    new_row = {int(old): new for new, old in enumerate(rows)}
    kind = model["type"]
    if kind == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in rows]
        model["unk_id"] = new_row[model["unk_id"]] if model.get("unk_id") is not None else None
    elif kind == "WordPiece" or (kind == "BPE" and new_row.keys() >= set(model["vocab"].values())):
        model["vocab"] = {piece: new_row[row] for piece, row in model["vocab"].items() if row in new_row}
    else:
        raise ModelError(
            f"a {kind} vocabulary cannot be trimmed: its merges build pieces out of pieces",
            hint='set student.trim = "off" for this model',
        )
    state["added_tokens"] = [token | {"id": new_row[token["id"]]} for token in state["added_tokens"] if token["id"] in new_row]
    _renumber_template(state.get("post_processor") or {}, new_row)
    return _rewrapped(tokenizer, state)


def with_pieces(tokenizer: "PreTrainedTokenizerFast", added: Sequence[NewPiece]) -> "PreTrainedTokenizerFast":
    """The same tokenizer with more pieces after its last row; old pieces keep their numbers."""
    state = state_of(tokenizer)
    model = state["model"]
    _absorb_added(state)
    if model["type"] == "Unigram":
        if unscored := [piece for piece, score in added if score is None]:
            raise ModelError(
                f"the piece {unscored[0]!r} has no score, but a Unigram vocabulary chooses by scores",
                hint="take pieces from a Unigram tokenizer: needed_pieces(full, tokenizer, texts)",
            )
        model["vocab"] += [[piece, score] for piece, score in added]
    elif model["type"] == "WordPiece":
        first = max(model["vocab"].values()) + 1
        model["vocab"] |= {piece: first + place for place, (piece, _) in enumerate(added)}
    else:
        raise ModelError(
            f"a {model['type']} vocabulary cannot grow by pieces: it would need the merges that make them",
            hint="start from a student with a Unigram or WordPiece vocabulary",
        )
    return _rewrapped(tokenizer, state)


def _rewrapped(tokenizer: "PreTrainedTokenizerFast", state: State) -> "PreTrainedTokenizerFast":
    """A tokenizer like `tokenizer` with a changed state."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    kept = {name: getattr(tokenizer, name) for name in ("model_max_length", "padding_side", "model_input_names")}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)), **kept, **special)


def token_rows(tokenizer: "PreTrainedTokenizerFast", texts: Sequence[str]) -> list[list[int]]:
    """The rows of each text, without truncation and special tokens."""
    if not texts:  # which transformers refuses
        return []
    off = ("add_special_tokens", "truncation", "padding", "return_attention_mask", "return_token_type_ids", "verbose")
    rows: list[list[int]] = tokenizer(list(texts), **dict.fromkeys(off, False))["input_ids"]
    return rows


def set_token_table(body: "PreTrainedModel", table: "Tensor", padding: int | None) -> None:
    """Give a transformer another token table and padding row, in place."""
    from torch import nn

    rows, width = table.shape
    fresh = nn.Embedding(rows, width, padding_idx=padding, dtype=table.dtype, device="meta")
    fresh.weight = nn.Parameter(table, requires_grad=body.get_input_embeddings().weight.requires_grad)
    body.set_input_embeddings(fresh)
    body.config.vocab_size, body.config.pad_token_id = len(table), padding


def _absorb_added(state: State) -> None:
    """Write added tokens that follow the vocabulary (XLM-R's <mask>) into it, so that they keep their numbers.

    The model never sees them in text, since added tokens are split off first.
    """
    vocab = state["model"]["vocab"]
    for row, content in sorted((token["id"], token["content"]) for token in state["added_tokens"]):
        if isinstance(vocab, dict):
            vocab.setdefault(content, row)
        elif row == len(vocab):
            vocab.append([content, 0.0])


def _renumber_template(processor: State, new_row: dict[int, int]) -> None:
    """Update the ids of special tokens in a post-processor and those nested in it."""
    for inner in processor.get("processors", []):
        _renumber_template(inner, new_row)
    for token in (processor.get("special_tokens") or {}).values():
        token["ids"] = [new_row[row] for row in token["ids"]]
    for name in ("sep", "cls"):
        if name in processor:
            processor[name][1] = new_row[processor[name][1]]
