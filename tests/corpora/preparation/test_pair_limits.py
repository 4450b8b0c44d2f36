"""Which training pairs are kept under a limit: by definition, and whatever the order of the input."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.stores import OPTIONS
from isogloss.corpora.preparation import pair_limits
from isogloss.corpora.preparation.feeds import from_bitext
from isogloss.corpora.preparation.pair_limits import PER_CORPUS, PER_LANGUAGE, PairLimits, beyond
from isogloss.corpora.prepare import prepare_store
from isogloss.corpora.store import Store
from isogloss.corpora.text.hashing import combine
from isogloss.types import TRAIN, Bitext, Pair

ROWS = [
    Pair(f"sentence number {n} is here", f"{word} {n} steht da", language, corpus, "test" if n % 6 == 0 else "train")
    for language, word, corpus, last in (("de", "Satz", "web", 60), ("nl", "Zin", "web", 40))
    for n in range(last)
] + [Pair(f"another one with {n} in it", f"noch einer mit {n} drin", "de", "talks", "train") for n in range(25)]

hashes = st.integers(0, 5)  # few, so that many are equal
rows = st.lists(st.tuples(hashes, hashes), max_size=40)


def kept_of(folder: Path, limits: PairLimits, rows: list[Pair] = ROWS) -> Store:
    return prepare_store(from_bitext(Bitext.of(rows)), folder, replace(OPTIONS, limits=limits))


def trained(store: Store) -> set[tuple[str, str, str]]:
    return {(pair.source, pair.language, pair.corpus) for pair in store.bitext().where(split=TRAIN)}


@settings(deadline=None)
@given(rows, st.integers(1, 45), st.integers(0, 3), st.integers(1, 7), st.integers(1, 9))
def test_the_rows_beyond_are_those_of_a_sort(
    pairs: list[tuple[int, int]], most: int, seed: int, at_once: int, waiting: int
) -> None:
    sources, targets = (np.array([pair[side] for pair in pairs], dtype=np.uint64) for side in (0, 1))
    mixed = combine(sources, np.full(len(pairs), seed, np.uint64)).tolist()
    order = sorted(range(len(pairs)), key=lambda row: (mixed[row], pairs[row][1], row))
    parts = [slice(start, start + at_once) for start in range(0, len(pairs), at_once)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair_limits, "WAITING", waiting)
        found = beyond([(np.arange(len(pairs))[one], sources[one], targets[one]) for one in parts], most, seed)
    assert sorted(found.tolist()) == sorted(order[most:])


def test_no_language_and_no_corpus_has_more_than_its_limit_and_no_test_pair_is_lost(tmp_path: Path) -> None:
    whole, store = kept_of(tmp_path / "all", PairLimits()), kept_of(tmp_path / "some", PairLimits(30, 20))
    counts = store.pair_counts()
    assert counts.total(language="de", split=TRAIN) == 30 and counts.total(language="nl", split=TRAIN) == 20
    assert all(0 < count <= 20 for count in counts.of_split().values())
    assert counts.of_split("test") == whole.pair_counts().of_split("test")
    dropped = {one["rule"]: one["count"] for one in store.manifest["dropped"]}
    # 50 of web/de, 25 of talks/de and 33 of web/nl are there to train on.
    assert dropped[PER_CORPUS] == (50 - 20) + (25 - 20) + (33 - 20) and dropped[PER_LANGUAGE] == 10
    assert store.manifest["settings"]["limits"] == {"per_language": 30, "per_corpus": 20, "seed": 0}
    assert not {PER_CORPUS, PER_LANGUAGE} & {one["rule"] for one in whole.manifest["dropped"]}
    assert "limits" not in whole.manifest["settings"]


def test_languages_keep_the_same_source_sentences(tmp_path: Path) -> None:
    rows = [row for row in ROWS if row.corpus == "web" and int(row.source.split()[2]) < 40]
    found = trained(kept_of(tmp_path / "store", PairLimits(12), rows))
    assert Counter(language for _, language, _ in found) == {"de": 12, "nl": 12}
    assert len({source for source, _, _ in found}) == 12


def test_the_choice_is_that_of_the_text_and_the_seed(tmp_path: Path) -> None:
    few, more, other = (
        trained(kept_of(tmp_path / str(place), limits))
        for place, limits in enumerate((PairLimits(10), PairLimits(20), PairLimits(10, seed=1)))
    )
    shuffled = Random(3).sample(ROWS, len(ROWS))
    assert trained(kept_of(tmp_path / "shuffled", PairLimits(10), shuffled)) == few
    assert few < more and other != few


def test_a_limit_above_all_counts_changes_no_pair(tmp_path: Path) -> None:
    whole, loose = kept_of(tmp_path / "all", PairLimits()), kept_of(tmp_path / "loose", PairLimits(75, 50))
    assert loose.hash == whole.hash and not any(one["count"] for one in loose.manifest["dropped"])
