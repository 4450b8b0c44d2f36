"""The layers of BERT's family for inference on packed sentences, computed from their weights without their modules.

BERT, RoBERTa, XLM-R, Electra, DistilBERT and MPNet compute the same layer and differ in the names of its parts:

    h = LN(x + attention(x W_qkv) W_out),    y = LN(h + gelu(h W_inner) W_outer)

This is four matrix products, one attention and two normalizations. On a CPU the weights are reordered for oneDNN, which
applies the activation within the product; elsewhere torch's own functions are used. `models/fast_encode.py` uses a model's own
modules if these results differ.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isogloss.kernels.packed import Packed, Way, attend_together, first_position

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Module = TypeVar("Module", bound=nn.Module)

# A layer's query, key, value, output and norm of the attention; inner product, outer product, norm and activation.
BERT = (
    *(f"attention.{part}" for part in ("self.query", "self.key", "self.value", "output.dense", "output.LayerNorm")),
    *("intermediate.dense", "output.dense", "output.LayerNorm", "intermediate.intermediate_act_fn"),
)
MPNET = (*(f"attention.{part}" for part in ("attn.q", "attn.k", "attn.v", "attn.o", "LayerNorm")), *BERT[5:])
DISTILBERT = (
    *(f"attention.{part}_lin" for part in ("q", "k", "v", "out")),
    *("sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm", "ffn.activation"),
)
BY_ONEDNN = (torch.float32, torch.bfloat16)
KINDS = (*[nn.Linear] * 4, nn.LayerNorm, *[nn.Linear] * 2, nn.LayerNorm)  # of all parts but the activation


def post_norm(body: "PreTrainedModel", dtype: torch.dtype, part: slice = slice(None)) -> Way | None:
    """A function from packed sentences to the body's hidden states; None if its layers have other parts.

    `part` selects layers; those above the first ones start from `packed.hidden`. Equal names do not mean equal computation,
    so compare the result with `packs_exactly`.
    """
    stacks = [list(module) for module in body.modules() if isinstance(module, nn.ModuleList)]
    stack = max(stacks, key=len, default=[])
    names = next((names for names in (BERT, MPNET, DISTILBERT) if stack and all(_has(layer, names) for layer in stack)), None)
    if names is None or not hasattr(body, "embeddings"):
        return None
    heads = int(body.config.num_attention_heads)
    layers = [Layer(attrgetter(*names)(layer), heads, dtype) for layer in stack[part]]
    embed, bias = _embedding(body, dtype), _bias(body, dtype)

    def states(packed: Packed) -> Tensor:
        flat = embed(packed) if packed.hidden is None else packed.hidden.to(dtype)
        distances = None if bias is None else bias(packed.longest)
        for layer in layers:
            flat = layer(flat, packed, distances)
        return flat

    return states


class Layer:
    """One layer over packed tokens, from its parts in the order of `BERT`."""

    def __init__(self, parts: tuple[Any, ...], heads: int, dtype: torch.dtype) -> None:
        query, key, value, out, first_norm, inner, outer, second_norm, activation = parts
        self.heads = heads
        self.together, self.out = Product([query, key, value], dtype), Product([out], dtype)
        self.inner, self.outer = Product([inner], dtype, activation), Product([outer], dtype)
        self.first_norm, self.second_norm = copied(first_norm, dtype), copied(second_norm, dtype)

    def __call__(self, tokens: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Tokens × width in, the same out."""
        together = self.together(tokens).view(len(tokens), 3, self.heads, -1)
        mixed = attend_together(together, packed, together.shape[-1] ** -0.5, bias=bias)
        tokens = self.first_norm(self.out(mixed.flatten(1)).add_(tokens))
        result: Tensor = self.second_norm(self.outer(self.inner(tokens)).add_(tokens))
        return result


class Product:
    """x W + b of one module, or of several side by side, and an activation."""

    def __init__(
        self, parts: list[nn.Linear], dtype: torch.dtype, activation: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        weights = [part.weight.detach().to(dtype) for part in parts]
        biases = [torch.zeros(len(part.weight)) if part.bias is None else part.bias.detach() for part in parts]
        self.weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        self.bias = torch.cat([bias.to(self.weight) for bias in biases])
        self.activation = activation
        self.by_onednn = self.weight.device.type == "cpu" and dtype in BY_ONEDNN and _onednn_is_there(dtype)
        if self.by_onednn:
            self.fused = "gelu" if activation is not None and _is_gelu(activation) else "none"
            self.activation = None if self.fused == "gelu" else activation
            self.weight = torch.ops.mkldnn._reorder_linear_weight(self.weight.contiguous(), None)

    def __call__(self, x: Tensor) -> Tensor:
        """Rows in, rows out."""
        if self.by_onednn:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, self.fused, [], "none")
        else:
            y = F.linear(x, self.weight, self.bias)
        return y if self.activation is None else self.activation(y)


def copied(module: Module, dtype: torch.dtype) -> Module:
    """The module with its floating-point tensors in `dtype`; tensors that have that type already are shared, not copied."""
    tensors = [*module.parameters(), *module.buffers()]
    with torch.no_grad():
        memo = {id(one): _in(one, dtype) for one in tensors}
    return deepcopy(module, memo).eval()


def _in(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if not tensor.is_floating_point() or tensor.dtype == dtype:
        return tensor
    other = tensor.detach().to(dtype)
    return nn.Parameter(other, requires_grad=False) if isinstance(tensor, nn.Parameter) else other


def _has(layer: nn.Module, names: tuple[str, ...]) -> bool:
    try:
        *modules, activation = attrgetter(*names)(layer)
    except AttributeError:
        return False
    return callable(activation) and all(type(part) is kind for part, kind in zip(modules, KINDS, strict=True))


def _embedding(body: Any, dtype: torch.dtype) -> Way:  # noqa: ANN401 - a transformer
    looked_up = torch.float32 if body.device.type == "cpu" else dtype  # a CPU would copy the table for a few rows of it
    embeddings, first = copied(body.embeddings, looked_up), first_position(body)
    widen = copied(body.embeddings_project, looked_up) if hasattr(body, "embeddings_project") else None  # of Electra

    def embed(packed: Packed) -> Tensor:
        tokens: Tensor = embeddings(input_ids=packed.ids[None], position_ids=(packed.within + first)[None])[0]
        return (tokens if widen is None else widen(tokens)).to(dtype)

    return embed


def _bias(body: Any, dtype: torch.dtype) -> Callable[[int], Tensor] | None:  # noqa: ANN401 - a transformer
    """MPNet's bias on attention scores by the distance of two tokens: 1 × heads × length × length."""
    encoder: Any = getattr(body, "encoder", None)
    if not hasattr(encoder, "compute_position_bias"):
        return None
    device = body.device

    def bias(longest: int) -> Tensor:
        distances: Tensor = encoder.compute_position_bias(torch.empty((1, longest, 1), device=device))
        return distances.to(dtype)

    return bias


def _is_gelu(activation: Callable[[Tensor], Tensor]) -> bool:
    some = torch.linspace(-6, 6, 97)
    return torch.allclose(activation(some), F.gelu(some), rtol=0, atol=1e-6)


@cache
def _onednn_is_there(dtype: torch.dtype) -> bool:
    """Whether torch has oneDNN's product with reordered weights here, and it is correct: these functions are not public."""
    x, weight = torch.linspace(-2, 2, 80, dtype=dtype).view(5, 16), torch.linspace(-1, 1, 128, dtype=dtype).view(8, 16)
    bias = torch.ones(8, dtype=dtype)
    try:
        prepared = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, prepared, bias, "gelu", [], "none")
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    expected, off = F.gelu(F.linear(x.float(), weight.float(), bias.float())), 1e-5 if dtype == torch.float32 else 2**-7
    return torch.allclose(found.float(), expected, rtol=off, atol=off)
