"""One matrix product for query, key and value in the self-attention of BERT's family.

At small batches a product of 768 columns leaves a third of a large GPU idle, one of 2,304 does not. `fuse` replaces the
self-attention modules while a student is trained on packed sentences; `separate` restores them with the trained weights.
"""

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isogloss.kernels.packed import Packed, attend_together

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NAMES = ("query", "key", "value")


class FusedAttention(nn.Module):
    """Self-attention over packed sentences with one weight for all three projections."""

    def __init__(self, own: nn.Module) -> None:
        super().__init__()
        parts: list[Any] = [getattr(own, name) for name in NAMES]
        self.weight = nn.Parameter(torch.cat([part.weight.detach() for part in parts]))
        self.bias = nn.Parameter(torch.cat([part.bias.detach() for part in parts]))
        self.heads, self.scale = int(own.num_attention_heads), float(own.scaling)  # type: ignore[arg-type]
        self.dropout = float(getattr(getattr(own, "dropout", None), "p", 0.0))
        self._own = (own,)  # in a tuple, so that its parameters are not registered here
        self.train(own.training)

    def forward(self, hidden_states: Tensor, *_arguments: Any, packed: Packed, **_options: Any) -> tuple[Tensor, None]:  # noqa: ANN401
        """Like the original module, without masks and caches."""
        flat = F.linear(hidden_states[0], self.weight, self.bias)
        dropout = self.dropout if self.training else 0.0
        mixed = attend_together(flat.view(len(flat), 3, self.heads, -1), packed, self.scale, dropout)
        return mixed.flatten(1)[None], None

    def separated(self) -> nn.Module:
        """The original module with the trained weights."""
        own = self._own[0].train(self.training)
        with torch.no_grad():
            for name, weight, bias in zip(NAMES, self.weight.chunk(3), self.bias.chunk(3), strict=True):
                getattr(own, name).weight.copy_(weight)
                getattr(own, name).bias.copy_(bias)
        return own


def fuse(body: "PreTrainedModel") -> int:
    """Fuse every self-attention that has BERT's parts; returns how many."""
    found: list[Any] = [module for module in body.modules() if _is_bert(getattr(module, "self", None))]
    for module in found:
        module.self = FusedAttention(module.self)
    return len(found)


def separate(body: "PreTrainedModel") -> None:
    """Undo `fuse`, keeping the trained weights."""
    for module in list(body.modules()):
        if isinstance(getattr(module, "self", None), FusedAttention):
            module.self = module.self.separated()


def _is_bert(attention: Any) -> bool:  # noqa: ANN401 - any module, or None
    parts = [getattr(attention, name, None) for name in NAMES]
    has_sizes = hasattr(attention, "num_attention_heads") and hasattr(attention, "scaling")
    return has_sizes and all(isinstance(part, nn.Linear) and part.bias is not None for part in parts)
