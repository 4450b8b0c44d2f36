"""A bidirectional LSTM over padded rows, without packing: every shape is fixed, so that a CUDA graph can hold it.

torch packs sequences by lengths on the host, which no graph can do. Here each direction runs over whole rows: forward, what
follows a sentence's end does not reach its states; backward, each sentence is first reversed in its own places, by a gather.

A direction is one small step after the other and leaves most of a GPU idle, so on CUDA the two run side by side in two
streams, on the way back too (autograd uses the stream of the way there).
"""

import warnings
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional


def bidirectional(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The states of `lstm` (rows × places × both directions), as over packed sequences, for places before each row's length.

    What the places behind it hold has no meaning. `lengths` is on the device, and at least 1 for every row.
    """
    places = torch.arange(inputs.shape[1], device=inputs.device)
    reverse = (lengths[:, None] - 1 - places).clamp(min=0)[:, :, None]
    for layer in range(lstm.num_layers):
        if layer and lstm.dropout:
            inputs = functional.dropout(inputs, lstm.dropout, lstm.training)
        turned = inputs.gather(1, reverse.expand(-1, -1, inputs.shape[2]))
        ahead = partial(_one_way, lstm, inputs, f"l{layer}")
        behind = partial(_one_way, lstm, turned, f"l{layer}_reverse")
        there, back = _side_by_side(inputs.device, ahead, behind)
        inputs = torch.cat([there, back.gather(1, reverse.expand(-1, -1, back.shape[2]))], 2)
    return inputs


def _side_by_side(device: torch.device, first: Callable[[], Tensor], second: Callable[[], Tensor]) -> tuple[Tensor, Tensor]:
    """Both results; on CUDA the second is computed in another stream."""
    if device.type != "cuda":
        return first(), second()
    here, beside = torch.cuda.current_stream(device), _second_stream(device)
    beside.wait_stream(here)
    with torch.cuda.stream(beside):
        found = second()
    result = first()
    here.wait_stream(beside)
    found.record_stream(here)
    return result, found


@cache
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def _one_way(lstm: nn.LSTM, inputs: Tensor, suffix: str) -> Tensor:
    weights = [getattr(lstm, f"{kind}_{suffix}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    zeros = inputs.new_zeros((1, len(inputs), lstm.hidden_size))
    with warnings.catch_warnings():  # cuDNN copies the weights of one direction together: a few small copies in the graph
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        # As in training: cuDNN keeps what the way back needs only then. There is no dropout in one layer.
        states: Tensor = torch._VF.lstm(inputs, (zeros, zeros), weights, True, 1, 0.0, True, False, True)[0]
    return states


def max_pooled(states: Tensor, lengths: Tensor) -> Tensor:
    """The largest value of each number over the places before each row's length."""
    there = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
    return states.masked_fill(~there[:, :, None], -torch.inf).amax(1)
