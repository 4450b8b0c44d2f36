"""Overlap and N-way structure against sets, and sampling that keeps memory bounded without moving shares."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.overlap import Overlap, SourceSketch
from isogloss.corpora.text.hashing import mix

Rows = list[tuple[str, str, int]]
ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.sampled_from(["de", "fr", "ka"]), st.integers(0, 12)), max_size=60
)


def sketched(rows: Rows, limit: int = 1000, block: int = 7) -> Overlap:
    sketch = SourceSketch(limit)
    for start in range(0, len(rows), block):
        for corpus, language in sorted({row[:2] for row in rows[start : start + block]}):
            own = [row[2] for row in rows[start : start + block] if row[:2] == (corpus, language)]
            sketch.add(corpus, language, mix(np.array(own, dtype=np.uint64)))
    return sketch.overlap()


@given(ROWS)
def test_counts_are_those_of_sets(rows: Rows) -> None:
    found = sketched(rows)
    sentences = {corpus: {row[2] for row in rows if row[0] == corpus} for corpus in sorted({row[0] for row in rows})}
    assert found.corpora == tuple(sentences)
    for one, own in enumerate(sentences.values()):
        for two, other in enumerate(sentences.values()):
            assert found.shared[one][two] == len(own & other)
    languages = Counter(number for number, _ in {(row[2], row[1]) for row in rows})
    ways = Counter(languages.values())
    assert found.ways == tuple(ways.get(count, 0) for count in range(1, max(ways, default=0) + 1))
    assert found.sentences == len({row[2] for row in rows}) and found.one_in == 1


def test_shares_and_the_largest() -> None:
    rows: Rows = [("a", "de", n) for n in range(4)] + [("b", "de", n) for n in range(8)] + [("c", "de", 99)]
    found = sketched(rows)
    assert found.share("a", "b") == 1.0 and found.share("b", "a") == 0.5 and found.share("a", "c") == 0.0
    assert found.largest(5) == [("a", "b", 1.0), ("b", "a", 0.5)]
    assert found.largest(1) == [("a", "b", 1.0)]


def test_beyond_the_limit_sentences_are_sampled_and_shares_stay() -> None:
    sketch, held = SourceSketch(limit=4000), []
    for start in range(0, 40_000, 1000):
        numbers = np.arange(start, start + 1000, dtype=np.uint64)
        sketch.add("all", "de", mix(numbers))
        sketch.add("half", "fr", mix(numbers[numbers % 2 == 0]))
        held.append(sum(len(names) for own in sketch._hashes.values() for names in own))
    assert max(held) <= 4000
    found = sketch.overlap()
    assert found.one_in == 16 or found.one_in == 32
    assert found.share("half", "all") == 1.0
    assert found.share("all", "half") == pytest.approx(0.5, abs=0.05)
    assert found.sentences == pytest.approx(40_000, rel=0.1)
    assert sum(found.ways) == found.sentences and found.ways[1] == found.shared[0][1]


def test_repetitions_are_forgotten_before_sentences_are() -> None:
    sketch = SourceSketch(limit=1000)
    for _ in range(50):
        sketch.add("a", "de", mix(np.arange(400, dtype=np.uint64)))
    found = sketch.overlap()
    assert found.one_in == 1 and found.sentences == 400


def test_no_more_is_forgotten_than_must_be() -> None:
    sketch = SourceSketch(limit=1000)
    sketch.add("a", "de", mix(np.arange(1200, dtype=np.uint64)))
    assert sketch.overlap().one_in == 2
