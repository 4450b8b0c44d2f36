"""The kernels for short sentences are attention by its definition, both ways; on CUDA, or in triton's interpreter."""

import math
import os
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from isogloss.kernels.packed import Packed

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = [
    pytest.mark.gpu(interpreted=True),  # conftest tells triton to interpret where there is no GPU
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter takes log2(0) of rows that are not there
]


@pytest.fixture(scope="module")
def kernels() -> Any:  # noqa: ANN401 - a module
    """The module with the kernels."""
    pytest.importorskip("triton")
    if DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("there is a CUDA driver, but no CUDA device")
    from isogloss.kernels import short_attention

    return short_attention


def by_definition(together: Tensor, starts: list[int], scale: float, kept: Tensor | None = None) -> Tensor:
    """Sentence by sentence, head by head, in double precision; `kept` (tokens × heads × longest) multiplies the shares."""
    mixed = []
    for begin, end in pairwise(starts):
        query, key, value = (one.transpose(0, 1) for one in together[begin:end].double().unbind(1))
        shares = torch.softmax(scale * query @ key.transpose(1, 2), dim=-1)
        if kept is not None:
            shares = shares * kept[begin:end, :, : end - begin].transpose(0, 1)
        mixed.append((shares @ value).transpose(0, 1))
    return torch.cat(mixed)


@pytest.mark.parametrize("width", [16, 64])
@pytest.mark.parametrize("lengths", [[1], [3, 70, 1, 17, 25, 90, 5], [64, 64, 2], [140, 9]])
def test_kernels_equal_the_definition(kernels: Any, width: int, lengths: list[int]) -> None:  # noqa: ANN401
    """Sentences shorter and longer than a tile, along and across its borders, and one token alone."""
    torch.manual_seed(len(lengths))
    tokens, heads, scale = sum(lengths), 2, width**-0.5
    packed = Packed.of(torch.zeros(tokens, dtype=torch.long, device=DEVICE), torch.tensor(lengths, device=DEVICE))
    together = torch.randn(tokens, 3, heads, width, device=DEVICE, requires_grad=True)
    push = torch.randn(tokens, heads, width, device=DEVICE)
    found, sums = kernels.short_attention(together, packed.first, packed.end, scale)
    expected = by_definition(together, packed.starts.tolist(), scale)
    assert torch.allclose(found.double(), expected, atol=1e-5)
    (gradient,) = torch.autograd.grad(found, together, push)
    (wanted,) = torch.autograd.grad(expected, together, push.double())
    assert torch.allclose(gradient, wanted, atol=1e-4)
    query, key, _ = together.detach().double().unbind(1)
    own = scale * query[0, 1] @ key[: lengths[0], 1].T
    assert float(sums.detach()[1, 0]) == pytest.approx(float(torch.logsumexp(own, 0)) / math.log(2), abs=1e-4)


def test_what_lies_in_another_sentence_does_not_matter(kernels: Any) -> None:  # noqa: ANN401
    """Exactly: a neighbor that is not finite leaves the sentences beside it as they are."""
    torch.manual_seed(0)
    lengths = torch.tensor([5, 7, 70], device=DEVICE)
    packed = Packed.of(torch.zeros(82, dtype=torch.long, device=DEVICE), lengths)
    together = torch.randn(82, 3, 2, 16, device=DEVICE)
    before = kernels.short_attention(together, packed.first, packed.end, 0.25)[0]
    together[5:12, :2] = 1e4
    after = kernels.short_attention(together, packed.first, packed.end, 0.25)[0]
    assert torch.equal(before[:5], after[:5]) and torch.equal(before[12:], after[12:])
    assert not torch.equal(before[5:12], after[5:12])


def test_which_sentences_they_are_for(kernels: Any) -> None:  # noqa: ANN401
    assert kernels.fits(64, 17) and kernels.fits(32, kernels.LONGEST)
    assert not kernels.fits(64, kernels.LONGEST + 1) and not kernels.fits(48, 17)


def test_dropout_zeroes_shares_and_scales_the_rest(kernels: Any) -> None:  # noqa: ANN401
    """Values that are one-hot by position show each share as it was used: 0, or p / (1 − dropout). So does the way back."""
    torch.manual_seed(1)
    lengths, heads, width, dropout = [3, 64, 1, 17, 40], 2, 64, 0.3
    tokens = sum(lengths)
    packed = Packed.of(torch.zeros(tokens, dtype=torch.long, device=DEVICE), torch.tensor(lengths, device=DEVICE))
    together = torch.randn(tokens, 3, heads, width, device=DEVICE)
    together[:, 2] = torch.eye(width, device=DEVICE)[packed.within][:, None]
    seed = torch.tensor([5], device=DEVICE)
    used = kernels.short_attention(together, packed.first, packed.end, 0.125, dropout, seed)[0]
    shares = kernels.short_attention(together, packed.first, packed.end, 0.125)[0]
    kept = used / torch.where(shares == 0, 1.0, shares) * (1 - dropout)
    assert torch.allclose(kept, kept.round(), atol=1e-4) and set(kept.round().unique().tolist()) == {0.0, 1.0}
    possible = int(sum(length**2 for length in lengths)) * heads
    assert float(kept.sum()) / possible == pytest.approx(1 - dropout, abs=4 * math.sqrt(0.21 / possible))
    assert not torch.equal(kept[:, 0], kept[:, 1])  # heads differ
    other = kernels.short_attention(together, packed.first, packed.end, 0.125, dropout, seed + 1)[0]
    assert not torch.equal(other, used)

    together = torch.randn(tokens, 3, heads, width, device=DEVICE, requires_grad=True)
    push = torch.randn(tokens, heads, width, device=DEVICE)
    found = kernels.short_attention(together, packed.first, packed.end, 0.125, dropout, seed)[0]
    expected = by_definition(together, packed.starts.tolist(), 0.125, kept.round() / (1 - dropout))
    assert torch.allclose(found.double(), expected, atol=1e-5)
    (gradient,) = torch.autograd.grad(found, together, push)
    (wanted,) = torch.autograd.grad(expected, together, push.double())
    assert torch.allclose(gradient, wanted, atol=1e-4)
