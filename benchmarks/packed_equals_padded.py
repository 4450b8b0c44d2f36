"""Packed equals padded: sentence vectors and gradients of BERT-, XLM-R- and MPNet-style bodies, in single precision.

    python benchmarks/packed_equals_padded.py            # on this machine's best device, and on the CPU

Base-size bodies with random weights, sentences of 2 to 128 tokens. The largest differences, relative to the largest value,
go to benchmarks/results/packed_equals_padded.json. On CUDA the packed side also runs through the kernels for short
sentences and the fused query-key-value product, as training does; TF32 is off.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from provenance import provenance
from torch import Tensor

from isogloss.kernels.fused_qkv import fuse, separate
from isogloss.kernels.packed import Packed, hidden_states, packing, pooled

RESULTS = Path(__file__).with_name("results")
LIMIT = 1e-5


def bodies(layers: int) -> dict[str, Any]:
    from transformers import BertConfig, BertModel, MPNetConfig, MPNetModel, XLMRobertaConfig, XLMRobertaModel

    size = {"vocab_size": 5000, "num_hidden_layers": layers, "max_position_embeddings": 514}
    torch.manual_seed(0)
    return {
        "BERT": BertModel(BertConfig(**size)),
        "XLM-R": XLMRobertaModel(XLMRobertaConfig(**size, pad_token_id=1, type_vocab_size=1)),
        "MPNet": MPNetModel(MPNetConfig(**size, pad_token_id=1)),
    }


def compare(body: Any, device: str, sentences: int) -> dict[str, float]:  # noqa: ANN401
    """Largest relative differences of vectors and of parameter gradients."""
    body = body.to(device).eval()
    generator = torch.Generator().manual_seed(1)
    lengths = torch.randint(2, 40, (sentences,), generator=generator)
    lengths[0] = 128
    ids = torch.randint(10, 5000, (int(lengths.sum()),), generator=generator)
    wanted = torch.randn(sentences, body.config.hidden_size, generator=generator).to(device)
    rows = torch.nn.utils.rnn.pad_sequence(list(torch.split(ids, lengths.tolist())), batch_first=True, padding_value=1).to(
        device
    )
    mask = (torch.arange(rows.shape[1])[None] < lengths[:, None]).to(device)
    states = body(input_ids=rows, attention_mask=mask.long()).last_hidden_state
    padded = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    names = [name for name, _ in body.named_parameters() if not name.startswith("pooler")]
    expected = gradients(body, padded, wanted)
    packed = Packed.of(ids.to(device), lengths.to(device))
    with packing(body):
        fuse(body)
        flat = hidden_states(body, packed)
        vectors = pooled(flat, packed.sentence, packed.starts, "mean")
        found = gradients(body, vectors, wanted)
        separate(body)
    # A key's bias moves all scores of a query alike, and softmax forgets it: its gradient is 0, and what one sees is rounding.
    names = [name for name in names if not name.endswith((".key.bias", ".k.bias"))]
    worst = max(float((unfused(found, name) - expected[name]).abs().max() / expected[name].abs().max()) for name in names)
    return {"vectors": float((vectors - padded).detach().abs().max() / padded.detach().abs().max()), "gradients": worst}


def gradients(body: Any, vectors: Tensor, wanted: Tensor) -> dict[str, Tensor]:  # noqa: ANN401
    body.zero_grad(set_to_none=True)
    (vectors - wanted).square().sum(-1).mean().backward()  # type: ignore[no-untyped-call]
    return {name: one.grad.detach().clone() for name, one in body.named_parameters() if one.grad is not None}


def unfused(found: dict[str, Tensor], name: str) -> Tensor:
    """A gradient by the body's own name, cut out of the fused one where there is one."""
    for place, part in enumerate(("query", "key", "value")):
        home, _, kind = name.partition(f".{part}.")
        if kind and f"{home}.{kind}" in found:
            return found[f"{home}.{kind}"].chunk(3)[place]
    return found[name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--sentences", type=int, default=24)
    parser.add_argument("--out", type=Path, default=RESULTS / "packed_equals_padded.json")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    written = provenance(0) | {"limit": LIMIT, "layers": options.layers, "sentences": options.sentences, "differences": {}}
    for device in ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]:
        for name, body in bodies(options.layers).items():
            written["differences"][f"{name} on {device}"] = found = compare(body, device, options.sentences)
            print(f"{name} on {device}: {found}")
    options.out.write_text(json.dumps(written, indent=2) + "\n")
    if any(value > LIMIT for found in written["differences"].values() for value in found.values()):
        raise SystemExit("a difference is above the limit")


if __name__ == "__main__":
    main()
