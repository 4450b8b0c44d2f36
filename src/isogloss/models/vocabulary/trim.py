"""Trim a multilingual vocabulary to what the run's languages can spell, or to what their text uses.

Exact for what is kept: a text whose pieces are all kept gets the same pieces and the same embedding, since removing pieces that
were not chosen leaves the chosen segmentation the best one. Two details make that true: every special token stays, and so does
the piece with the lowest score, because Unigram computes the cost of unknown characters from it. `grow` adds pieces later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.vocabulary.alphabets import Alphabet
from isogloss.models.vocabulary.coverage import LanguageCoverage, Survey
from isogloss.models.vocabulary.resize import pieces_of, state_of, token_rows
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WORD_MARKS = "▁#Ġ"


@dataclass(frozen=True, slots=True)
class Trimming:
    """What trimming did: rows of the token table before and after, their size, and the coverage of each language."""

    rows_before: int
    rows_after: int
    width: int
    value_bytes: int
    languages: tuple[LanguageCoverage, ...]

    @property
    def coverage(self) -> float:
        """Share of all tokens of the measured text that are kept."""
        tokens = sum(language.tokens for language in self.languages)
        return sum(language.kept * language.tokens for language in self.languages) / tokens if tokens else 1.0

    @property
    def parameters_saved(self) -> int:
        """Parameters removed from the token table."""
        return (self.rows_before - self.rows_after) * self.width

    @property
    def megabytes_saved(self) -> float:
        """Their size in megabytes."""
        return self.parameters_saved * self.value_bytes / 1e6

    def as_dict(self) -> dict[str, Any]:
        """For run.json."""
        return {
            "rows_before": self.rows_before,
            "rows_after": self.rows_after,
            "parameters_saved": self.parameters_saved,
            "megabytes_saved": round(self.megabytes_saved, 2),
            "coverage": round(self.coverage, 6),
            "languages": {language.language: language.as_dict() for language in self.languages},
        }


def kept_rows(tokenizer: "PreTrainedTokenizerFast", seen: Survey, how: str, also: Sequence[str] = ()) -> IntArray:
    """Row numbers to keep, ascending. `how` is "alphabet" (all that the languages can spell) or "corpus" (what is used).

    The pieces of the texts in `also` (prompts) are kept too.
    """
    pieces = pieces_of(tokenizer)
    keep = set(seen.used.tolist()) | _always_kept(tokenizer, pieces)
    keep |= {row for rows in token_rows(tokenizer, also) for row in rows} if also else set()
    alphabet = Alphabet({language: ["".join(counts.characters)] for language, counts in seen.languages.items()})
    if how == "alphabet":
        keep |= {row for row, piece in pieces if alphabet.can_spell(piece.strip(WORD_MARKS))}
    elif how == "corpus":  # single characters stay, so that new words become letters and not <unk>
        keep |= {row for row, piece in pieces if len(bare := piece.strip(WORD_MARKS)) <= 1 and alphabet.can_spell(bare)}
    else:
        raise ModelError(f"trim = {how!r} is not known", hint="choose alphabet or corpus")
    return np.array(sorted(keep), dtype=np.int64)


def _always_kept(tokenizer: "PreTrainedTokenizerFast", pieces: list[tuple[int, str]]) -> set[int]:
    model = state_of(tokenizer)["model"]
    keep = set(tokenizer.all_special_ids) | set(tokenizer.added_tokens_decoder)
    if model["type"] == "Unigram":
        scores = [score for _, score in model["vocab"]]
        keep |= {int(np.argmin(scores)), model["unk_id"] or 0}
    return {row for row in keep if row <= pieces[-1][0]}
