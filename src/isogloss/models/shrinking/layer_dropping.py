"""Drop layers of a transformer, as DistilBERT started from every other layer of BERT.

By default the kept layers are spread evenly from the first to the last:

    kept_i = round(i · (L − 1) / (n − 1))        i = 0 … n − 1;  for n = 1 the first

6 of 12 are 0 2 4 7 9 11, DistilBERT's choice (Sanh et al. 2019). The first layer stays because it reads the token table,
the last because the pooling reads it. A shortened model has to be trained.
"""

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.frozen_layers import layers_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def drop_layers(body: "PreTrainedModel", keep: int | Sequence[int]) -> dict[str, Any]:
    """Keep `keep` evenly spread layers, or the layers with these numbers (from 0, ascending); in place.

    Returns what was done, for run.json: `layers_before`, `layers_after`, `kept` and `parameters_saved`.
    """
    stack = layers_of(body)
    count = len(stack)
    if count != body.config.num_hidden_layers:  # ALBERT runs one layer many times over
        raise ModelError(
            f"{type(body).__name__} has {amount(body.config.num_hidden_layers, 'layer')} in its config, but {count} in fact",
            hint="its layers cannot be dropped: set student.layers = 0",
        )
    kept = spread_layers(keep, count) if isinstance(keep, int) else _checked(keep, count)
    short = copy.deepcopy(body.config)
    short.num_hidden_layers = len(kept)
    kinds = getattr(short, "layer_types", None)  # local or global attention, layer by layer (ModernBERT)
    if isinstance(kinds, list) and len(kinds) == count:
        short.layer_types = [kinds[number] for number in kept]
    # A model built from the short config must have the same weights, or the saved student could not be loaded. ModernBERT's
    # first layer cannot be dropped, for example: it lacks a norm that the others have. "meta" needs no memory.
    with torch.device("meta"):
        cut, anew = type(body)(copy.deepcopy(body.config)), type(body)(short)
    _cut(layers_of(cut), kept)
    shapes = [{name: value.shape for name, value in model.state_dict().items()} for model in (cut, anew)]
    if shapes[0] != shapes[1]:
        raise ModelError(
            f"{type(body).__name__} with only the layers {list(kept)} cannot be described by a config",
            hint="keep its first layer, or set student.layers = 0 to keep all",
        )
    before = body.num_parameters()
    _cut(stack, kept)
    for name in ("num_hidden_layers", "layer_types"):
        if hasattr(short, name):
            setattr(body.config, name, getattr(short, name))
    saved = before - body.num_parameters()
    return {"layers_before": count, "layers_after": len(kept), "kept": list(kept), "parameters_saved": saved}


def spread_layers(keep: int, count: int) -> tuple[int, ...]:
    """The numbers of `keep` layers, evenly from the first to the last of `count`."""
    if not 0 < keep <= count:
        hint = f"choose 1 to {count}, or 0 to keep all" if count > 1 else "it has one: set student.layers = 0 to keep it"
        raise ModelError(f"{amount(keep, 'layer')} cannot be kept of {count}", hint=hint)
    if keep == 1:
        return (0,)
    steps = keep - 1
    return tuple((2 * place * (count - 1) + steps) // (2 * steps) for place in range(keep))  # rounded, halves up


def _checked(keep: Sequence[int], count: int) -> tuple[int, ...]:
    numbers = tuple(int(number) for number in keep)
    if not numbers or list(numbers) != sorted(set(numbers)) or numbers[0] < 0 or numbers[-1] >= count:
        raise ModelError(
            f"layers {list(numbers)} cannot be kept of {count}",
            hint=f"give different numbers from 0 to {count - 1}, the lowest first",
        )
    return numbers


def _cut(stack: nn.ModuleList, kept: tuple[int, ...]) -> None:
    """Delete the other layers, and renumber layers that know their index."""
    for place in reversed(range(len(stack))):
        if place not in kept:
            del stack[place]
    for number, layer in enumerate(stack):
        for module in layer.modules():
            for name in ("layer_idx", "layer_id"):
                if isinstance(getattr(module, name, None), int):
                    setattr(module, name, number)
