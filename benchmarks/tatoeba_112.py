"""How long one command takes to measure a model on all 112 languages of Tatoeba, on two cores.

    python benchmarks/tatoeba_112.py --data ../shared/data/eval --model multilingual-e5-small

The command is `isogloss evaluate MODEL --suite tatoeba-112`, from starting Python to the finished table with its intervals,
with an empty cache of vectors. Afterwards the rows in that cache are counted: there must be one for each distinct sentence, and
none twice, however many languages share it. The same command again says what a table costs once the vectors are there.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Measured, measure
from provenance import provenance

from isogloss.evaluation.data.test_sets import open_data
from isogloss.evaluation.suites import open_suite
from isogloss.models.vector_cache import VectorCache
from isogloss.storage import write_json

SUITE = "tatoeba-112"
RESULTS = Path(__file__).with_name("results") / "tatoeba_112.json"
INTO = 'exec "$@" > "$0"'  # for sh: the table apart from the bars, which go to the log


def sentences(data: str, suite: str) -> tuple[int, int]:
    """How many sentences the suite has, and how many distinct ones."""
    texts = [text for _, some in open_suite(suite, open_data(data)).texts() for text in some]
    return len(texts), len(set(texts))


def kept(cache: Path, dimension: int) -> tuple[int, int]:
    """Vectors in a cache, and distinct ones among them by the key of their text."""
    record = VectorCache(cache, "", dimension).record
    keys = [np.fromfile(path, record)["key"] for path in cache.glob("vectors/*/*.rows")]
    every = np.concatenate(keys)
    return len(every), len(np.unique(every))


def evaluated(model: str, data: str, suite: str, folder: Path, cores: set[int]) -> tuple[Measured, dict[str, Any]]:
    """Run the command on some cores, and read what it printed."""
    printed = folder / "printed.json"
    command = ["sh", "-c", INTO, str(printed), sys.executable, "-m", "isogloss", "evaluate", model]
    command += ["--suite", suite, "--data", data, "--cache", str(folder / "cache"), "--json"]
    threads = {name: str(len(cores)) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    environment = os.environ | threads | {"CUDA_VISIBLE_DEVICES": ""}
    os.sched_setaffinity(0, cores)  # the command inherits it
    cost = measure(command, folder / "log", env=environment)
    return cost, json.loads(printed.read_text(encoding="utf-8"))


def scores(printed: dict[str, Any]) -> dict[str, float]:
    """The average of each group of languages, × 100."""
    tables = {table["title"]: table["columns"] for table in printed["tables"]}
    groups = tables.get("Tatoeba, groups of languages", [])
    return {column["name"]: round(100 * column["scores"][0]["value"], 2) for column in groups}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--data", default="../shared/data/eval")
    parser.add_argument("--model", default="multilingual-e5-small")
    parser.add_argument("--dimension", type=int, default=384, help="of the model's vectors")
    parser.add_argument("--suite", default=SUITE, help="another one, such as tatoeba:deu+fra, for a trial with another --out")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0))[:2], help="their numbers")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.suite != SUITE and given.out == RESULTS:
        raise SystemExit("another suite is a trial: name another file with --out")
    total, distinct = sentences(given.data, given.suite)
    print(f"{total:,} sentences, {distinct:,} distinct", flush=True)
    with tempfile.TemporaryDirectory(prefix="isogloss-bench-") as temporary:
        folder = Path(temporary)
        first, printed = evaluated(given.model, given.data, given.suite, folder, set(given.cores))
        vectors, unique = kept(folder / "cache", given.dimension)
        if not vectors == unique == distinct:
            raise SystemExit(f"{distinct:,} distinct sentences, but {vectors:,} vectors of {unique:,} sentences were kept")
        again, repeated = evaluated(given.model, given.data, given.suite, folder, set(given.cores))
    if scores(printed) != scores(repeated):
        raise SystemExit("the same command gave other scores the second time")
    told = {
        "model": given.model,
        "suite": given.suite,
        "sentences": total,
        "distinct": distinct,
        "embedded": vectors,
        "cores": len(given.cores),
        "seconds": first.seconds,
        "sentences_per_second": round(distinct / first.seconds, 1),
        "peak_mib": first.peak_mib,
        "again_from_cache": {"seconds": again.seconds, "peak_mib": again.peak_mib},
        "accuracy": scores(printed),
        "resamples": printed["resamples"],
    }
    write_json(given.out, provenance(0) | told)
    print(json.dumps(told, ensure_ascii=False, indent=2))


if __name__ == "__main__":
    main()
