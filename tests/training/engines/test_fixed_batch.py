"""A batch in arrays of fixed size: everything can be taken out again, and what fills the rest is nobody's."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows
from isogloss.training.engines import fixed_batch as packing
from isogloss.training.engines.fixed_batch import FEWEST, Shape, bucket, fixed, may_read_all
from isogloss.training.tasks.protocol import SentenceBatch
from isogloss.types import FloatArray, IntArray

PAD = 1


def a_store(lengths: list[int], vocabulary: int, seed: int) -> TokenStore:
    random = np.random.default_rng(seed)
    ids = random.integers(0, vocabulary, sum(lengths)).astype(np.int32)
    return TokenStore(ids, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), PAD)


def a_batch(pairs: PairRows, chosen: IntArray) -> SentenceBatch:
    source, target = pairs.source[chosen], pairs.target[chosen]
    score = (source + 0.5).astype(np.float32)
    return SentenceBatch.of({"source": source, "target": target}, {"number": np.stack([source, target], 1), "score": score})


@dataclass(frozen=True)
class Laid:
    """The arrays of a fixed batch, by name."""

    shape: Shape
    rows: IntArray
    token_row: IntArray
    within: IntArray
    sentence: IntArray
    starts: IntArray
    source_at: IntArray
    target_at: IntArray
    number: IntArray
    weight: FloatArray
    score: FloatArray
    tokens: int


def laid(batch: SentenceBatch, tokens: TokenStore, examples: int, longest: int) -> Laid:
    made = fixed(batch, tokens, examples, longest)
    named = [part.numpy() for part in made.named_integers().values()]
    floats = (made.floats[name].numpy() for name in ("weight", "value.score"))
    parts: list[Any] = [made.shape, *named, *floats, made.tokens]
    return Laid(*parts)


@st.composite
def laid_out(draw: st.DrawFn) -> tuple[TokenStore, PairRows, SentenceBatch, Laid, int]:
    longest = draw(st.sampled_from([4, 17, 128]))
    lengths = draw(st.lists(st.integers(1, longest), min_size=2, max_size=40))
    store = a_store(lengths, draw(st.sampled_from([3, 50, 5000])), draw(st.integers(0, 999)))
    rows = st.integers(0, len(lengths) - 1)
    drawn = draw(st.lists(st.tuples(rows, rows), min_size=1, max_size=30))
    source, target = (np.array(side, dtype=np.int64) for side in zip(*drawn, strict=True))
    pairs = PairRows(source, target, np.zeros_like(source), np.zeros_like(source))
    room = len(drawn) + draw(st.integers(0, 9))
    batch = a_batch(pairs, np.arange(len(drawn)))
    return store, pairs, batch, laid(batch, store, room, longest), room


def sentence_of(made: Laid, number: int) -> list[int]:
    """The tokens of a sentence, by where it starts and by what every token says it belongs to."""
    ids = made.rows[made.token_row]
    by_place: list[int] = ids[made.starts[number] : made.starts[number + 1]].tolist()
    assert by_place == ids[made.sentence == number].tolist()
    return by_place


@settings(deadline=None)
@given(laid_out())
def test_unpacking_gives_the_batch_back(case: tuple[TokenStore, PairRows, SentenceBatch, Laid, int]) -> None:
    store, pairs, batch, made, room = case
    for pair in range(len(pairs)):
        assert sentence_of(made, int(made.source_at[pair])) == store.row(int(pairs.source[pair])).tolist()
        assert sentence_of(made, int(made.target_at[pair])) == store.row(int(pairs.target[pair])).tolist()
        assert made.weight[pair] == 1
    assert made.tokens == sum(len(store.row(int(row))) for row in batch.rows), "a sentence that two pairs share is there once"
    assert len(made.weight) == len(made.source_at) == len(made.target_at) == room
    assert not made.weight[len(pairs) :].any(), "pairs that are not there weigh nothing"
    assert made.number[: len(pairs)].tolist() == np.stack([pairs.source, pairs.target], 1).tolist()
    assert made.score[: len(pairs)].tolist() == (pairs.source + 0.5).tolist() and not made.score[len(pairs) :].any()


@settings(deadline=None)
@given(laid_out())
def test_filling_belongs_to_no_pair(case: tuple[TokenStore, PairRows, SentenceBatch, Laid, int]) -> None:
    store, _, batch, made, _ = case
    real = len(batch.rows)
    assert set(made.source_at[made.weight > 0]) | set(made.target_at[made.weight > 0]) == set(range(real))
    assert made.starts[real] == made.tokens
    filling = made.rows[made.token_row[made.tokens :]]
    assert (filling == PAD).all() and (made.sentence[made.tokens :] >= real).all()
    lengths = np.diff(made.starts)
    assert lengths.min() >= 0 and lengths.max() <= made.shape.longest, "no sentence is longer than attention is told"
    assert made.starts[-1] == len(made.token_row) == len(made.within) == len(made.sentence) == made.shape.tokens
    for number in range(made.shape.sentences):
        assert made.within[made.sentence == number].tolist() == list(range(lengths[number]))
    assert store.pad_id == PAD


@settings(deadline=None)
@given(laid_out())
def test_a_row_that_is_read_is_named_once_and_the_spare_one_is_not_read(
    case: tuple[TokenStore, PairRows, SentenceBatch, Laid, int],
) -> None:
    made = case[3]
    read = made.token_row.max() + 1
    named = made.rows[:read].tolist()
    assert len(set(named)) == len(named), "each has one place for its gradient"
    spare = set(made.rows[read:].tolist())
    assert len(spare) <= 1 and not spare & set(named)
    assert len(made.rows) == made.shape.tokens


@settings(deadline=None)
@given(laid_out(), st.integers(3, 400))
def test_where_no_batch_can_read_all_rows_a_spare_one_is_left(
    case: tuple[TokenStore, PairRows, SentenceBatch, Laid, int], rows: int
) -> None:
    store, pairs, _, made, room = case
    small = TokenStore((store.ids % rows).astype(np.int32), store.offsets, PAD)
    again = laid(a_batch(pairs, np.arange(len(pairs))), small, room, made.shape.longest)
    assert may_read_all(small, 2 * room, rows) or again.rows.max() < rows


def test_a_row_that_no_sentence_has_is_always_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty sentences of one token each: rows 0 to 19, the first of which is not the padding."""
    store = TokenStore(np.arange(20, dtype=np.int32), np.arange(21), PAD)
    monkeypatch.setattr(packing, "AT_ONCE", 3)
    assert may_read_all(store, 20, 20)
    assert not may_read_all(store, 20, 21), "row 20 is in none"
    assert not may_read_all(store, 18, 20), "eighteen sentences and the padding have nineteen rows"
    assert may_read_all(TokenStore(store.ids, store.offsets, 20), 20, 21), "padding is read too"


@given(st.integers(1, 3_000_000))
def test_buckets_waste_little(tokens: int) -> None:
    full = bucket(tokens)
    assert tokens <= full <= tokens + tokens / 8 + FEWEST
    assert bucket(full) == full, "a full bucket is its own"


@given(st.integers(200, 200_000))
def test_batches_of_similar_size_share_few_buckets(tokens: int) -> None:
    sizes = {bucket(count) for count in np.linspace(0.8 * tokens, 1.25 * tokens, 500).astype(int).tolist()}
    assert len(sizes) <= 9


@given(st.lists(st.integers(1, 30), min_size=1, max_size=30), st.integers(0, 99))
def test_batches_of_one_bucket_have_one_shape(lengths: list[int], seed: int) -> None:
    store = a_store([*lengths, 7], 40, seed)
    pairs = PairRows(*(np.arange(len(store)) for _ in range(4)))
    shapes = {fixed(a_batch(pairs, np.arange(count)), store, 64, 32).shape for count in range(1, len(store) + 1)}
    assert len({shape.tokens for shape in shapes}) == len(shapes)
