"""Write the sentences of the mining benchmarks.

    python benchmarks/mining_data.py --data ../shared/data --out carry

Two sides of up to a million distinct real sentences, in one random order, so that the first n lines of both are a smaller
problem of the same kind: on the left translations in twelve languages, on the right their English sources in the order in
which they come up (and sentences in seven further languages once there is no English left), so that most of the left has
its translation on the right. Dictionaries and short entries are left out.

`mining_gpu.py` turns them into vectors, `mining_centred.py` takes each language's mean off those.
"""

import argparse
import gzip
import lzma
from collections.abc import Iterator
from itertools import islice
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


def sides(data: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Both sides: each sentence once, and its language."""
    pairs = [(*pair, language) for language in LEFT for pair in pairs_of(data, language)]
    left: dict[str, str] = {}
    right: dict[str, str] = {}
    for place in np.random.default_rng(SEED).permutation(len(pairs)):
        english, other, language = pairs[place]
        left.setdefault(other, language)
        right.setdefault(english, "en")
    for language in RIGHT:
        for english, other in pairs_of(data, language):
            right.setdefault(english, "en")
            right.setdefault(other, language)
    shared = left.keys() & right.keys()
    one, two = (dict(islice(((text, of) for text, of in side.items() if text not in shared), MOST)) for side in (left, right))
    return one, two


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, side in zip(("left", "right"), sides(options.data), strict=True):
        print(f"{name}: {len(side):,} sentences")
        with lzma.open(options.out / f"{name}.txt.xz", "wt", encoding="utf-8", preset=4) as file:
            file.writelines(f"{line}\n" for line in side)
        (options.out / f"{name}.languages.txt").write_text("".join(f"{language}\n" for language in side.values()))


if __name__ == "__main__":
    main()
