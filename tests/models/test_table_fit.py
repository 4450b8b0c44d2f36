"""A fitted table is the minimum of its formula, and rows without text stay."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from isogloss.models.table_fit import fit_table
from isogloss.types import FloatArray, IntArray

ROWS, WIDTH = 12, 3


def example(seed: int, sentences: int = 30) -> tuple[FloatArray, IntArray, IntArray, FloatArray, IntArray]:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 6, sentences)
    ids = random.integers(0, ROWS - 2, lengths.sum())  # the last two rows have no text
    start, wanted = (random.normal(size=(size, WIDTH)).astype(np.float32) for size in (ROWS, sentences))
    return start, ids, lengths, wanted, np.arange(sentences)


def shares_by_definition(ids: IntArray, lengths: IntArray) -> NDArray[np.float64]:
    shares = np.zeros((len(lengths), ROWS))
    ends = np.cumsum(lengths)
    for row, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        for token in ids[end - length : end]:
            shares[row, token] += 1 / length
    return shares


@given(st.integers(0, 1000), st.sampled_from([0.01, 0.3, 5.0]))
def test_table_is_the_minimum_of_the_formula(seed: int, strength: float) -> None:
    start, ids, lengths, wanted, groups = example(seed)
    shares = shares_by_definition(ids, lengths)
    moved = np.linalg.solve(shares.T @ shares + strength * np.eye(ROWS), shares.T @ (wanted - shares @ start))
    found = fit_table(start, ids, lengths, wanted, groups, (strength,))

    def formula(table: NDArray[np.floating]) -> float:
        return float(np.square(shares @ table - wanted).sum() + strength * np.square(table - start).sum())

    assert found.strength == strength
    assert formula(start + moved) <= formula(found.table) * (1 + 1e-6) <= formula(start + moved) * (1 + 1e-3)
    assert found.table == pytest.approx(start + moved, abs=0.1)
    assert (found.table[-2:] == start[-2:]).all()


def test_strength_with_the_smallest_error_on_sentences_left_out_wins() -> None:
    start, ids, lengths, wanted, groups = example(5, sentences=60)
    shares, strengths = shares_by_definition(ids, lengths), (0.01, 0.3, 5.0)
    out = groups % 10 == 0
    errors = {}
    for strength in strengths:
        seen = shares[~out]
        moved = np.linalg.solve(seen.T @ seen + strength * np.eye(ROWS), seen.T @ (wanted - shares @ start)[~out])
        errors[strength] = np.square(wanted - shares @ (start + moved))[out].sum(1).mean()
    found = fit_table(start, ids, lengths, wanted, groups, strengths)
    assert found.errors == pytest.approx(errors, rel=1e-2)
    assert found.strength == min(errors, key=lambda strength: errors[strength])


def test_translations_of_one_sentence_are_left_out_together() -> None:
    start, ids, lengths, wanted, _groups = example(7)
    together = fit_table(start, ids, lengths, wanted, np.full(len(lengths), 10), (0.01, 5.0))
    assert not together.errors  # all or none: nothing is left to choose by


def test_sentence_without_tokens_asks_for_nothing() -> None:
    start, ids, lengths, wanted, groups = example(9)
    more = fit_table(start, ids, np.append(lengths, 0), np.vstack([wanted, wanted[:1]]), np.append(groups, 99), (0.3,))
    assert more.table == pytest.approx(fit_table(start, ids, lengths, wanted, groups, (0.3,)).table, abs=1e-5)
