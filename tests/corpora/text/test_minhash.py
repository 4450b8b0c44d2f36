"""MinHash: signatures agree as much as the texts do."""

import numpy as np
import pyarrow as pa

from isogloss.corpora.text.minhash import BANDS, bands, likeness, signatures
from isogloss.corpora.text.side import Side


def signature(pairs: list[tuple[str, str]]) -> np.ndarray:
    source, target = (Side(pa.array([pair[place] for pair in pairs], pa.string()), "") for place in (0, 1))
    return signatures(source, target)


def triples(text: str, side: int) -> set[tuple[object, ...]]:
    words = text.lower().split()
    whole = {(side, *words[place : place + 3]) for place in range(len(words) - 2)}
    return whole | {(side, *words[:3])} if words else whole


def jaccard(one: tuple[str, str], other: tuple[str, str]) -> float:
    left = triples(one[0], 0) | triples(one[1], 1)
    right = triples(other[0], 0) | triples(other[1], 1)
    return len(left & right) / len(left | right)


def test_likeness_estimates_the_share_of_common_triples() -> None:
    random = np.random.default_rng(3)
    vocabulary = [f"w{number}" for number in range(500)]
    base = [" ".join(random.choice(vocabulary, 30)) for _ in range(60)]
    pairs, changed = [], []
    for number in range(0, 60, 2):
        source, target = base[number], base[number + 1]
        words = source.split()
        words[: number // 4] = random.choice(vocabulary, number // 4).tolist()
        pairs.append((source, target))
        changed.append((" ".join(words), target))
    estimate = likeness(signature(pairs), signature(changed))
    truth = np.array([jaccard(*both) for both in zip(pairs, changed, strict=True)])
    assert np.abs(estimate - truth).max() < 0.25
    assert np.abs(estimate - truth).mean() < 0.06


def test_equal_text_has_equal_signatures_whatever_its_case_and_marks() -> None:
    one, other = signature([("The cat sat here.", "Die Katze saß hier."), ("", ""), ("a", "b")]), None
    other = signature([("the CAT, sat here", "die katze saß HIER!"), ("", ""), ("A!", "b?")])
    assert (one == other).all()


def test_bands_of_different_places_differ() -> None:
    keys = bands(signature([("one two three four five six", "eins zwei drei vier fünf sechs")]))
    assert keys.shape == (1, BANDS)
    assert len(set(keys[0].tolist())) == BANDS
