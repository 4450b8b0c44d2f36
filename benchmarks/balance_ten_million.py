"""How long it takes to order an epoch of ten million pairs, by scheme: `python benchmarks/balance_ten_million.py`."""

import json
import resource
import time
from pathlib import Path

import numpy as np
from provenance import provenance

from isogloss.config import BalanceSettings
from isogloss.corpora.sampling.balance import Sampler
from isogloss.storage import write_json

PAIRS, CORPORA, LANGUAGES, SEED = 10_000_000, 10, 50, 17


def main() -> None:
    """Order one epoch under every scheme."""
    random = np.random.default_rng(SEED)
    source = random.integers(0, PAIRS // 3, PAIRS)
    corpus = (source % CORPORA).astype(np.int64)
    language = (LANGUAGES * random.random(PAIRS) ** 2).astype(np.int64)
    rows = []
    for scheme in ("everything", "corpora", "languages", "datasets", "proportional"):
        began = time.perf_counter()
        sampler = Sampler(source, corpus, language, BalanceSettings(scheme=scheme), SEED)
        ready = time.perf_counter()
        drawn = len(sampler.order(0))
        rows.append(
            {"scheme": scheme, "setup_seconds": round(ready - began, 2), "order_seconds": round(time.perf_counter() - ready, 2)}
        )
        rows[-1] |= {"pairs": drawn, "peak_gib_so_far": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
        print(json.dumps(rows[-1]), flush=True)
    write_json(Path(__file__).with_name("results") / "balance_ten_million.json", provenance(SEED) | {"schemes": rows})


if __name__ == "__main__":
    main()
