"""From pairs as they were found to pairs fit for training and testing: normalise, clean, split, write down what happened.

The result is the same for the same input, byte by byte, so its hash names it and later stages can be cached under it.
"""

import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning import normalise, rules_from
from isogloss.errors import DataError
from isogloss.storage import canonical_json, content_hash, replacing
from isogloss.types import SCHEMA, TEST, TRAIN, Bitext, BoolArray

MANIFEST_KEY = b"isogloss"


@dataclass(frozen=True, slots=True)
class Drop:
    """What one rule took out, with up to three examples."""

    rule: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """Clean pairs, each in the train or the test split, and the account of how they came to be."""

    bitext: Bitext
    rows_in: int
    drops: tuple[Drop, ...]

    @property
    def hash(self) -> str:
        """Names the content: equal pairs in equal order give an equal name."""
        return content_hash(self.bitext.source_language, *("\t".join(pair) for pair in self.bitext))

    def manifest(self) -> dict[str, Any]:
        """Counts and reasons, as they are written into the Parquet file and shown on screen."""
        per_language = {
            language: {split: len(self.bitext.where(language=language, split=split)) for split in (TRAIN, TEST)}
            for language in self.bitext.languages
        }
        return {
            "source_language": self.bitext.source_language,
            "rows_in": self.rows_in,
            "rows_out": len(self.bitext),
            "dropped": [asdict(drop) for drop in self.drops],
            "languages": per_language,
            "corpora": dict(sorted(Counter(self.bitext.column("corpus")).items())),
            "hash": self.hash,
        }

    def write(self, path: Path) -> None:
        """Write the pairs as Parquet, with the manifest inside the file so that the two cannot be parted."""
        metadata = {MANIFEST_KEY: canonical_json(self.manifest()).encode()}
        with replacing(path) as temporary:
            pq.write_table(self.bitext.table.replace_schema_metadata(metadata), temporary, compression="zstd")


def read_prepared(path: Path) -> Bitext:
    """Read what `Prepared.write` wrote."""
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path}: not a readable Parquet file ({error})", hint="write it again with isogloss prepare"
        ) from error
    if missing := [name for name in SCHEMA.names if name not in table.column_names]:
        raise DataError(
            f"{path}: no column {', '.join(missing)}; it has {', '.join(table.column_names)}",
            hint="it must come from isogloss prepare",
        )
    manifest = json.loads((table.schema.metadata or {}).get(MANIFEST_KEY, b"{}"))
    table = table.select(SCHEMA.names).replace_schema_metadata(None)
    return Bitext(table.combine_chunks(), manifest.get("source_language", "en"))


def prepare(
    bitext: Bitext, settings: CleaningSettings | None = None, held_out: float = 0.1, out: Path | str | None = None
) -> Prepared:
    """Clean `bitext`, hold out a share of its source sentences where the files did not, and write it if `out` is given.

    A source sentence is wholly in one split, with all its translations; text of the test split is never trained on.
    """
    settings = settings or CleaningSettings()
    rows_in = len(bitext)
    for side in ("source", "target"):
        bitext = bitext.with_column(side, [normalise(text) for text in bitext.column(side)])
    drops = []
    for rule in rules_from(settings):
        accepted = rule.accept(rule.score(bitext.column("source"), bitext.column("target")))
        if rule.needs_translation:
            accepted |= _source_only(bitext)
        bitext, drop = _drop(bitext, rule.name, accepted)
        drops.append(drop)
    bitext = bitext.with_column("split", _splits(bitext, held_out))
    if settings.drop_duplicates:
        bitext, drop = _drop(bitext, "duplicate", _first_of_its_kind(bitext))
        drops.append(drop)
    bitext, drop = _drop(bitext, "in the test split", _not_leaked(bitext))
    drops.append(drop)
    if not len(bitext):
        raise DataError(f"no pairs are left of {rows_in}", hint=f"most went by the rule: {_worst(drops)}")
    prepared = Prepared(bitext, rows_in, tuple(drops))
    if out is not None:
        prepared.write(Path(out))
    return prepared


def _source_only(bitext: Bitext) -> BoolArray:
    """True for source text that has no translation: the two sides are the same sentence on purpose."""
    return np.array([language == bitext.source_language for language in bitext.column("language")], dtype=bool)


def _drop(bitext: Bitext, rule: str, accepted: BoolArray) -> tuple[Bitext, Drop]:
    refused = bitext.keep(~accepted)
    examples = tuple(f"{pair.source[:80]} ↔ {pair.target[:80]}" for pair in list(refused)[:3])
    return (bitext.keep(accepted) if len(refused) else bitext), Drop(rule, len(refused), examples)


def _worst(drops: list[Drop]) -> str:
    return max(drops, key=lambda drop: drop.count).rule


def _first_of_its_kind(bitext: Bitext) -> BoolArray:
    """True for one copy of every pair: a held-out one if there is one, or the test set would shrink in silence."""
    seen: set[tuple[str, str, str]] = set()
    fresh = np.ones(len(bitext), dtype=bool)
    for row, pair in sorted(enumerate(bitext), key=lambda numbered: numbered[1].split != TEST):
        key = (pair.source.casefold(), pair.target.casefold(), pair.language)
        fresh[row] = key not in seen
        seen.add(key)
    return fresh


def _splits(bitext: Bitext, held_out: float) -> list[str]:
    """Keep the split a file gave; otherwise decide by the source sentence's hash, so adding data moves no row."""
    return [pair.split or (TEST if int(content_hash(pair.source)[:8], 16) / 2**32 < held_out else TRAIN) for pair in bitext]


def _not_leaked(bitext: Bitext) -> BoolArray:
    """False for training pairs of which either side is also a side of a test pair."""
    held = bitext.where(split=TEST)
    known = {text.casefold() for side in ("source", "target") for text in held.column(side)}
    return np.array(
        [pair.split == TEST or (pair.source.casefold() not in known and pair.target.casefold() not in known) for pair in bitext]
    ).astype(np.bool_)
