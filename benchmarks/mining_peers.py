"""The peers' own mining code, run as it is on our vectors: LASER's mine_bitexts.py, sentence-transformers' bitext_mining.py.

Neither is part of a package: whoever runs `mining_speed.py` says where the files are. Nothing of theirs is changed. LASER's
script runs whole, and says on its screen when a stage begins; of sentence-transformers' the lines after the embedding run,
with its exact search (use_ann_search = False) and no least score, so that all three give the same thing.
"""

import os
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isogloss.types import FloatArray, IntArray

K = 4
LASER_BEGINS = {"source against target": "search", "scoring": "scoring", "writing alignments": "matching"}
ST_BEGINS_AT = "# Normalize embeddings"


class Outcome(NamedTuple):
    """Seconds by stage, and pairs of row numbers with their scores."""

    seconds: dict[str, float]
    pairs: IntArray
    scores: FloatArray


class _Timed:
    """A screen that notes when a stage is announced on it."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float]] = []

    def write(self, text: str) -> None:
        for words, stage in LASER_BEGINS.items():
            if words in text and (not self.marks or self.marks[-1][0] != stage):
                self.marks.append((stage, time.perf_counter()))

    def flush(self) -> None:
        pass


def laser(script: Path, left: FloatArray, right: FloatArray, folder: Path) -> Outcome:
    """The script with --mode mine --retrieval max; its lines of text are row numbers."""
    for name, vectors in (("left", left), ("right", right)):
        (folder / f"{name}.txt").write_text("".join(f"{row}\n" for row in range(len(vectors))))
        vectors.tofile(folder / f"{name}.raw")
    _stand_in("embed", SentenceEncoder=None, EncodeLoad=None, EncodeFile=None, EmbedLoad=_load)
    _stand_in("lib")
    _stand_in("lib.text_processing", Token=None, BPEfastApply=None)
    out = folder / "laser.tsv"
    sys.argv = [str(script), str(folder / "left.txt"), str(folder / "right.txt"), "--src-lang", "xx", "--trg-lang", "en"]
    sys.argv += ["--output", str(out), "--mode", "mine", "--retrieval", "max", "--margin", "ratio", "-k", str(K), "--verbose"]
    sys.argv += ["--src-embeddings", str(folder / "left.raw"), "--trg-embeddings", str(folder / "right.raw")]
    sys.argv += ["--dim", str(left.shape[1])]
    os.environ.setdefault("LASER", str(folder))
    screen, real = _Timed(), sys.stdout
    sys.stdout = screen
    try:
        exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__"})
    finally:
        sys.stdout = real
    ends = [moment for _, moment in screen.marks[1:]] + [time.perf_counter()]
    seconds = {stage: end - began for (stage, began), end in zip(screen.marks, ends, strict=True)}
    rows = np.loadtxt(out, delimiter="\t")
    return Outcome(seconds, rows[:, 1:].astype(np.int64), rows[:, 0].astype(np.float32))


def sentence_transformers(folder: Path, left: FloatArray, right: FloatArray, work: Path) -> Outcome:
    """The lines of bitext_mining.py from the normalizing on, with its own functions, each of them timed."""
    sys.path.insert(0, str(folder))
    import bitext_mining_utils as peer  # type: ignore[import-not-found]

    seconds = {"search": 0.0, "scoring": 0.0}

    def timed(stage: str, function: Any) -> Any:  # noqa: ANN401 - a peer's function
        def work_on(*given: Any) -> Any:  # noqa: ANN401
            began = time.perf_counter()
            result = function(*given)
            seconds[stage] += time.perf_counter() - began
            return result

        return work_on

    lines = (folder / "bitext_mining.py").read_text().partition(ST_BEGINS_AT)
    if not lines[1]:
        raise SystemExit(f"{folder}/bitext_mining.py has no line {ST_BEGINS_AT!r}: another version than this knows")
    import gzip

    os.chdir(work)
    given: dict[str, Any] = {
        "np": np,
        "gzip": gzip,
        "kNN": timed("search", peer.kNN),
        "score_candidates": timed("scoring", peer.score_candidates),
        "source_embeddings": left,
        "target_embeddings": right,
        "source_sentences": [str(row) for row in range(len(left))],
        "target_sentences": [str(row) for row in range(len(right))],
        "knn_neighbors": K,
        "min_threshold": float("-inf"),
        "use_ann_search": False,
        "ann_num_clusters": 0,
        "ann_num_cluster_probe": 0,
    }
    began = time.perf_counter()
    exec(compile(lines[1] + lines[2], "bitext_mining.py", "exec"), given)
    seconds["matching"] = time.perf_counter() - began - sum(seconds.values())
    pairs = np.loadtxt(work / "parallel-sentences-out.tsv.gz", delimiter="\t")[:, 1:].astype(np.int64)
    unrounded = dict(zip(map(tuple, given["indices"].tolist()), given["scores"].tolist(), strict=True))
    return Outcome(seconds, pairs, np.array([unrounded[tuple(pair)] for pair in pairs.tolist()], dtype=np.float32))


def _load(name: str, dimension: int, verbose: bool = False, fp16: bool = False) -> FloatArray:
    return np.fromfile(name, dtype=np.float32).reshape(-1, dimension)


def _stand_in(name: str, **content: Any) -> None:  # noqa: ANN401
    """A module that LASER's script imports for embedding, which is not done here."""
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module
