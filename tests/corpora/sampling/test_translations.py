"""At most so many translations of a source are trained on, and all languages get their turn."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from isogloss.corpora.sampling.translations import surplus


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5), st.integers(0, 99))
def test_every_source_keeps_as_many_pairs_as_are_allowed(sources: list[int], most: int, seed: int) -> None:
    found = surplus(np.array(sources, dtype=np.int64), most, seed)
    assert found.tolist() == sorted(set(found.tolist()))
    kept = Counter(source for place, source in enumerate(sources) if place not in set(found.tolist()))
    assert kept == {source: min(count, most) for source, count in Counter(sources).items()}


def test_no_language_is_preferred_and_the_seed_decides() -> None:
    sources = np.repeat(np.arange(3000), 12)
    kept = np.delete(np.arange(len(sources)), surplus(sources, 4, 17))
    shares = np.bincount(kept % 12) / 1000
    assert shares.min() > 0.9 and shares.max() < 1.1
    assert np.array_equal(kept, np.delete(np.arange(len(sources)), surplus(sources, 4, 17)))
    assert not np.array_equal(kept, np.delete(np.arange(len(sources)), surplus(sources, 4, 18)))
