"""Finding answers against loops; an answer that somebody gives to the same question is no wrong one."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isogloss.config import LossSettings
from isogloss.losses.answers import answers
from losses.drawn import cosine, sum_of

T = 0.2
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 0, 2])), min_size=1, max_size=6)


def by_definition(question: Tensor, answer: Tensor, rows: list[tuple[int, int, int]]) -> Tensor:
    pairs = [place for place, (_, _, count) in enumerate(rows) for _ in range(count)]
    told = {(rows[place][0], rows[place][1]) for place in pairs}
    terms = []
    for i in pairs:
        right = (cosine(question[i], answer[i]) / T).exp()
        wrong = [(cosine(question[i], answer[j]) / T).exp() for j in pairs if (rows[i][0], rows[j][1]) not in told]
        terms.append(-(right / (right + sum_of(wrong))).log())
    return sum_of(terms) / len(pairs)


@given(ROWS.filter(lambda rows: any(count for _, _, count in rows)), st.integers(0, 10_000))
@settings(deadline=None)
def test_value_and_gradient_equal_the_formula(rows: list[tuple[int, int, int]], seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    sides = [torch.randn(len(rows), 5, generator=random, dtype=torch.float64) for _ in range(2)]
    weight = torch.tensor([count for _, _, count in rows], dtype=torch.float64)
    for side in sides:
        side[weight == 0] = math.nan
        side.requires_grad_()
    groups = [torch.tensor([row[column] for row in rows]) for column in (0, 1)]
    value = answers(sides[0], sides[1], groups[0], groups[1], weight, T)
    wanted = by_definition(sides[0], sides[1], rows)
    assert value.item() == pytest.approx(wanted.item(), rel=1e-9, abs=1e-11)
    found = torch.autograd.grad(value, sides)
    right = torch.autograd.grad(wanted, sides) if wanted.item() else [torch.zeros_like(side) for side in sides]
    for slope, expected in zip(found, right, strict=True):
        assert torch.allclose(slope, expected.nan_to_num(), rtol=1e-7, atol=1e-10)


def test_one_direction_alone() -> None:
    """Both questions look at the first answer: the second has lost, and no answer looks for a question."""
    question = torch.tensor([[1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)
    answer = torch.eye(2, dtype=torch.float64)
    number = torch.arange(2)
    lost = [math.log(1 + math.exp(-1)), math.log(1 + math.exp(1))]
    assert answers(question, answer, number, number, temperature=1.0).item() == pytest.approx(sum(lost) / 2)


def test_the_temperature_is_that_of_ranking_unless_given() -> None:
    question = torch.randn(4, 5, generator=torch.Generator().manual_seed(1))
    number = torch.arange(4)
    usual = LossSettings().ranking_temperature
    given_ = answers(question, question.flip(0), number, number, temperature=usual)
    assert torch.equal(answers(question, question.flip(0), number, number), given_)


def test_padding_says_nothing_about_what_answers_what() -> None:
    places, asked, given_ = torch.eye(3), torch.tensor([0, 1, 0]), torch.tensor([0, 1, 1])
    padded = answers(places, places, asked, given_, torch.tensor([1.0, 1.0, 0.0]), 1.0)
    assert padded.item() == pytest.approx(math.log(1 + math.exp(-1)), rel=1e-6), "both questions have one wrong answer"
