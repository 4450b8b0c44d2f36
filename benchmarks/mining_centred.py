"""Vectors without what their language adds to all of them: left.npy and right.npy again, each language's mean taken off.

    python benchmarks/mining_centred.py --data carry --vectors vectors --out centred

`--data` is what mining_data.py wrote (the languages, line by line), `--vectors` what mining_gpu.py did. A side of the benchmark
has up to twelve languages, which nobody mines in one go; with their means in, it is twelve clouds beside one. This is the
mean removal of `isogloss evaluate --mean-removal` and `isogloss embed --means`.
"""

import argparse
from pathlib import Path

import numpy as np

AT_ONCE = 50_000


def centred(vectors: np.ndarray, languages: np.ndarray, out: np.ndarray) -> None:
    """Unit vectors, without their language's mean, of unit length again."""
    names, own = np.unique(languages, return_inverse=True)
    means = np.zeros((len(names), vectors.shape[1]))

    def unit(start: int) -> np.ndarray:
        some = vectors[start : start + AT_ONCE].astype(np.float32)
        return np.asarray(some / np.linalg.norm(some, axis=1, keepdims=True))

    for start in range(0, len(vectors), AT_ONCE):
        np.add.at(means, own[start : start + AT_ONCE], unit(start))
    means /= np.bincount(own)[:, None]
    for start in range(0, len(vectors), AT_ONCE):
        moved = unit(start) - means[own[start : start + AT_ONCE]]
        out[start : start + AT_ONCE] = moved / np.linalg.norm(moved, axis=1, keepdims=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for side in ("left", "right"):
        vectors = np.load(options.vectors / f"{side}.npy", mmap_mode="r")
        languages = np.array((options.data / f"{side}.languages.txt").read_text().split())
        out = np.lib.format.open_memmap(options.out / f"{side}.npy", mode="w+", dtype=np.float16, shape=vectors.shape)
        centred(vectors, languages, out)
        out.flush()


if __name__ == "__main__":
    main()
