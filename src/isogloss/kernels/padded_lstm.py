"""A bidirectional LSTM over padded rows, for CUDA graphs: torch's packed sequences need lengths on the host.

Each direction runs over whole rows. Forward, padding comes after a sentence's states; backward, each sentence is reversed in
place by a gather, so that its padding comes last again. Both directions run side by side in two CUDA streams, since each of
them leaves most of a GPU idle; autograd uses the same streams.
"""

import warnings
from collections.abc import Callable
from functools import cache, partial

import torch
from torch import Tensor, nn
from torch.nn import functional


def bidirectional(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> Tensor:
    """The states of `lstm`, rows × places × both directions; those after a row's length are undefined.

    `lengths` is on the device, and at least 1 for every row.
    """
    places = torch.arange(inputs.shape[1], device=inputs.device)
    reverse = (lengths[:, None] - 1 - places).clamp(min=0)[:, :, None]
    for layer in range(lstm.num_layers):
        if layer and lstm.dropout:
            inputs = functional.dropout(inputs, lstm.dropout, lstm.training)
        reversed_inputs = inputs.gather(1, reverse.expand(-1, -1, inputs.shape[2]))
        forwards = partial(_direction, lstm, inputs, f"l{layer}")
        backwards = partial(_direction, lstm, reversed_inputs, f"l{layer}_reverse")
        ahead, back = _side_by_side(inputs.device, forwards, backwards)
        inputs = torch.cat([ahead, back.gather(1, reverse.expand(-1, -1, back.shape[2]))], 2)
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


def _direction(lstm: nn.LSTM, inputs: Tensor, suffix: str) -> Tensor:
    weights = [getattr(lstm, f"{kind}_{suffix}") for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    zeros = inputs.new_zeros((1, len(inputs), lstm.hidden_size))
    with warnings.catch_warnings():  # cuDNN copies the weights of a direction into one tensor
        warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
        # In training mode, without which cuDNN keeps nothing for the backward pass; a single layer has no dropout.
        states: Tensor = torch._VF.lstm(inputs, (zeros, zeros), weights, True, 1, 0.0, True, False, True)[0]
    return states


def max_pooled(states: Tensor, lengths: Tensor) -> Tensor:
    """The maximum of each dimension over the places before each row's length."""
    real = torch.arange(states.shape[1], device=states.device) < lengths[:, None]
    return states.masked_fill(~real[:, :, None], -torch.inf).amax(1)
