"""One product for query, key and value: the same states and gradients, and what is learnt goes back to the body's own parts."""

import pytest
import torch
from torch import nn

from bodies import LAYERS, body, vocabulary
from isogloss.kernels.fused_qkv import NAMES, FusedAttention, fuse, separate
from isogloss.kernels.packed import Packed, hidden_states, packing


def packed() -> Packed:
    lengths = torch.tensor([4, 9, 1, 6])
    generator = torch.Generator().manual_seed(3)
    return Packed.of(torch.randint(4, vocabulary(), (int(lengths.sum()),), generator=generator), lengths)


@pytest.mark.parametrize("family", ["BERT", "XLM-R", "Electra"])
def test_fused_gives_the_same_states_and_gradients(family: str) -> None:
    own, sentences = body(family), packed()
    with packing(own):
        expected = hidden_states(own, sentences)
        torch.autograd.backward(expected.square().sum())
        wanted = {name: one.grad.clone() for name, one in own.named_parameters() if one.grad is not None}
        own.zero_grad(set_to_none=True)
        assert fuse(own) == LAYERS
        assert not any(name in dict(own.named_modules()) for name in wanted)
        found = hidden_states(own, sentences)
        torch.autograd.backward(found.square().sum())
    assert torch.allclose(found, expected, atol=1e-5)
    fused = {name: module for name, module in own.named_modules() if isinstance(module, FusedAttention)}
    assert len(fused) == LAYERS
    for home, module in fused.items():
        for place, part in enumerate(NAMES):
            for kind, given in (("weight", module.weight.grad), ("bias", module.bias.grad)):
                assert given is not None
                expectation = wanted[f"{home}.{part}.{kind}"]
                assert torch.allclose(
                    given.chunk(3)[place], expectation, atol=1e-4 * float(wanted[f"{home}.value.{kind}"].abs().max())
                )


def test_what_is_learnt_goes_back() -> None:
    own, sentences = body("BERT"), packed()
    names = set(dict(own.named_parameters()))
    with packing(own):
        fuse(own)
        with torch.no_grad():
            for module in own.modules():
                if isinstance(module, FusedAttention):
                    module.weight.add_(0.05 * torch.randn(module.weight.shape))
                    module.bias.add_(0.05 * torch.randn(module.bias.shape))
        learnt = hidden_states(own, sentences)
        separate(own)
        assert not any(isinstance(module, FusedAttention) for module in own.modules())
        assert torch.allclose(hidden_states(own, sentences), learnt, atol=1e-5)
    assert set(dict(own.named_parameters())) == names


def test_parts_of_another_shape_are_left_alone() -> None:
    assert fuse(body("MPNet")) == 0
    assert fuse(body("DistilBERT")) == 0
    own = body("BERT")
    own.encoder.layer[0].attention.self.key = nn.Linear(32, 32, bias=False)
    assert fuse(own) == LAYERS - 1
