"""Read test sets from a folder (`files`) or from the hub (`hub`); `known_sets` lists them.

A part that is missing is an error that says how to fetch it: an average over fewer languages than its name promises would be
wrong.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import DataError
from isogloss.evaluation.data.files import Columns, Folder
from isogloss.evaluation.data.hub import HUB, Hub
from isogloss.evaluation.data.known_sets import SETS, KnownSet
from isogloss.evaluation.leak_report import SetFile
from isogloss.evaluation.metrics import Doubles

UNTRANSLATED = ("", "NS")  # sentences of PAWS-X that were not translated
ENGLISH = re.compile(r"\b(the|a|an|is|are|of|in|on|and|to|with|for)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSet:
    """One subset of a test set: columns of text, each in one language. The two columns of an aligned set are translations."""

    set: str
    subset: str
    languages: tuple[str, ...]
    texts: tuple[list[str], ...]
    origin: tuple[SetFile, ...] = ()
    role: str = ""  # "query" or "document", for which a model may have a prompt

    def columns(self) -> Iterator[tuple[str, list[str]]]:
        """Each column with its language."""
        return zip(self.languages, self.texts, strict=True)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RatedPairs(EvaluationSet):
    """Sentence pairs with similarity scores by people."""

    gold: Doubles
    unit: str  # the same for sets with the same pairs in other languages


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Haystack(EvaluationSet):
    """Sentences of two languages with their ids, and the gold pairs."""

    split: str
    ids: tuple[list[str], list[str]]
    gold: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Labelled(EvaluationSet):
    """One or two texts per row, and the class of each row."""

    split: str
    labels: list[str]


class Data:
    """A source of test sets."""

    def __init__(self, source: "Folder | Hub") -> None:
        self.source, self.name = source, source.name

    def rated_pairs(self, name: str, subset: str) -> RatedPairs:
        """One set of rated pairs, such as `sts2017` `en-ar`."""
        known = SETS[name]
        a, b = (subset, subset) if known.alone else tuple(subset.split("-", 1))
        found = self._read(known, subset, a, b, "test")
        *texts, scores = found.columns
        languages = (b, a) if _is_swapped(texts, (a, b)) else (a, b)
        gold, unit = _numbers(scores, found.origin), known.unit or f"{name} {subset}"
        return RatedPairs(name, subset, languages, tuple(texts), (found.origin,), gold=gold, unit=unit)

    def translations(self, name: str, subset: str) -> EvaluationSet:
        """One language of an aligned set, such as `tatoeba` `deu`, and its English translations."""
        known = SETS[name]
        if isinstance(self.source, Hub):
            found = [self._read(known, subset, subset, "eng", "test")]
        else:
            found = [self._read(known, subset, subset, side, "test") for side in (subset, "eng")]
        foreign, english = (column for side in found for column in side.columns)
        if len(foreign) != len(english):
            raise DataError(
                f"{found[0].origin} has {amount(len(foreign), 'line')}, {found[-1].origin} has {len(english)}",
                hint="they must be line-aligned; fetch them again",
            )
        return EvaluationSet(name, subset, (subset, "eng"), (foreign, english), tuple(side.origin for side in found))

    def haystack(self, name: str, subset: str, split: str) -> Haystack | None:
        """One split of a mining set, such as `bucc` `zh-en` `training`; None if it is missing."""
        known = SETS[name]
        a, _, b = subset.partition("-")
        if isinstance(self.source, Hub):  # MTEB's BUCC: two lists of sentences, and gold pairs of positions from 1
            if split != "test":
                return None
            found = [self._read(known, subset, a, b, split)]
            *texts, pairs = found[0].columns
            ids = [[str(number) for number in range(1, len(side) + 1)] for side in texts]
            gold = [(left, right) for left, _, right in (line.partition("\t") for line in pairs)]
        else:
            found = [part for side in (a, b, "gold") if (part := self.source.read(known, a, b, split, side)) is not None]
            if len(found) < 3:
                return None
            ids, texts = ([part.columns[place] for part in found[:2]] for place in (0, 1))
            gold = list(zip(*found[2].columns, strict=True))
        _refuse_unknown(gold, ids, found[-1].origin)
        origin = tuple(part.origin for part in found[:2])
        return Haystack(name, subset, (a, b), tuple(texts), origin, split=split, ids=(ids[0], ids[1]), gold=gold)

    def labelled(self, name: str, language: str, split: str) -> Labelled:
        """One language and split of a classification set, such as `xnli` `de` `test`."""
        found = self._read(SETS[name], f"{language} {split}", language, language, split)
        whole = [row for row in zip(*found.columns, strict=True) if not any(cell in UNTRANSLATED for cell in row)]
        if not whole:
            raise DataError(f"{found.origin}: no rows with text in it", hint="is it the original file?")
        *texts, labels = (list(column) for column in zip(*whole, strict=True))
        languages = (language,) * len(texts)
        return Labelled(name, language, languages, tuple(texts), (found.origin,), split=split, labels=labels)

    def missing(self, name: str, subset: str) -> DataError:
        """The error for a missing part: what is missing and how to fetch it."""
        return DataError(f"{name} {subset}: not in {self.name}", hint=SETS[name].fetch)

    def _read(self, known: KnownSet, part: str, a: str, b: str, split: str) -> Columns:
        found = self.source.read(known, a, b, split)
        if found is None:
            raise self.missing(known.name, part)
        return found


def open_data(named: str = "", environment: Mapping[str, str] | None = None) -> Data:
    """A source of test sets: a folder, or `hub`; by default `$ISOGLOSS_DATA`, or else the hub."""
    source = named or (os.environ if environment is None else environment).get("ISOGLOSS_DATA", "") or HUB
    return Data(Hub() if source == HUB else Folder(Path(source)))


def _numbers(scores: list[str], origin: SetFile) -> Doubles:
    for number, score in enumerate(scores, 1):
        try:
            float(score)
        except ValueError as error:
            raise DataError(
                f"{origin} row {number}: the score is {score!r}, not a number", hint="is it the original file?"
            ) from error
    return np.array(scores, dtype=np.float64)


def _is_swapped(texts: Sequence[list[str]], languages: tuple[str, str]) -> bool:
    """Whether the sides are in the opposite order of the name: publishers do not agree on it."""
    if languages[0] == languages[1] or "en" not in languages:
        return False
    counts = [sum(len(ENGLISH.findall(text)) for text in side) for side in texts]
    return counts[1] > counts[0] if languages[0] == "en" else counts[0] > counts[1]


def _refuse_unknown(gold: Sequence[tuple[str, str]], ids: Sequence[list[str]], origin: SetFile) -> None:
    """Raise if a gold pair has a sentence that is missing: it could never be found."""
    known = [set(side) for side in ids]
    for left, right in gold:
        if left not in known[0] or right not in known[1]:
            raise DataError(
                f"{origin}: the pair {left} {right} is not among the sentences", hint="do the files belong together?"
            )
