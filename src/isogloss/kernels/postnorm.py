"""BERT's family laid out for inference: the layers' weights taken out of their modules, for packed sentences only.

BERT, RoBERTa, XLM-R, Electra, DistilBERT and MPNet compute the same layer and differ in the names of its parts:

    h = LN(x + attention(x W_qkv) W_out),    y = LN(h + gelu(h W_inner) W_outer)

Here it is four matrix products, one attention and two normalizations, without the modules between them. On a CPU the
weights are laid out for oneDNN and its product applies the activation as it goes; elsewhere these are torch's own calls.

`packed` runs a body's own modules, whichever they are, and `fused` trains with one product for query, key and value; this
is for bodies that are only asked. `fast` decides between the two by trying them on the body at hand.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isogloss.kernels.packed import Packed, Way, attend, attend_together, first_position, is_short

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Module = TypeVar("Module", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class Names:
    """Where a family of layers keeps its parts."""

    query: str
    key: str
    value: str
    out: str
    first_norm: str
    inner: str
    activation: str
    outer: str
    second_norm: str


FAMILIES = (
    Names(
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "attention.output.LayerNorm",
        "intermediate.dense",
        "intermediate.intermediate_act_fn",
        "output.dense",
        "output.LayerNorm",
    ),
    Names(  # MPNet
        "attention.attn.q",
        "attention.attn.k",
        "attention.attn.v",
        "attention.attn.o",
        "attention.LayerNorm",
        "intermediate.dense",
        "intermediate.intermediate_act_fn",
        "output.dense",
        "output.LayerNorm",
    ),
    Names(
        "attention.q_lin",
        "attention.k_lin",
        "attention.v_lin",
        "attention.out_lin",
        "sa_layer_norm",
        "ffn.lin1",
        "ffn.activation",
        "ffn.lin2",
        "output_layer_norm",
    ),
)


def post_norm(body: "PreTrainedModel", dtype: torch.dtype) -> Way | None:
    """A way from packed sentences to the body's hidden states; None for a body whose layers have other parts.

    That the parts are put together as here is not known from their names: `packs_exactly` has to try it.
    """
    stack = _stack(body)
    names = next((names for names in FAMILIES if stack and all(_has(layer, names) for layer in stack)), None)
    if names is None or not hasattr(body, "embeddings"):
        return None
    heads = int(body.config.num_attention_heads)
    layers = [Layer(layer, names, heads, dtype) for layer in stack]
    embed, bias = _embedding(body, dtype), _bias(body, dtype)

    def states(packed: Packed) -> Tensor:
        flat, distances = embed(packed), None if bias is None else bias(packed.longest)
        for layer in layers:
            flat = layer(flat, packed, distances)
        return flat

    return states


class Layer:
    """One layer over packed tokens."""

    def __init__(self, own: nn.Module, names: Names, heads: int, dtype: torch.dtype) -> None:
        part: Callable[[str], Any] = lambda name: attrgetter(name)(own)  # noqa: E731 - shorter than its definition
        self.heads = heads
        self.together = Product([part(names.query), part(names.key), part(names.value)], dtype)
        self.out = Product([part(names.out)], dtype)
        self.inner = Product([part(names.inner)], dtype, part(names.activation))
        self.outer = Product([part(names.outer)], dtype)
        self.first_norm, self.second_norm = (copied(part(name), dtype) for name in (names.first_norm, names.second_norm))

    def __call__(self, tokens: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        """Tokens × width in, the same out."""
        mixed = self._attention(self.together(tokens).view(len(tokens), 3, self.heads, -1), packed, bias)
        tokens = self.first_norm(self.out(mixed.flatten(1)).add_(tokens))
        result: Tensor = self.second_norm(self.outer(self.inner(tokens)).add_(tokens))
        return result

    def _attention(self, together: Tensor, packed: Packed, bias: Tensor | None) -> Tensor:
        width = together.shape[-1]
        if bias is None and is_short(width, packed.longest, together.device):
            return attend_together(together, packed, width**-0.5)
        return attend(together[:, 0], together[:, 1], together[:, 2], packed, width**-0.5, bias=bias)


class Product:
    """x W + b of one module, or of several side by side, and what follows it element by element."""

    def __init__(
        self, parts: list[nn.Linear], dtype: torch.dtype, activation: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        weights = [part.weight.detach().to(dtype) for part in parts]
        biases = [torch.zeros(len(part.weight)) if part.bias is None else part.bias.detach() for part in parts]
        self.weight = weights[0] if len(weights) == 1 else torch.cat(weights)
        self.bias = torch.cat([bias.to(self.weight) for bias in biases])
        self.activation = activation
        self.by_onednn = dtype == torch.float32 and self.weight.device.type == "cpu" and _onednn_is_there()
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
    """The module with its floating-point tensors in `dtype`; what has that type already is shared, not copied."""
    tensors = [*module.parameters(), *module.buffers()]
    with torch.no_grad():
        memo = {id(one): _in(one, dtype) for one in tensors}
    return deepcopy(module, memo).eval()


def _in(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if not tensor.is_floating_point() or tensor.dtype == dtype:
        return tensor
    other = tensor.detach().to(dtype)
    return nn.Parameter(other, requires_grad=False) if isinstance(tensor, nn.Parameter) else other


def _stack(body: nn.Module) -> list[nn.Module]:
    stacks = [list(module) for module in body.modules() if isinstance(module, nn.ModuleList)]
    return max(stacks, key=len, default=[])


def _has(layer: nn.Module, names: Names) -> bool:
    try:
        for kind, fields in (
            (nn.Linear, ("query", "key", "value", "out", "inner", "outer")),
            (nn.LayerNorm, ("first_norm", "second_norm")),
        ):
            if not all(type(attrgetter(getattr(names, field))(layer)) is kind for field in fields):
                return False
        return callable(attrgetter(names.activation)(layer))
    except AttributeError:
        return False


def _embedding(body: Any, dtype: torch.dtype) -> Way:  # noqa: ANN401 - a body, whose parts have no types
    embeddings, first = copied(body.embeddings, dtype), first_position(body)
    widen = copied(body.embeddings_project, dtype) if hasattr(body, "embeddings_project") else None  # Electra's small ones

    def embed(packed: Packed) -> Tensor:
        tokens: Tensor = embeddings(input_ids=packed.ids[None], position_ids=(packed.within + first)[None])[0]
        return tokens if widen is None else widen(tokens)

    return embed


def _bias(body: Any, dtype: torch.dtype) -> Callable[[int], Tensor] | None:  # noqa: ANN401 - a body
    """MPNet adds a number to each score, by the distance of the two tokens: 1 × heads × length × length."""
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
def _onednn_is_there() -> bool:
    """Whether torch has oneDNN's product with prepared weights here, and it is a product: these are not public calls."""
    x, weight, bias = torch.linspace(-2, 2, 80).view(5, 16), torch.linspace(-1, 1, 128).view(8, 16), torch.ones(8)
    try:
        prepared = torch.ops.mkldnn._reorder_linear_weight(weight, None)
        found: Tensor = torch.ops.mkldnn._linear_pointwise(x, prepared, bias, "gelu", [], "none")
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return torch.allclose(found, F.gelu(F.linear(x, weight, bias)), rtol=1e-5, atol=1e-5)
