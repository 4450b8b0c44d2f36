"""Attention for short sentences on CUDA, forward and backward, over packed tokens.

Flash attention computes a tile of 128 × 128 per sentence and head. Our training sentences have 17 tokens on average, so most of
it is padding (44 % of a training step, measured). Here a tile is 64 tokens of the packed row, of any sentences, against all
tokens of those sentences; scores between different sentences are masked. Query, key and value are one tensor, and so are their
gradients. Each tile writes only its own rows, so results are deterministic.

For token i of a sentence that spans first_i … end_i − 1:

    o_i = Σ_j p_ij v_j,   p_ij = exp(s_ij − lse_i),   s_ij = scale · q_i·k_j      over first_i ≤ j < end_i
    dv_j = Σ_i p_ij do_i,   ds_ij = p_ij (do_i·v_j − do_i·o_i),   dq_i = scale Σ_j ds_ij k_j,   dk_j = scale Σ_i ds_ij q_i

With dropout, p_ij m_ij replaces p_ij in o_i and dv_j, and m_ij do_i·v_j replaces do_i·v_j in ds_ij; m_ij is 0 or 1 / (1 − p).
It is computed from a seed on the device and from i, j and the head (Philox), so the backward pass needs no stored mask, and a
replayed CUDA graph that draws a new seed drops other entries.
"""

# ruff: noqa: ANN001, ANN202 - annotations of kernels have a meaning for triton

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

WIDTHS = (16, 32, 64, 128)  # of a head
LONGEST = 256  # tokens of a sentence; longer ones fill flash attention's tiles
LOG2E = 1.4426950408889634
ROUNDS = 7  # of Philox: the fewest that pass BigCrush


@triton.jit  # type: ignore[untyped-decorator]
def _kept(seed, query, key, begins, head, tokens, dropout: tl.constexpr, longest: tl.constexpr, rounds: tl.constexpr):  # type: ignore[no-untyped-def]
    """m_ij of the docstring, for each query and key, which is `key - begins` places into its sentence."""
    draw = tl.rand(tl.load(seed), (head * tokens + query) * longest + key - begins, rounds)
    return tl.where(draw >= dropout, 1.0 / (1.0 - dropout), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    qkv,
    out,
    lse,
    first,
    end,
    seed,
    scale,
    tokens,
    dropout: tl.constexpr,
    longest: tl.constexpr,
    rounds: tl.constexpr,
    heads: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    step: tl.constexpr,
):
    place, head = tl.program_id(0), tl.program_id(1)
    rows = place * tile + tl.arange(0, tile)
    inside = rows < tokens
    columns = tl.arange(0, width)
    stride: tl.constexpr = 3 * heads * width
    mine = rows[:, None] * stride + head * width + columns[None, :]
    query = tl.load(qkv + mine, mask=inside[:, None], other=0.0)
    begins = tl.load(first + rows, mask=inside, other=tokens)
    ends = tl.load(end + rows, mask=inside, other=0)
    highest = tl.full([tile], float("-inf"), dtype=tl.float32)
    total = tl.zeros([tile], dtype=tl.float32)
    mixed = tl.zeros([tile, width], dtype=tl.float32)
    for start in range(tl.min(begins, 0), tl.max(ends, 0), step):
        keys = start + tl.arange(0, step)
        there = keys < tokens
        theirs = keys[:, None] * stride + head * width + columns[None, :]
        key = tl.load(qkv + heads * width + theirs, mask=there[:, None], other=0.0)
        value = tl.load(qkv + 2 * heads * width + theirs, mask=there[:, None], other=0.0)
        score = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        same = (keys[None, :] >= begins[:, None]) & (keys[None, :] < ends[:, None])
        score = tl.where(same, score, float("-inf"))
        higher = tl.maximum(highest, tl.max(score, 1))
        level = tl.where(higher == float("-inf"), 0.0, higher)
        share = tl.exp2(score - level[:, None])
        fade = tl.exp2(highest - level)
        total = total * fade + tl.sum(share, 1)
        if dropout > 0:
            share *= _kept(seed, rows[:, None], keys[None, :], begins[:, None], head, tokens, dropout, longest, rounds)
        mixed = mixed * fade[:, None] + tl.dot(share.to(value.dtype), value, input_precision="ieee")
        highest = higher
    mixed = mixed / tl.where(total > 0, total, 1.0)[:, None]
    output = rows[:, None] * (heads * width) + head * width + columns[None, :]
    tl.store(out + output, mixed.to(out.dtype.element_ty), mask=inside[:, None])
    tl.store(lse + head * tokens + rows, highest + tl.log2(total), mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    qkv,
    out,
    lse,
    grad,
    dqkv,
    first,
    end,
    seed,
    scale,
    slope,
    tokens,
    dropout: tl.constexpr,
    longest: tl.constexpr,
    rounds: tl.constexpr,
    heads: tl.constexpr,
    width: tl.constexpr,
    tile: tl.constexpr,
    step: tl.constexpr,
):
    place, head = tl.program_id(0), tl.program_id(1)
    rows = place * tile + tl.arange(0, tile)
    inside = rows < tokens
    columns = tl.arange(0, width)
    stride: tl.constexpr = 3 * heads * width
    block: tl.constexpr = heads * width
    mine = rows[:, None] * stride + head * width + columns[None, :]
    output = rows[:, None] * block + head * width + columns[None, :]
    query = tl.load(qkv + mine, mask=inside[:, None], other=0.0)
    key = tl.load(qkv + block + mine, mask=inside[:, None], other=0.0)
    value = tl.load(qkv + 2 * block + mine, mask=inside[:, None], other=0.0)
    gradient = tl.load(grad + output, mask=inside[:, None], other=0.0)
    result = tl.load(out + output, mask=inside[:, None], other=0.0)
    delta = tl.sum(gradient.to(tl.float32) * result.to(tl.float32), 1)
    level = tl.load(lse + head * tokens + rows, mask=inside, other=0.0)
    begins = tl.load(first + rows, mask=inside, other=tokens)
    ends = tl.load(end + rows, mask=inside, other=0)
    dquery = tl.zeros([tile, width], dtype=tl.float32)
    dkey = tl.zeros([tile, width], dtype=tl.float32)
    dvalue = tl.zeros([tile, width], dtype=tl.float32)
    for start in range(tl.min(begins, 0), tl.max(ends, 0), step):
        others = start + tl.arange(0, step)
        there = others < tokens
        theirs = others[:, None] * stride + head * width + columns[None, :]
        their_output = others[:, None] * block + head * width + columns[None, :]
        same = (others[None, :] >= begins[:, None]) & (others[None, :] < ends[:, None]) & inside[:, None]
        # My tokens as queries, theirs as keys and values.
        their_key = tl.load(qkv + block + theirs, mask=there[:, None], other=0.0)
        their_value = tl.load(qkv + 2 * block + theirs, mask=there[:, None], other=0.0)
        score = tl.dot(query, tl.trans(their_key), input_precision="ieee") * scale
        share = tl.where(same, tl.exp2(score - level[:, None]), 0.0)
        reach = tl.dot(gradient, tl.trans(their_value), input_precision="ieee")
        if dropout > 0:
            reach *= _kept(seed, rows[:, None], others[None, :], begins[:, None], head, tokens, dropout, longest, rounds)
        push = (share * (reach - delta[:, None])).to(query.dtype)
        dquery += tl.dot(push, their_key, input_precision="ieee")
        # My tokens as keys and values, theirs as queries; the mask is symmetric.
        their_query = tl.load(qkv + theirs, mask=there[:, None], other=0.0)
        their_gradient = tl.load(grad + their_output, mask=there[:, None], other=0.0)
        their_result = tl.load(out + their_output, mask=there[:, None], other=0.0)
        their_delta = tl.sum(their_gradient.to(tl.float32) * their_result.to(tl.float32), 1)
        their_level = tl.load(lse + head * tokens + others, mask=there, other=0.0)
        score = tl.dot(key, tl.trans(their_query), input_precision="ieee") * scale
        share = tl.where(same, tl.exp2(score - their_level[None, :]), 0.0)
        reach = tl.dot(value, tl.trans(their_gradient), input_precision="ieee")
        passed = share
        if dropout > 0:
            kept = _kept(seed, others[None, :], rows[:, None], begins[:, None], head, tokens, dropout, longest, rounds)
            reach *= kept
            passed = share * kept
        dvalue += tl.dot(passed.to(query.dtype), their_gradient, input_precision="ieee")
        push = (share * (reach - their_delta[None, :])).to(query.dtype)
        dkey += tl.dot(push, their_query, input_precision="ieee")
    kind = dqkv.dtype.element_ty
    tl.store(dqkv + mine, (dquery * slope).to(kind), mask=inside[:, None])
    tl.store(dqkv + block + mine, (dkey * slope).to(kind), mask=inside[:, None])
    tl.store(dqkv + 2 * block + mine, dvalue.to(kind), mask=inside[:, None])


TILE = 64
WIDE = {"tile": TILE, "step": 64, "num_warps": 4, "num_stages": 1}  # the best of ten settings tried on an H200, by width
NARROW = {"tile": TILE, "step": 32, "num_warps": 4, "num_stages": 2}


def _setting(width: int) -> dict[str, int]:
    return WIDE if width >= 64 else NARROW


@torch.library.custom_op("isogloss::short_attention", mutates_args=())
def short_attention(
    qkv: Tensor, first: Tensor, end: Tensor, scale: float, dropout: float = 0.0, seed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attention inside each sentence: tokens × 3 × heads × width in; tokens × heads × width, and log₂ of sums, out.

    `dropout` needs a `seed`: one integer on the device.
    """
    tokens, _, heads, width = qkv.shape
    qkv = qkv.contiguous()
    out = torch.empty((tokens, heads, width), dtype=qkv.dtype, device=qkv.device)
    lse = torch.empty((heads, tokens), dtype=torch.float32, device=qkv.device)
    grid = (triton.cdiv(tokens, TILE), heads)
    _forward[grid](
        qkv, out, lse, first, end, _read(seed, first), scale * LOG2E, tokens, **_constants(qkv, dropout), **_setting(width)
    )
    return out, lse


@torch.library.custom_op("isogloss::short_attention_backward", mutates_args=())
def short_attention_backward(
    grad: Tensor,
    qkv: Tensor,
    out: Tensor,
    lse: Tensor,
    first: Tensor,
    end: Tensor,
    scale: float,
    dropout: float,
    seed: Tensor | None,
) -> Tensor:
    """The gradient of `short_attention` with respect to qkv."""
    tokens, _, heads, width = qkv.shape
    qkv, grad = qkv.contiguous(), grad.contiguous()
    dqkv = torch.empty_like(qkv)
    grid = (triton.cdiv(tokens, TILE), heads)
    inputs = (qkv, out, lse, grad, dqkv, first, end, _read(seed, first))
    _backward[grid](*inputs, scale * LOG2E, scale, tokens, **_constants(qkv, dropout), **_setting(width))
    return dqkv


def _read(seed: Tensor | None, other: Tensor) -> Tensor:
    """The seed; any other tensor without dropout, since triton needs an address."""
    return other if seed is None else seed


def _constants(qkv: Tensor, dropout: float) -> dict[str, Any]:
    return {"dropout": dropout, "longest": LONGEST, "rounds": ROUNDS, "heads": qkv.shape[2], "width": qkv.shape[3]}


@short_attention.register_fake
def _(
    qkv: Tensor, first: Tensor, end: Tensor, scale: float, dropout: float = 0.0, seed: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    tokens, _, heads, width = qkv.shape
    return qkv.new_empty((tokens, heads, width)), qkv.new_empty((heads, tokens), dtype=torch.float32)


@short_attention_backward.register_fake
def _(grad: Tensor, qkv: Tensor, *_others: Any) -> Tensor:  # noqa: ANN401
    return qkv.new_empty(qkv.shape)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:  # noqa: ANN401
    qkv, first, end, ctx.scale, ctx.dropout, seed = inputs
    ctx.save_for_backward(qkv, output[0], output[1], first, end, seed)


def _gradients(ctx: Any, grad: Tensor, _grad_lse: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
    *saved, seed = ctx.saved_tensors
    return short_attention_backward(grad, *saved, ctx.scale, ctx.dropout, seed), None, None, None, None, None


short_attention.register_autograd(_gradients, setup_context=_remember)


def fits(width: int, longest: int) -> bool:
    """Whether these kernels are for heads of this width and sentences of this length."""
    return width in WIDTHS and longest <= LONGEST
