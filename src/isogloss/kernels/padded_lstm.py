"""A bidirectional LSTM over padded rows, without packing: every shape is fixed, so that a CUDA graph can hold it.

torch packs sequences by lengths on the host, which no graph can do. Here each direction runs over whole rows: forward, what
follows a sentence's end does not reach its states; backward, each sentence is first reversed in its own places, by a gather.
"""

import warnings

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
        ahead, behind = _one_way(lstm, inputs, f"l{layer}"), _one_way(lstm, turned, f"l{layer}_reverse")
        inputs = torch.cat([ahead, behind.gather(1, reverse.expand(-1, -1, behind.shape[2]))], 2)
    return inputs


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
