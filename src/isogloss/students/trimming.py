"""Only the rows you use: cut a multilingual vocabulary down to what the run's languages can spell or did write.

Exact for what is kept. A text whose pieces under the full vocabulary are all kept gets the same pieces, hence the same
vector, from the trimmed model: removing pieces that did not win leaves the winning segmentation the best one. Two
details make that true: every control token stays, and so does the piece with the lowest score, because Unigram prices
unknown characters relative to it.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.students.alphabets import Alphabet
from isogloss.types import IntArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WORD_MARKS = "▁#Ġ"


@dataclass(frozen=True, slots=True)
class Trimming:
    """What trimming did: rows before and after, and the share of the given text's tokens that kept their piece."""

    rows_before: int
    rows_after: int
    coverage: float


def kept_rows(tokenizer: "PreTrainedTokenizerFast", texts_by_language: Mapping[str, Sequence[str]], how: str) -> IntArray:
    """Row numbers to keep, ascending. `how` is "alphabet" (all the languages can spell) or "corpus" (what they wrote)."""
    pieces = _pieces(tokenizer)
    used = _used_rows(tokenizer, texts_by_language)
    keep = set(used) | _always_kept(tokenizer, pieces)
    alphabet = Alphabet({language: list(texts) for language, texts in texts_by_language.items()})
    if how == "alphabet":
        keep |= {row for row, piece in pieces if alphabet.can_spell(piece.strip(WORD_MARKS))}
    elif how == "corpus":  # single characters stay, so that new words fall to letters and not to <unk>
        keep |= {row for row, piece in pieces if len(bare := piece.strip(WORD_MARKS)) <= 1 and alphabet.can_spell(bare)}
    else:
        raise ModelError(f"trimming by {how!r} is not known", hint="choose alphabet or corpus")
    return np.array(sorted(keep), dtype=np.int64)


def trim(body: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", keep: IntArray) -> "PreTrainedTokenizerFast":
    """Cut the body's token table to `keep` in place, and return a tokenizer that speaks the new row numbers."""
    import torch

    table = body.get_input_embeddings()
    weight: torch.Tensor = table.weight
    if int(keep.max()) >= weight.shape[0]:
        raise ModelError(
            f"the tokenizer has row {int(keep.max())} but the model's table ends at {weight.shape[0] - 1}",
            hint="the tokenizer does not belong to this model",
        )
    trimmed = trim_tokenizer(tokenizer, keep)
    pad = trimmed.pad_token_id
    fresh = torch.nn.Embedding(len(keep), weight.shape[1], padding_idx=pad, dtype=weight.dtype, device=weight.device)
    with torch.no_grad():
        fresh.weight.copy_(weight[torch.from_numpy(keep)])
    body.set_input_embeddings(fresh)
    body.config.vocab_size = len(keep)
    body.config.pad_token_id = pad
    return trimmed


def trim_tokenizer(tokenizer: "PreTrainedTokenizerFast", keep: IntArray) -> "PreTrainedTokenizerFast":
    """The same tokenizer over fewer pieces, with rows renumbered in their old order."""
    from tokenizers import Tokenizer

    new_row = {int(old): new for new, old in enumerate(keep)}
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    model = state["model"]
    kind = model["type"]
    if kind == "Unigram":
        model["vocab"] = [model["vocab"][old] for old in keep if old < len(model["vocab"])]
        model["unk_id"] = new_row[model["unk_id"]] if model.get("unk_id") is not None else None
    elif kind == "WordPiece":
        model["vocab"] = {piece: new_row[row] for piece, row in model["vocab"].items() if row in new_row}
    else:
        raise ModelError(
            f"a {kind} vocabulary cannot be trimmed: its merges build pieces out of pieces",
            hint='set student.trim = "off" for this model',
        )
    state["added_tokens"] = [token | {"id": new_row[token["id"]]} for token in state["added_tokens"] if token["id"] in new_row]
    _renumber_template(state.get("post_processor"), new_row)
    return _rewrapped(tokenizer, Tokenizer.from_str(json.dumps(state)))


def coverage(tokenizer: "PreTrainedTokenizerFast", keep: IntArray, texts: Sequence[str]) -> float:
    """Share of the tokens of `texts`, under the untrimmed tokenizer, whose rows are kept."""
    kept = np.zeros(len(tokenizer) + 1, dtype=bool)
    kept[keep[keep < len(kept)]] = True
    rows = np.concatenate([np.asarray(ids) for ids in tokenizer(list(texts))["input_ids"]] or [np.empty(0)]).astype(int)
    return float(kept[rows].mean()) if len(rows) else 1.0


def _pieces(tokenizer: "PreTrainedTokenizerFast") -> list[tuple[int, str]]:
    return sorted((row, piece) for piece, row in tokenizer.get_vocab().items())


def _used_rows(tokenizer: "PreTrainedTokenizerFast", texts: Mapping[str, Iterable[str]]) -> set[int]:
    return {row for some in texts.values() for ids in tokenizer(list(some))["input_ids"] for row in ids}


def _always_kept(tokenizer: "PreTrainedTokenizerFast", pieces: list[tuple[int, str]]) -> set[int]:
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    keep = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        keep |= {int(np.argmin(scores)), model["unk_id"] or 0}
    return {row for row in keep if row <= pieces[-1][0]}


def _renumber_template(processor: dict[str, Any] | None, new_row: dict[int, int]) -> None:
    """Post-processors repeat the ids of special tokens: give them their new numbers, wherever they are nested."""
    if not processor:
        return
    for inner in processor.get("processors", []):
        _renumber_template(inner, new_row)
    for token in (processor.get("special_tokens") or {}).values():
        token["ids"] = [new_row[row] for row in token["ids"]]
    for name in ("sep", "cls"):
        if name in processor:
            processor[name][1] = new_row[processor[name][1]]


def _rewrapped(tokenizer: "PreTrainedTokenizerFast", backend: "Tokenizer") -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items() if isinstance(token, str)}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=tokenizer.model_max_length,
        padding_side=tokenizer.padding_side,
        model_input_names=tokenizer.model_input_names,
        **special,
    )
