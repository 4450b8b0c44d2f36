"""What blocks are scored with: a tokenizer, a judging model, and text that is no sentence any more."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from corpora.stores import OPTIONS, feeds, write
from isogloss.config import CleaningSettings
from isogloss.corpora.cleaning.length import token_counter
from isogloss.corpora.cleaning.quality_scores import SimilarityModel
from isogloss.corpora.preparation.feeds import from_bitext
from isogloss.corpora.prepare import prepare_store
from isogloss.errors import DataError
from isogloss.types import Bitext, Pair


def judge(limit: int = 10) -> SimilarityModel:
    """Knows only how long a text is."""
    return SimilarityModel(
        lambda texts: np.array([[1.0, float(len(text) > limit)] for text in texts], dtype=np.float32), f"length {limit}"
    )


def test_a_loosened_rule_lets_no_pair_past_the_judge(tmp_path: Path) -> None:
    rows = [Pair("short", "a rather long text indeed", "xx", "c", "train"), Pair("short", "brief", "xx", "c", "train")]
    cleaning = CleaningSettings(max_length_ratio=2, similarity_model="m", min_similarity=0.9, min_language=0)
    how = replace(OPTIONS, cleaning=cleaning, similarity_model=judge(), held_out=0.0)
    for ratio in (2, 50):
        looser = replace(how, cleaning=cleaning.replace(max_length_ratio=ratio))
        assert prepare_store(from_bitext(Bitext.of(rows)), tmp_path / "store", looser).bitext().column("target") == ["brief"]
    other = replace(how, cleaning=cleaning.replace(max_length_ratio=50), similarity_model=judge(100))
    assert len(prepare_store(from_bitext(Bitext.of(rows)), tmp_path / "store", other)) == 2  # another model, other scores
    with pytest.raises(DataError, match="needs a loaded model"):
        prepare_store(from_bitext(Bitext.of(rows)), tmp_path / "other", replace(how, similarity_model=None))


def test_a_tokenizer_is_known_by_its_content(tmp_path: Path) -> None:
    path, out = tmp_path / "tokenizer.json", tmp_path / "store"
    source = write(tmp_path / "en-de.tsv", 5)
    limited = replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(max_tokens=8, tokenizer=str(path)))
    for splitter, fits in ((pre_tokenizers.Whitespace(), True), (pre_tokenizers.Split("", "isolated"), False)):
        tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = splitter
        tokenizer.save(str(path))
        token_counter.cache_clear()
        if fits:
            prepare_store(feeds(source), out, limited)
        else:
            with pytest.raises(DataError, match="none kept"):
                prepare_store(feeds(source), out, limited)


def test_a_giant_is_too_long_and_costs_little(tmp_path: Path) -> None:
    source = tmp_path / "en-de.tsv"
    source.write_text("one cat\teine Katze\n" + "x" * 3_000_000 + "\tein Riese\n")
    loose = replace(OPTIONS, cleaning=OPTIONS.cleaning.replace(max_characters=10**9), held_out=0.0)
    store = prepare_store(feeds(source), tmp_path / "store", loose)
    assert {drop["rule"]: drop["count"] for drop in store.manifest["dropped"] if drop["count"]} == {"too long": 1}
    assert len(pq.read_table(tmp_path / "store" / "dropped").to_pylist()[0]["source"]) == 200
