"""100,000 sentences with 100,000 others on two cores: isogloss, LASER's mine_bitexts and sentence-transformers' script.

    python benchmarks/mining_data.py --data ../shared/data --out carry
    python benchmarks/mining_gpu.py --data carry --vectors vectors              # or any left.npy and right.npy
    python benchmarks/mining_speed.py --vectors vectors --laser mine_bitexts.py --sentence-transformers FOLDER

All three mine the same 384-d vectors of real sentences, exactly: k = 4, ratio margin, max strategy, every pair kept. Each
runs in a process of its own, in turns. Reading vectors is not counted. Memory is what a process holds beyond what it held
when the vectors were read (peers: and beyond a copy of them, in single precision, that they need before they begin). Pairs
are compared as sets; the peers' cosines are single precision, so where two candidates differ by less than that, they may
choose otherwise, and such pairs are counted by what their scores differ. Takes about half an hour.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measuring import measure
from mining_peers import K, Outcome, laser, sentence_transformers
from provenance import provenance

from isogloss.config.mining import SearchSettings
from isogloss.mining.margin import candidate_scores
from isogloss.mining.matching import matched
from isogloss.search.neighbors import both_ways
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results")
OURS, LASER, ST = "isogloss", "LASER", "sentence-transformers"
STAGES = ("search", "scoring", "matching")


def isogloss(left: FloatArray, right: FloatArray) -> Outcome:
    """Our way, from vectors to pairs."""
    moments = [time.perf_counter()]
    found = both_ways(left, right, K, SearchSettings(device="cpu"))
    moments.append(time.perf_counter())
    scores = candidate_scores(*found, "ratio")
    moments.append(time.perf_counter())
    pairs = matched(*found, *scores, "max")
    moments.append(time.perf_counter())
    seconds = dict(zip(STAGES, np.diff(moments).tolist(), strict=True))
    return Outcome(seconds, np.stack([pairs.left, pairs.right], 1), pairs.scores)


def one(options: argparse.Namespace) -> None:
    """What a child process does: mine once, and leave what it took and found."""
    left, right = (
        np.ascontiguousarray(np.load(options.vectors / f"{side}.npy", mmap_mode="r")[: options.rows], dtype=np.float32)
        for side in ("left", "right")
    )
    import torch  # what a process holds before it begins includes its libraries

    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    began = time.monotonic()
    if options.one == LASER:
        found = laser(options.laser, left, right, options.work)
    elif options.one == ST:
        found = sentence_transformers(options.sentence_transformers, left, right, options.work)
    else:
        found = isogloss(left, right)
    np.savez(options.work / "found.npz", pairs=found.pairs, scores=found.scores)
    (options.work / "told.json").write_text(json.dumps({"began": began, "ended": time.monotonic(), "seconds": found.seconds}))


def turn(name: str, options: argparse.Namespace) -> tuple[dict[str, Any], Any, Any]:
    with TemporaryDirectory() as folder:
        given = ["--vectors", str(options.vectors), "--laser", str(options.laser), "--rows", str(options.rows)]
        given += ["--sentence-transformers", str(options.sentence_transformers), "--one", name, "--work", folder]
        cost = measure([sys.executable, __file__, *given], Path(folder) / "log", env=os.environ)
        told = json.loads((Path(folder) / "told.json").read_text())
        with np.load(Path(folder) / "found.npz") as found:
            pairs, scores = found["pairs"], found["scores"]
    before = [sample.own for sample in cost.samples if sample.moment <= told["began"]][-1]
    during = max(sample.own for sample in cost.samples if told["began"] <= sample.moment <= told["ended"])
    seconds = {stage: round(told["seconds"][stage], 3) for stage in STAGES}
    result = {
        "seconds": seconds,
        "total": round(sum(seconds.values()), 2),
        "beyond_vectors_mib": round((during - before) / 1024),
    }
    print(name, json.dumps(result), flush=True)
    return result, pairs, scores


def alike(ours: tuple[Any, Any], theirs: tuple[Any, Any]) -> dict[str, Any]:
    """How many pairs are the same, and what the others differ by: the best score each side gives the sentence."""
    mine, yours = (
        {tuple(pair): score for pair, score in zip(pairs.tolist(), scores, strict=True)} for pairs, scores in (ours, theirs)
    )
    same = mine.keys() & yours.keys()
    of_left = {pair[0]: score for pair, score in yours.items()}
    apart = [
        abs(float(score) - float(of_left[pair[0]])) for pair, score in mine.items() if pair not in same and pair[0] in of_left
    ]
    return {
        "pairs": [len(mine), len(yours)],
        "same": len(same),
        "same_share": round(len(same) / max(len(mine), len(yours)), 6),
        "largest_score_difference_of_same": float(max(abs(float(mine[pair]) - float(yours[pair])) for pair in same)),
        "others": {"counted": len(apart), "within_1e-6": sum(one <= 1e-6 for one in apart)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--laser", type=Path, required=True)
    parser.add_argument("--sentence-transformers", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "mining_speed.json")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options)
        return
    turns: dict[str, list[dict[str, Any]]] = {OURS: [], LASER: [], ST: []}
    found: dict[str, tuple[Any, Any]] = {}
    for _ in range(options.rounds):
        for name, results in turns.items():
            result, pairs, scores = turn(name, options)
            found[name] = pairs, scores
            results.append(result)
    middle = {name: median(result["total"] for result in results) for name, results in turns.items()}
    scoring = {name: median(result["seconds"]["scoring"] for result in results) for name, results in turns.items()}
    searching = {name: median(result["seconds"]["search"] for result in results) for name, results in turns.items()}
    peers = (LASER, ST)
    written = provenance(17) | {
        "rows": options.rows,
        "k": K,
        "seconds": middle,
        "times_faster": round(min(middle[name] for name in peers) / middle[OURS], 2),
        "search_times_faster": round(min(searching[name] for name in peers) / searching[OURS], 2),
        "scoring_times_faster": round(min(scoring[name] for name in peers) / scoring[OURS], 1),
        "beyond_vectors_mib": {name: max(one["beyond_vectors_mib"] for one in results) for name, results in turns.items()},
        "same_pairs": {name: alike(found[OURS], found[name]) for name in peers},
        "turns": turns,
    }
    options.out.write_text(json.dumps(written, indent=2) + "\n")
    print(json.dumps({key: value for key, value in written.items() if key not in ("turns", "hardware", "versions")}))


if __name__ == "__main__":
    main()
