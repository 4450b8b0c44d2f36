"""A model's embeddings of all sentences of a suite, by text; with or without language means subtracted.

In many models, sentences of one language cluster together. Subtracting each language's mean embedding (Yang et al. 2021, "A
Simple and Effective Method To Eliminate the Self Language Bias in Multilingual Representations", arXiv 2109.04727, and before
it Libovický et al. 2020) removes that at no cost, if the language of a text is known. `tasks.bias` measures how much it helps.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.checksums import is_intact, load_arrays, save_arrays
from isogloss.corpora.reading.languages import without_region
from isogloss.errors import DataError, IsoglossError
from isogloss.evaluation.data.test_sets import EvaluationSet
from isogloss.evaluation.metrics import unit
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.roles import in_role
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray

MEANS_FILE = "language_means.npz"
OF_MODEL = "fingerprint"  # the key of the model in that file, next to the languages
NEARLY_ONE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class LanguageMeans:
    """The mean embedding of each language, for the model with this fingerprint, if it is known."""

    means: Mapping[str, FloatArray]
    fingerprint: str = ""

    def __contains__(self, language: str) -> bool:
        return without_region(language) in self.means

    def removed(self, vectors: FloatArray, language: str) -> FloatArray:
        """Embeddings of one language with its mean subtracted; vectors of length 1 are normalized again."""
        mean = self.means.get(without_region(language))
        if mean is None:
            known = ", ".join(sorted(self.means))
            raise DataError(
                f"the mean of {language} is not known", hint=f"measure it on text of that language; there is {known or 'none'}"
            )
        lengths = np.linalg.norm(vectors, axis=1)
        left: FloatArray = (vectors - mean).astype(np.float32)
        return unit(left) if len(vectors) and np.abs(lengths - 1).max() < NEARLY_ONE else left

    def refuse_other(self, encoder: Encoder) -> None:
        """Raise if these are the means of another model."""
        if self.fingerprint and self.fingerprint != encoder.fingerprint:
            raise IsoglossError(
                f"these language means do not belong to {encoder.name}",
                hint="they belong to the model, and the prompt, that they were measured with: measure them again with this one",
            )
        for language, mean in self.means.items():
            if mean.shape != (encoder.dimension,):
                raise IsoglossError(
                    f"the mean of {language} has {amount(mean.size, 'dimension')}, a vector of {encoder.name} has"
                    f" {encoder.dimension}",
                    hint="they are means of another model",
                )

    def write(self, folder: Path) -> Path:
        """Save the means in a folder, where `read_means` finds them."""
        path = folder / MEANS_FILE
        save_arrays(path, **{OF_MODEL: np.array(self.fingerprint), **self.means})
        return path


def read_means(place: Path | str) -> LanguageMeans:
    """Read the means that `isogloss evaluate --mean-removal --means-out` wrote, by folder or file."""
    path = Path(place) / MEANS_FILE if Path(place).is_dir() else Path(place)
    kept = load_arrays(path) if is_intact(path) else None  # the user's file: never removed, even if damaged
    if kept is None or OF_MODEL not in kept:
        raise IsoglossError(
            f"{path}: {'damaged, or not a file of language means' if path.is_file() else 'no language means there'}",
            hint="isogloss evaluate MODEL --suite … --mean-removal --means-out FOLDER",
        )
    means = {name: mean.astype(np.float32) for name, mean in kept.items() if name != OF_MODEL}
    return LanguageMeans(means, str(kept[OF_MODEL]))


@dataclass(frozen=True, slots=True, eq=False)
class Space:
    """Embeddings by text, by role if a model has prompts for queries and documents, and by language if means are subtracted."""

    row_of: Mapping[str, int]
    vectors: FloatArray
    means: LanguageMeans | None = None
    rows_by_role: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # of texts embedded with a prompt for this role

    @classmethod
    def encode(cls, encoder: Encoder, texts: Iterable[str], on_progress: OnProgress = silent, stage: str = "encode") -> "Space":
        """Embed each distinct text once."""
        row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        return cls(row_of, encoder.encode(list(row_of), on_progress, stage))

    @classmethod
    def of_sets(
        cls, encoder: Encoder, sets: Iterable[EvaluationSet], on_progress: OnProgress = silent, stage: str = "encode"
    ) -> "Space":
        """Embed the distinct texts of evaluation sets, queries and documents with the prompts that the model has for them."""
        texts: dict[str, list[str]] = {"": []}
        encoders = {"": encoder}
        for part in sets:
            if part.role not in encoders:
                encoders[part.role] = in_role(encoder, part.role)
            role = part.role if encoders[part.role] is not encoder else ""
            texts.setdefault(role, []).extend(text for _, own in part.columns() for text in own)
        space = cls({}, np.empty((0, encoder.dimension), dtype=np.float32))
        for role, own in texts.items():
            if distinct := list(dict.fromkeys(own)):
                space = space.joined(role, distinct, encoders[role].encode(distinct, on_progress, stage))
        return space

    def joined(self, role: str, texts: Sequence[str], vectors: FloatArray) -> "Space":
        """The same with the embeddings of further texts: of a role, or with "" those of all texts without one of their own."""
        rows = {text: len(self.vectors) + row for row, text in enumerate(texts)}
        both = np.concatenate([self.vectors, vectors]) if len(self.vectors) else vectors
        if not role:
            return replace(self, row_of={**self.row_of, **rows}, vectors=both)
        return replace(self, rows_by_role={**self.rows_by_role, role: rows}, vectors=both)

    def rows(self, texts: Sequence[str], role: str = "") -> list[int]:
        """The rows of texts that are queries, or documents, or neither."""
        row_of = self.rows_by_role.get(role, self.row_of)
        return [row_of[text] for text in texts]

    def of(self, texts: Sequence[str], language: str = "", role: str = "") -> FloatArray:
        """The embeddings of texts in one language, in order."""
        found: FloatArray = self.vectors[self.rows(texts, role)]
        return found if self.means is None else self.means.removed(found, language)

    def columns(self, part: EvaluationSet) -> list[FloatArray]:
        """The embeddings of each column of an evaluation set."""
        return [self.of(texts, language, part.role) for language, texts in part.columns()]


def language_means(space: Space, sets: Iterable[EvaluationSet], fingerprint: str = "") -> LanguageMeans:
    """The mean embedding of each language over its distinct sentences; `fingerprint` is that of the model."""
    rows: dict[str, set[int]] = {}
    for part in sets:
        for language, sentences in part.columns():
            rows.setdefault(without_region(language), set()).update(space.rows(sentences, part.role))
    means = {one: space.vectors[sorted(own)].mean(axis=0, dtype=np.float64) for one, own in rows.items()}
    return LanguageMeans({one: mean.astype(np.float32) for one, mean in means.items()}, fingerprint)
