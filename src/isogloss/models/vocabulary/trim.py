"""Only the rows you use: cut a multilingual vocabulary down to what the run's languages can spell or did write.

Exact for what is kept. A text whose pieces under the full vocabulary are all kept gets the same pieces, hence the same
vector, from the trimmed model: removing pieces that did not win leaves the winning segmentation the best one. Two
details make that true: every control token stays, and so does the piece with the lowest score, because Unigram prices
unknown characters relative to it.

What the text asks of a vocabulary is counted by `coverage`; `growing` is the way back, for a language that comes later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.vocabulary.alphabets import Alphabet
from isogloss.models.vocabulary.coverage import LanguageCoverage, Survey
from isogloss.models.vocabulary.resize import pieces_of, state_of, token_rows, with_rows
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WORD_MARKS = "▁#Ġ"


@dataclass(frozen=True, slots=True)
class Trimming:
    """What trimming did: rows of the token table before and after, what they weighed, and how each language fares."""

    rows_before: int
    rows_after: int
    width: int
    bytes_a_value: int
    languages: tuple[LanguageCoverage, ...]

    @property
    def coverage(self) -> float:
        """Share of all tokens of the measured text that kept their piece."""
        tokens = sum(language.tokens for language in self.languages)
        return sum(language.kept * language.tokens for language in self.languages) / tokens if tokens else 1.0

    @property
    def parameters_saved(self) -> int:
        """Values of the token table that are gone."""
        return (self.rows_before - self.rows_after) * self.width

    @property
    def megabytes_saved(self) -> float:
        """Their weight, in millions of bytes."""
        return self.parameters_saved * self.bytes_a_value / 1e6

    def as_dict(self) -> dict[str, Any]:
        """As it is written to run.json."""
        return {
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "parameters_saved": self.parameters_saved,
            "megabytes_saved": round(self.megabytes_saved, 2),
            "coverage": round(self.coverage, 6),
            "languages": {language.language: language.as_dict() for language in self.languages},
        }


def kept_rows(tokenizer: "PreTrainedTokenizerFast", seen: Survey, how: str, also: Sequence[str] = ()) -> IntArray:
    """Row numbers to keep, ascending. `how` is "alphabet" (all the languages can spell) or "corpus" (what they wrote).

    `also` is text whose pieces stay without being a language's: prompts.
    """
    pieces = pieces_of(tokenizer)
    keep = set(seen.used.tolist()) | _always_kept(tokenizer, pieces)
    keep |= {row for rows in token_rows(tokenizer, also) for row in rows} if also else set()
    alphabet = Alphabet({language: ["".join(some.characters)] for language, some in seen.languages.items()})
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
    trimmed = with_rows(tokenizer, keep)
    pad = trimmed.pad_token_id
    rows = weight.detach()[torch.from_numpy(keep)]
    fresh = torch.nn.Embedding(len(keep), weight.shape[1], padding_idx=pad, dtype=weight.dtype, device="meta")
    fresh.weight = torch.nn.Parameter(rows)
    body.set_input_embeddings(fresh)
    body.config.vocab_size = len(keep)
    body.config.pad_token_id = pad
    return trimmed


def _always_kept(tokenizer: "PreTrainedTokenizerFast", pieces: list[tuple[int, str]]) -> set[int]:
    model = state_of(tokenizer)["model"]
    keep = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        keep |= {int(np.argmin(scores)), model["unk_id"] or 0}
    return {row for row in keep if row <= pieces[-1][0]}
