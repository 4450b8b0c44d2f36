"""Sentences a second of one GPU: isogloss' encoder beside sentence-transformers' own `encode`, BERT-base's shape.

    python benchmarks/encode_gpu.py --pairs pairs.tsv.gz --tokenizer xlmr

`--pairs` has source, translation and language, tab-separated (see engine_speed.py); its distinct sentences, both sides, are
what is encoded, from strings to one array in the host's memory. `--tokenizer` is a folder with a tokenizer. The body has
BERT-base's shape and random weights: what is measured is time, and random weights take as long. The peer runs as it comes
(single precision, batch 32 and 64) and in half precision at batch sizes from 32 to 2048 on a part of the sentences; its best
batch size is then timed on all of them. Every side is warmed up first. What is compared is also the same: the cosine between
our vectors and the peer's in single precision. Takes about a minute; goes to benchmarks/results/encode_gpu.json.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from provenance import provenance

from isogloss.models.encoder import SentenceEncoder
from isogloss.models.loading import quiet_transformers
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results")
MAX_TOKENS, WARM = 128, 2048
AS_IT_COMES, HALF = (32, 64), (32, 64, 128, 256, 512, 1024, 2048)


def read(path: Path, count: int, seed: int) -> list[str]:
    """Distinct sentences of both sides, in an order drawn at random."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    texts = list(dict.fromkeys([text for row in rows for text in row[:2]]))
    return [texts[place] for place in np.random.default_rng(seed).permutation(len(texts))[:count]]


def bert_base(tokenizer: Path, device: str) -> Any:  # noqa: ANN401 - a SentenceTransformer
    """BERT-base with random weights, mean pooling and unit length, built on the device without a file of its weights."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import AutoTokenizer, BertConfig, BertModel

    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        words = AutoTokenizer.from_pretrained(tokenizer)
        config = BertConfig(vocab_size=len(words), pad_token_id=words.pad_token_id)
        BertModel(BertConfig.from_dict(config.to_dict() | {"num_hidden_layers": 0, "vocab_size": 8})).save_pretrained(folder)
        words.save_pretrained(folder)
        first = Transformer(folder)
    with torch.device(device):
        first.model = BertModel(config, add_pooling_layer=False).eval()
    model = SentenceTransformer(modules=[first, Pooling(config.hidden_size, "mean"), Normalize()], device=device)
    model.max_seq_length = MAX_TOKENS
    return model.eval()


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def ours(encoder: SentenceEncoder, texts: list[str], rounds: int) -> tuple[dict[str, Any], FloatArray]:
    """The whole way from strings to vectors, after a first call that prepares the encoder."""
    prepared, _ = timed(lambda: encoder.encode(texts[:WARM]))
    encoder.encode(texts[: 8 * WARM])  # the allocators' memory, and a shape of long chunks
    if encoder._fast is None:
        raise SystemExit("the faster way was refused: see the warnings above")
    times, vectors = [], np.empty(0, dtype=np.float32)
    for _ in range(rounds):
        seconds, vectors = timed(lambda: encoder.encode(texts))
        times.append(seconds)
    rate = len(texts) / median(times)
    tokens = len(encoder._fast.text_tokenizer(texts[: 8 * WARM])[0]) / len(texts[: 8 * WARM])
    found = {
        "sentences_per_second": round(rate),
        "tokens_per_sentence": round(tokens, 2),
        "tflops": round(rate * tokens * 2 * 12 * (4 * 768**2 + 2 * 768 * 3072) / 1e12, 1),
        "dtype": str(encoder._fast.dtype),
        "seconds": [round(one, 3) for one in times],
        "first_call_seconds": round(prepared, 2),
        "tokenizing_alone": round(len(texts) / timed(lambda: encoder._fast.text_tokenizer(texts))[0]),  # type: ignore[union-attr]
    }
    return found, vectors


def peer(model: Any, texts: list[str], size: int) -> tuple[dict[str, Any], FloatArray]:  # noqa: ANN401
    model.encode(texts[: 2 * size], batch_size=size, show_progress_bar=False)
    seconds, vectors = timed(lambda: model.encode(texts, batch_size=size, show_progress_bar=False))
    return {"batch": size, "sentences": len(texts), "sentences_per_second": round(len(texts) / seconds)}, vectors


def cosines(one: FloatArray, other: FloatArray) -> dict[str, float]:
    size = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    values = (one * other).sum(axis=1) / size
    return {"mean": float(values.mean()), "least": float(values.min())}


def profiled(encoder: SentenceEncoder, texts: list[str]) -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        encoder.encode(texts)
    print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=30, max_name_column_width=80))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--part", type=int, default=16_000, help="sentences at each of the peer's settings")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--half", type=int, nargs="*", default=list(HALF))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "encode_gpu.json")
    options = parser.parse_args()
    began = time.monotonic()
    texts = read(options.pairs, options.sentences, 17)
    model = bert_base(options.tokenizer, options.device)
    part = texts[: options.part]
    written: dict[str, Any] = provenance(17) | {"sentences": len(texts), "shape": "BERT-base, random weights"}

    def keep(**found: Any) -> None:  # noqa: ANN401
        written.update(found)
        written["minutes"] = round((time.monotonic() - began) / 60, 2)
        options.out.write_text(json.dumps(written, indent=2) + "\n")
        print(json.dumps(found), flush=True)

    encoder = SentenceEncoder(model, "bert-base shape", precision="auto" if options.device == "cuda" else "float16")
    mine, vectors = ours(encoder, texts, options.rounds)
    keep(isogloss=mine)
    if options.profile:
        profiled(encoder, part)
    single = [peer(model, part, size) for size in AS_IT_COMES]
    keep(peer_single=[found for found, _ in single], cosine=cosines(vectors[: len(part)], single[0][1]))
    model.half()
    half = [peer(model, part, size)[0] for size in options.half]
    keep(peer_half=half)
    best = max(half, key=lambda found: found["sentences_per_second"])
    whole = peer(model, texts, best["batch"])[0]
    rate = {
        "as_it_comes": max(found["sentences_per_second"] for found, _ in single),
        "half_at_its_best": max(best["sentences_per_second"], whole["sentences_per_second"]),
    }
    keep(
        peer_half_on_all=whole, times_faster={name: round(mine["sentences_per_second"] / one, 2) for name, one in rate.items()}
    )


if __name__ == "__main__":
    main()
