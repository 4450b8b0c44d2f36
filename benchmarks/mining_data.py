"""Write the sentences of the mining benchmarks.

    python benchmarks/mining_data.py --data ../shared/data --out carry

Two sides of up to a million distinct real sentences, in one random order, so that the first n lines of both are a smaller
problem of the same kind: on the left translations in twelve languages, on the right their English sources in the order in
which they come up (and sentences in seven further languages once there is no English left), so that most of the left has
its translation on the right. Dictionaries and short entries are left out.

`mining_gpu.py` turns them into vectors.
"""

import argparse
import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np

LEFT = ("ar", "cs", "de", "es", "fr", "ja", "ko", "nl", "pl", "pt", "tr", "zh")
RIGHT = ("it", "ru", "vi", "hu", "uk", "fi", "he")
SHORTEST = {"ja": 5, "ko": 5, "zh": 5}
SHORTEST_ELSEWHERE = 12
MOST, SEED = 1_000_000, 17


def pairs_of(data: Path, language: str) -> Iterator[tuple[str, str]]:
    for path in sorted((data / "train").glob(f"*/en-{language}.tsv.gz")):
        if path.parent.name.startswith("dict_"):
            continue
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                english, _, other = line.rstrip("\n").partition("\t")
                long_enough = len(other) >= SHORTEST.get(language, SHORTEST_ELSEWHERE)
                if len(english) >= SHORTEST_ELSEWHERE and long_enough and "\t" not in other:
                    yield english, other


def sides(data: Path) -> tuple[list[str], list[str]]:
    """Both sides, each sentence once."""
    pairs = [pair for language in LEFT for pair in pairs_of(data, language)]
    order = np.random.default_rng(SEED).permutation(len(pairs))
    left = dict.fromkeys(pairs[place][1] for place in order)
    right = dict.fromkeys(pairs[place][0] for place in order)
    for language in RIGHT:
        for english, other in pairs_of(data, language):
            right.setdefault(english)
            right.setdefault(other)
    shared = left.keys() & right.keys()
    one, other_side = ([text for text in side if text not in shared][:MOST] for side in (left, right))
    return one, other_side


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    left, right = sides(options.data)
    print(f"{len(left):,} sentences on the left, {len(right):,} on the right")
    for name, side in (("left", left), ("right", right)):
        with lzma.open(options.out / f"{name}.txt.xz", "wt", encoding="utf-8", preset=4) as file:
            file.writelines(f"{line}\n" for line in side)


if __name__ == "__main__":
    main()
