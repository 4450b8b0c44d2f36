"""Rows that catch up late are where dense AdamW would have them."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.kernels.row_adamw import WINDOW, RowAdamW

ROWS, WIDTH = 17, 5


class Dense:
    """torch's AdamW over the whole table, told of a gradient for some rows."""

    def __init__(self, table: Tensor, weight_decay: float) -> None:
        self.table = torch.nn.Parameter(table.clone())
        self.optimizer = torch.optim.AdamW([self.table], lr=1.0, weight_decay=weight_decay)

    def step(self, rows: Tensor, gradient: Tensor, rate: float) -> None:
        self.table.grad = torch.zeros_like(self.table).index_add(0, rows, gradient)
        self.optimizer.param_groups[0]["lr"] = rate
        self.optimizer.step()

    @property
    def values(self) -> Tensor:
        return self.table.data


def at(step: int) -> Tensor:
    return torch.tensor(step)


def some_rows(random: torch.Generator) -> Tensor:
    """A few rows; those with low numbers often, those with high ones hardly ever."""
    drawn = torch.rand(int(torch.randint(1, 5, (), generator=random)), generator=random) ** 4
    rows: Tensor = torch.unique((drawn * ROWS).long())
    return rows


def a_table(random: torch.Generator) -> Tensor:
    return torch.randn(ROWS, WIDTH, generator=random)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.01, 0.5]), st.integers(1, 3 * WINDOW), st.floats(-3, 1), st.booleans())
def test_it_is_dense_adamw(seed: int, decay: float, steps: int, size: float, lazily: bool) -> None:
    random = torch.Generator().manual_seed(seed)
    table = a_table(random)
    rates = (1e-2 * torch.rand(steps, generator=random)).tolist()
    dense, lazy = Dense(table, decay), RowAdamW(table, rates, decay)
    for step, rate in enumerate(rates):
        rows = some_rows(random)
        gradient = torch.randn(len(rows), WIDTH, generator=random) * 10**size
        values, *moments = lazy.current(rows, at(step))
        assert torch.allclose(values, dense.values[rows], atol=1e-5), "what a batch reads is up to date"
        if lazily:
            lazy.write(rows, values, (moments[0], moments[1]), gradient, at(step))
        else:
            lazy.refresh(rows, at(step))
            lazy.move(rows, gradient, at(step))
        dense.step(rows, gradient, rate)
    lazy.catch_up(at(steps))
    assert torch.allclose(table, dense.values, atol=1e-5)
    state = dense.optimizer.state[dense.table]
    assert torch.allclose(lazy.first, state["exp_avg"], atol=1e-6 * 10**size)
    assert torch.allclose(lazy.second, state["exp_avg_sq"], rtol=1e-3, atol=1e-9)


def test_a_row_that_was_never_touched_only_decays() -> None:
    table = torch.ones(ROWS, WIDTH)
    lazy = RowAdamW(table, [0.1] * 50, weight_decay=0.2)
    for step in range(50):
        lazy.refresh(torch.tensor([0]), at(step))
        lazy.move(torch.tensor([0]), torch.ones(1, WIDTH), at(step))
    assert torch.equal(table[1:], torch.ones(ROWS - 1, WIDTH)), "it waits"
    lazy.catch_up(at(50))
    assert torch.allclose(table[1:], torch.tensor(0.98**50).expand(ROWS - 1, WIDTH), rtol=1e-5)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 9))
def test_a_row_named_twice_with_one_gradient_moves_once(seed: int, before: int) -> None:
    random = torch.Generator().manual_seed(seed)
    once, rates = a_table(random), [1e-2] * 12
    twice = once.clone()
    single, double = RowAdamW(once, rates, 0.1), RowAdamW(twice, rates, 0.1)
    for step in range(before, before + 3):
        rows = torch.tensor([3, 5])
        gradient = torch.randn(2, WIDTH, generator=random)
        again = torch.tensor([0, 1, 1, 0])
        for optimizer, named, slope in ((single, rows, gradient), (double, rows[again], gradient[again])):
            values, first, second = optimizer.current(named, at(step))
            optimizer.write(named, values, (first, second), slope, at(step))
    assert torch.equal(once, twice) and torch.equal(single.second, double.second) and torch.equal(single.at, double.at)


def test_looking_writes_nothing() -> None:
    random = torch.Generator().manual_seed(1)
    table = a_table(random)
    lazy = RowAdamW(table, [1e-2] * 20, 0.1)
    lazy.move(torch.arange(4), torch.randn(4, WIDTH, generator=random), at(0))
    before = [one.clone() for one in (table, lazy.first, lazy.second, lazy.at)]
    values, first, _ = lazy.current(torch.arange(ROWS), at(9))
    assert not torch.equal(values[:4], table[:4]) and not torch.equal(first[:4], lazy.first[:4])
    assert all(torch.equal(one, other) for one, other in zip(before, (table, lazy.first, lazy.second, lazy.at), strict=True))


def test_catching_up_twice_changes_nothing() -> None:
    random = torch.Generator().manual_seed(2)
    table = a_table(random)
    lazy = RowAdamW(table, [1e-2] * 40, 0.1)
    lazy.move(torch.arange(4), torch.randn(4, WIDTH, generator=random), at(0))
    lazy.catch_up(at(30))
    before = table.clone()
    lazy.catch_up(at(30))
    assert torch.equal(table, before)


def test_a_state_is_taken_up_exactly() -> None:
    random = torch.Generator().manual_seed(3)
    table = a_table(random)
    copy, rates = table.clone(), [3e-3] * 60
    whole, cut = RowAdamW(table, rates, 0.1), RowAdamW(copy, rates, 0.1)
    steps = [(some_rows(random), torch.randn(ROWS, WIDTH, generator=random)) for _ in rates]

    def take(optimizer: RowAdamW, first: int, last: int) -> None:
        for step in range(first, last):
            rows, gradient = steps[step]
            optimizer.refresh(rows, at(step))
            optimizer.move(rows, gradient[: len(rows)], at(step))

    take(whole, 0, 60)
    take(cut, 0, 31)
    kept = {name: one.clone() for name, one in cut.state_dict().items()}
    continued = RowAdamW(copy, rates, 0.1)
    continued.load_state_dict(kept)
    take(continued, 31, 60)
    for one in (whole, continued):
        one.catch_up(at(60))
    assert torch.equal(table, copy)


def test_a_rate_beyond_reason_makes_no_nan_of_the_first_step() -> None:
    """The decay of steps to come, undone, is larger than any number: it has no part in the present."""
    table = torch.ones(ROWS, WIDTH)
    lazy = RowAdamW(table, [1e30] * 300, weight_decay=0.01)
    values, *_ = lazy.current(torch.arange(ROWS), at(0))
    assert torch.equal(values, torch.ones(ROWS, WIDTH))
