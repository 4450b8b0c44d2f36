"""Read test sets from a folder (`files`) or from the hub (`hub`); `known_sets` lists them.

A part that is missing is an error that says how to fetch it: an average over fewer languages than its name promises would be
wrong.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from isogloss.amounts import amount
from isogloss.errors import DataError
from isogloss.evaluation.data.files import Columns, Folder
from isogloss.evaluation.data.hub import HUB, Hub
from isogloss.evaluation.data.known_sets import SETS, KnownSet
from isogloss.evaluation.leak_report import Origin
from isogloss.evaluation.metrics import Doubles

UNTRANSLATED = ("", "NS")  # sentences of PAWS-X that were not translated
ENGLISH = re.compile(r"\b(the|a|an|is|are|of|in|on|and|to|with|for)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class RatedPairs:
    """Sentence pairs with similarity scores by people."""

    set: str
    subset: str
    languages: tuple[str, str]
    left: list[str]
    right: list[str]
    gold: Doubles
    origin: tuple[Origin, ...] = ()
    unit: str = ""  # the same for sets with the same pairs in other languages

    def sides(self) -> Iterator[tuple[str, list[str]]]:
        """Both columns with their languages."""
        yield self.languages[0], self.left
        yield self.languages[1], self.right


@dataclass(frozen=True, slots=True, eq=False)
class Translations:
    """Line-aligned sentences and their English translations."""

    set: str
    subset: str
    foreign: list[str]
    english: list[str]
    origin: tuple[Origin, ...] = ()

    def sides(self) -> Iterator[tuple[str, list[str]]]:
        """Both columns with their languages."""
        yield self.subset, self.foreign
        yield "eng", self.english


@dataclass(frozen=True, slots=True, eq=False)
class Haystack:
    """Sentences of two languages with their ids, and the gold pairs."""

    set: str
    subset: str
    split: str
    ids: tuple[list[str], list[str]]
    texts: tuple[list[str], list[str]]
    gold: list[tuple[str, str]]
    origin: tuple[Origin, ...] = ()

    @property
    def languages(self) -> tuple[str, str]:
        """Of the left and the right side."""
        left, _, right = self.subset.partition("-")
        return left, right


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """One or two texts per row, and the class of each row."""

    set: str
    language: str
    split: str
    texts: tuple[list[str], ...]
    labels: list[str]
    origin: tuple[Origin, ...] = field(default=())


class Data:
    """A source of test sets."""

    def __init__(self, source: "Folder | Hub") -> None:
        self.source = source

    @property
    def name(self) -> str:
        """The folder, or `hub`."""
        return self.source.name

    def rated_pairs(self, name: str, subset: str) -> RatedPairs:
        """One set of rated pairs, such as `sts2017` `en-ar`."""
        known = SETS[name]
        a, b = (subset, subset) if known.alone else tuple(subset.split("-", 1))
        found = self._read(known, subset, a, b, "test")
        left, right, scores = found.columns
        languages = (b, a) if _is_swapped(left, right, (a, b)) else (a, b)
        unit = known.unit or f"{name} {subset}"
        return RatedPairs(name, subset, languages, left, right, _numbers(scores, found.origin), (found.origin,), unit)

    def translations(self, name: str, subset: str) -> Translations:
        """One language of an aligned set, such as `tatoeba` `deu`."""
        known = SETS[name]
        if isinstance(self.source, Hub):
            found = self._read(known, subset, subset, "eng", "test")
            return Translations(name, subset, found.columns[0], found.columns[1], (found.origin,))
        sides = [self._read(known, subset, subset, side, "test") for side in (subset, "eng")]
        foreign, english = (side.columns[0] for side in sides)
        if len(foreign) != len(english):
            raise DataError(
                f"{sides[0].origin} has {amount(len(foreign), 'line')}, {sides[1].origin} has {len(english)}",
                hint="they must be line-aligned; fetch them again",
            )
        return Translations(name, subset, foreign, english, tuple(side.origin for side in sides))

    def haystack(self, name: str, subset: str, split: str) -> Haystack | None:
        """One split of a mining set, such as `bucc` `zh-en` `training`; None if it is missing."""
        known = SETS[name]
        a, _, b = subset.partition("-")
        if isinstance(self.source, Hub):
            return None if split != "test" else _from_hub(self._read(known, subset, a, b, split), name, subset)
        parts = [self._file(known, a, b, split, part) for part in (a, b, "gold")]
        if any(part is None for part in parts):
            return None
        left, right, gold = (part for part in parts if part is not None)
        origin = (left.origin, right.origin)
        ids, texts = (left.columns[0], right.columns[0]), (left.columns[1], right.columns[1])
        return _checked(Haystack(name, subset, split, ids, texts, list(zip(*gold.columns, strict=True)), origin), gold.origin)

    def labelled(self, name: str, language: str, split: str) -> Labelled:
        """One language and split of a classification set, such as `xnli` `de` `test`."""
        found = self._read(SETS[name], f"{language} {split}", language, language, split)
        whole = [row for row in zip(*found.columns, strict=True) if not any(cell in UNTRANSLATED for cell in row)]
        if not whole:
            raise DataError(f"{found.origin}: no rows with text in it", hint="is it the original file?")
        *texts, labels = (list(column) for column in zip(*whole, strict=True))
        return Labelled(name, language, split, tuple(texts), labels, (found.origin,))

    def missing(self, name: str, subset: str) -> DataError:
        """The error for a missing part: what is missing and how to fetch it."""
        return DataError(f"{name} {subset}: not in {self.name}", hint=SETS[name].fetch)

    def _read(self, known: KnownSet, part: str, a: str, b: str, split: str) -> Columns:
        if isinstance(self.source, Hub):
            if known.hub is None:
                raise self.missing(known.name, part)
            return self.source.read(known.hub, a, b, split)
        found = self._file(known, a, b, split)
        if found is None and known.either_order:
            found = self._file(known, b, a, split)
        if found is None:
            raise self.missing(known.name, part)
        return found

    def _file(self, known: KnownSet, a: str, b: str, split: str, part: str = "") -> Columns | None:
        if not isinstance(self.source, Folder):
            return None
        layout = known.gold if part == "gold" and known.gold else known.folder
        code = known.hub.codes.get(a, a) if known.hub else a
        return self.source.read(layout, a=a, b=b, split=split, part=part, code=code)


def open_data(named: str = "", environment: Mapping[str, str] | None = None) -> Data:
    """A source of test sets: a folder, or `hub`; by default `$ISOGLOSS_DATA`, or else the hub."""
    source = named or (os.environ if environment is None else environment).get("ISOGLOSS_DATA", "") or HUB
    return Data(Hub() if source == HUB else Folder(Path(source)))


def _numbers(scores: list[str], origin: Origin) -> Doubles:
    for number, score in enumerate(scores, 1):
        try:
            float(score)
        except ValueError as error:
            raise DataError(
                f"{origin} row {number}: the score is {score!r}, not a number", hint="is it the original file?"
            ) from error
    return np.array(scores, dtype=np.float64)


def _is_swapped(left: list[str], right: list[str], languages: tuple[str, str]) -> bool:
    """Whether the sides are in the opposite order of the name: publishers do not agree on it."""
    if languages[0] == languages[1] or "en" not in languages:
        return False
    counts = [sum(len(ENGLISH.findall(text)) for text in side) for side in (left, right)]
    return counts[1] > counts[0] if languages[0] == "en" else counts[0] > counts[1]


def _from_hub(found: Columns, name: str, subset: str) -> Haystack:
    """MTEB's BUCC: two lists of sentences, and gold pairs of positions from 1."""
    left, right, gold = found.columns
    ids = tuple([str(number) for number in range(1, len(side) + 1)] for side in (left, right))
    pairs = [(one, other) for one, _, other in (line.partition("\t") for line in gold)]
    return _checked(Haystack(name, subset, "test", (ids[0], ids[1]), (left, right), pairs, (found.origin,)), found.origin)


def _checked(haystack: Haystack, origin: Origin) -> Haystack:
    """Raise if a gold pair has a sentence that is missing: it could never be found."""
    known = [set(side) for side in haystack.ids]
    lost = next((pair for pair in haystack.gold if pair[0] not in known[0] or pair[1] not in known[1]), None)
    if lost is not None:
        raise DataError(
            f"{origin}: the pair {lost[0]} {lost[1]} is not among the sentences", hint="do the files belong together?"
        )
    return haystack
