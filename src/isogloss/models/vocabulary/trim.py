"""Trim a multilingual vocabulary to what the run's languages can spell, or to what their text uses.

Exact for what is kept: a text whose pieces are all kept gets the same pieces and the same embedding, since the best
segmentation stays the best without other pieces. For that, special tokens stay, and so does the piece with the lowest score,
because Unigram computes the cost of unknown characters from it. `grow` adds pieces later.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.vocabulary.alphabets import Alphabet
from isogloss.models.vocabulary.coverage import Coverage, Survey
from isogloss.models.vocabulary.resize import pieces_of, state_of, token_rows
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

WORD_MARKS = "▁#Ġ"


@dataclass(frozen=True, slots=True)
class Trimming:
    """Rows of the token table before and after trimming, parameters and megabytes saved, and the coverage of each language."""

    rows_before: int
    rows_after: int
    parameters_saved: int
    megabytes_saved: float
    languages: Coverage

    @property
    def coverage(self) -> float:
        """Share of all tokens of the measured text that are kept."""
        tokens = sum(language["tokens"] for language in self.languages.values())
        kept = sum(language["kept"] * language["tokens"] for language in self.languages.values())
        return float(kept / tokens) if tokens else 1.0

    def as_dict(self) -> dict[str, Any]:
        """For run.json."""
        languages = {
            language: {name: round(value, 6) if isinstance(value, float) else value for name, value in values.items()}
            for language, values in self.languages.items()
        }
        rounded = {"megabytes_saved": round(self.megabytes_saved, 2), "coverage": round(self.coverage, 6)}
        return asdict(self) | rounded | {"languages": languages}


def kept_rows(tokenizer: "PreTrainedTokenizerFast", seen: Survey, how: str, also: Sequence[str] = ()) -> IntArray:
    """Row numbers to keep, ascending. `how` is "alphabet" (all that the languages can spell) or "corpus" (what is used).

    The pieces of the texts in `also` (prompts) are kept too.
    """
    pieces = pieces_of(tokenizer)
    keep = set(seen.used.tolist()) | _always_kept(tokenizer, pieces)
    keep |= {row for rows in token_rows(tokenizer, also) for row in rows}
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
