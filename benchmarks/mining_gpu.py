"""A million sentences with a million others on one GPU: seconds, memory, and whether the neighbors are the exact ones.

    python benchmarks/mining_data.py --data ../shared/data --out carry
    python benchmarks/mining_gpu.py --data carry --vectors vectors          # needs a GPU

Sentences are embedded first (multilingual-e5-small, half precision) and kept as left.npy and right.npy in `--vectors`, which
`mining_speed.py` and `mining_growth.py` read too. Then both directions are searched (k = 4) from host memory to host memory,
after a small search that wakes the card. Checked: the neighbors of `CHECKED` rows of either side against a search in double
precision by torch, written here.
"""

import argparse
import json
import lzma
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from provenance import provenance

from isogloss.config.mining import SearchSettings
from isogloss.mining.margin import candidate_scores
from isogloss.mining.matching import matched
from isogloss.models.encoders.open import open_encoder
from isogloss.search.neighbors import Neighbors, Vectors, both_ways

RESULTS = Path(__file__).with_name("results")
MODEL, PROMPT = "multilingual-e5-small", "query: "
K, CHECKED, BLOCK = 4, 2_000, 50_000


def embed(data: Path, folder: Path) -> dict[str, Any]:
    """Both sides as float16 matrices on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    encoder = open_encoder(MODEL, "cuda", PROMPT)
    told: dict[str, Any] = {"model": MODEL, "prompt": PROMPT}
    for side in ("left", "right"):
        with lzma.open(data / f"{side}.txt.xz", "rt", encoding="utf-8") as file:
            texts = file.read().splitlines()
        encoder.encode(texts[:2048])
        began = time.perf_counter()
        vectors = encoder.encode(texts)
        told[side] = {"sentences": len(texts), "seconds": round(time.perf_counter() - began, 1)}
        np.save(folder / f"{side}.npy", vectors.astype(np.float16))
    return told


def exact(queries: Vectors, candidates: Vectors) -> tuple[Any, Any]:
    """The K nearest by cosine in double precision, all with all."""

    def unit(rows: Vectors) -> torch.Tensor:
        wide = torch.from_numpy(np.asarray(rows)).to("cuda", torch.float64)
        return torch.nn.functional.normalize(wide, dim=1)

    wanted, best = unit(queries), None
    for start in range(0, len(candidates), BLOCK):
        values, places = (wanted @ unit(candidates[start : start + BLOCK]).T).topk(K, dim=1)
        places = places + start
        if best is not None:
            values, order = torch.cat([best[0], values], 1).topk(K, dim=1)
            places = torch.cat([best[1], places], 1).gather(1, order)
        best = values, places
    assert best is not None
    return best[0].cpu().numpy(), best[1].cpu().numpy()


def wrong_rows(found: Neighbors, own: Vectors, others: Vectors, seed: int) -> dict[str, Any]:
    """Of some rows drawn at random, how many have other neighbors than the exact ones by more than rounding."""
    rows = np.sort(np.random.default_rng(seed).choice(len(own), min(CHECKED, len(own)), replace=False))
    values, _ = exact(own[rows], others)
    difference = np.abs(found.similarity[rows] - values)
    return {"rows": len(rows), "wrong": int((difference > 1e-6).any(1).sum()), "largest_difference": float(difference.max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "mining_gpu.json")
    options = parser.parse_args()
    written: dict[str, Any] = provenance(17) | {"k": K}
    if not (options.vectors / "right.npy").exists():
        written["embedding"] = embed(options.data, options.vectors)
        print(json.dumps(written["embedding"]), flush=True)
    left, right = (np.load(options.vectors / f"{side}.npy") for side in ("left", "right"))
    both_ways(left[:20_000], right[:20_000], K, SearchSettings(device="cuda"))
    times: list[float] = []
    found: tuple[Neighbors, Neighbors] | None = None
    torch.cuda.reset_peak_memory_stats()
    for _ in range(options.rounds):
        began = time.perf_counter()
        found = both_ways(left, right, K, SearchSettings(device="cuda"))
        times.append(time.perf_counter() - began)
        print(times[-1], flush=True)
    assert found is not None
    began = time.perf_counter()
    pairs = matched(*found, *candidate_scores(*found, "ratio"), "max")
    scoring = time.perf_counter() - began
    vectors_gib = (left.nbytes + right.nbytes) / 2**30
    written |= {
        "rows": [len(left), len(right)],
        "dimension": left.shape[1],
        "seconds": round(median(times), 2),
        "all_seconds": [round(one, 2) for one in times],
        "scoring_and_matching_seconds": round(scoring, 2),
        "pairs": len(pairs),
        "peak_gpu_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2),
        "vectors_gib": round(vectors_gib, 2),
        "product_tflops": round(2 * len(left) * len(right) * left.shape[1] / median(times) / 1e12, 1),
        "checked": {
            "left": wrong_rows(found[0], left, right, 1),
            "right": wrong_rows(found[1], right, left, 2),
        },
    }
    options.out.write_text(json.dumps(written, indent=2) + "\n")
    print(json.dumps(written), flush=True)


if __name__ == "__main__":
    main()
