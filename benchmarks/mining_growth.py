"""Approximate mining beside exact, on two cores: time, index memory and which share of the exact pairs is found, 30k to 1M.

    python benchmarks/mining_growth.py --vectors centred          # left.npy and right.npy, as mining_centred.py leaves them

Every search is a process of its own: the first n vectors of both sides, mapped from disk (384-d, half precision), k = 4, both
directions, then ratio margin and max strategy. Shares are told of all pairs that the exact search gives, and of those with a
score of 1.06 or more. Time is that of the search, with everything an index needs (sampling, training, tuning, measuring its
recall), and of scoring and matching. Exact searches go as far as `--exact` says; beyond it there is no share of exact pairs to
tell, only the recall that the search measures itself on a sample. Takes about ten minutes; goes to
benchmarks/results/mining_growth.json and .svg.
"""

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measuring import measure
from mining_picture import draw
from provenance import provenance

from isogloss.config.mining import SearchSettings
from isogloss.mining.margin import candidate_scores
from isogloss.mining.matching import matched
from isogloss.search.approximate import search_both_ways

RESULTS = Path(__file__).with_name("results")
SIZES, K = (30_000, 100_000, 300_000, 1_000_000), 4
THRESHOLD = 1.06  # from which score on pairs are taken: that of CCMatrix, which was mined with the same margin


def one(options: argparse.Namespace) -> None:
    """What a child process does: one search, what it took and found."""
    import torch

    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    left, right = (np.load(options.vectors / f"{side}.npy", mmap_mode="r")[: options.one] for side in ("left", "right"))
    settings = SearchSettings(device="cpu", search=options.search, recall=options.recall, memory=options.memory * 2**20)
    moments = [time.monotonic()]
    found = search_both_ways(left, right, K, settings)
    moments.append(time.monotonic())
    sides = found.left, found.right
    pairs = matched(*sides, *candidate_scores(*sides, "ratio"), "max")
    moments.append(time.monotonic())
    np.savez(options.work / "found.npz", left=pairs.left, right=pairs.right, scores=pairs.scores)
    seconds = {"search": moments[1] - moments[0], "scoring and matching": moments[2] - moments[1]}
    told = {"began": moments[0], "ended": moments[2], "seconds": seconds, "account": asdict(found.account)}
    (options.work / "told.json").write_text(json.dumps(told))


def search(kind: str, size: int, options: argparse.Namespace) -> tuple[dict[str, Any], dict[tuple[int, int], float]]:
    with TemporaryDirectory() as folder:
        given = ["--vectors", str(options.vectors), "--one", str(size), "--search", kind, "--work", folder]
        given += ["--recall", str(options.recall), "--memory", str(options.memory)]
        cost = measure([sys.executable, __file__, *given], Path(folder) / "log")
        told = json.loads((Path(folder) / "told.json").read_text())
        with np.load(Path(folder) / "found.npz") as found:
            rows = zip(found["left"].tolist(), found["right"].tolist(), found["scores"].tolist(), strict=True)
            pairs = {(left, right): score for left, right, score in rows}
    before = [sample.own for sample in cost.samples if sample.moment <= told["began"]][-1]
    during = max(sample.own for sample in cost.samples if told["began"] <= sample.moment <= told["ended"])
    result = {
        "seconds": {stage: round(value, 2) for stage, value in told["seconds"].items()},
        "total": round(sum(told["seconds"].values()), 2),
        "beyond_vectors_mib": round((during - before) / 1024),
        "pairs": len(pairs),
        **told["account"],
    }
    print(size, kind, json.dumps(result), flush=True)
    return result, pairs


def shared(exact: dict[tuple[int, int], float], found: dict[tuple[int, int], float], threshold: float) -> float:
    """Which share of the exact search's pairs from a threshold on the other one gives, too."""
    wanted, given = ({pair for pair, score in pairs.items() if score >= threshold} for pairs in (exact, found))
    return round(len(wanted & given) / len(wanted), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--exact", type=int, default=300_000, help="the largest size that is searched exactly too")
    parser.add_argument("--recall", type=float, default=0.96, help="of neighbors; of pairs more are found")
    parser.add_argument("--memory", type=int, default=3072, help="MiB beyond the vectors")
    parser.add_argument("--others", type=int, default=30_000, help="the size at which faiss' indexes are tried as well")
    parser.add_argument("--about", default="", help="what the vectors are, for the result")
    parser.add_argument("--out", type=Path, default=RESULTS / "mining_growth.json")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--search", default="approximate", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options)
        return
    written = provenance(17) | {"k": K, "threshold": THRESHOLD, "recall_wanted": options.recall, "memory_mib": options.memory}
    written |= {"vectors": options.about, "sizes": []}
    for size in options.sizes:
        row: dict[str, Any] = {"rows": size}
        kinds = ["approximate"] + (["hnsw", "ivf-pq"] if size == options.others else [])
        found = {}
        for kind in (["exact"] if size <= options.exact else []) + kinds:
            row[kind], found[kind] = search(kind, size, options)
        for kind in kinds if "exact" in found else []:
            row[kind]["share_of_exact_pairs"] = shared(found["exact"], found[kind], THRESHOLD)
            row[kind]["share_without_threshold"] = shared(found["exact"], found[kind], -np.inf)
            row[kind]["times_faster_than_exact"] = round(row["exact"]["total"] / row[kind]["total"], 2)
        written["sizes"].append(row)
        options.out.write_text(json.dumps(written, indent=2) + "\n")
        options.out.with_suffix(".svg").write_text(draw(written["sizes"]))
    print(json.dumps(written["sizes"]))


if __name__ == "__main__":
    main()
