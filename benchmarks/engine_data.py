"""Write what the GPU benchmarks carry along: real pairs, and real models small enough to travel.

    isogloss prepare --recipe recipes/lab-data.toml --out stores/lab
    python benchmarks/engine_data.py stores/lab --out carry

Pairs come from a prepared store (so they are clean and free of evaluation text): source sentences are drawn at random with
all their translations in fourteen languages, dictionaries left out. The student is multilingual-e5-small with its token
table cut to what the pairs use, in the 4 bits it came in; the teacher is all-MiniLM-L6-v2 in half precision. Tatoeba's
test sentences are copied from the shared evaluation data.
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from travelling import pack

from isogloss.corpora.store import open_store

LANGUAGES = ("ar", "cs", "de", "es", "fr", "it", "ja", "ko", "nl", "pl", "pt", "ru", "tr", "zh")
TATOEBA = ("ara", "ces", "deu", "spa", "fra", "ita", "jpn", "kor", "nld", "pol", "por", "rus", "tur", "cmn")


def drawn_pairs(store: Path, sources: int, seed: int) -> list[tuple[str, str, str]]:
    """Pairs of `sources` source sentences, with all their translations."""
    by_source: dict[str, list[tuple[str, str, str]]] = {}
    for block in open_store(store).in_blocks("train"):
        keep = pc.and_(
            pc.is_in(block.column("language"), value_set=pa.array(LANGUAGES)),
            pc.invert(pc.match_substring_regex(block.column("corpus"), "dict")),
        )
        some = block.filter(keep)
        columns = (some.column(name).to_pylist() for name in ("source", "target", "language"))
        for source, target, language in zip(*columns, strict=True):
            by_source.setdefault(source, []).append((source, target, language))
    names = list(by_source)
    chosen = np.random.default_rng(seed).permutation(len(names))[:sources]
    return [pair for place in chosen for pair in by_source[names[place]]]


def read_lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def write_pairs(path: Path, pairs: list[tuple[str, str, str]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for pair in pairs:
            file.write("\t".join(pair) + "\n")


def write_models(out: Path, pairs: list[tuple[str, str, str]], tatoeba: list[str]) -> None:
    from isogloss.models.loading import open_model
    from isogloss.models.student import Student

    student = Student.from_pretrained("multilingual-e5-small", device="cpu")
    texts: dict[str, list[str]] = {"en": [pair[0] for pair in pairs] + tatoeba}
    for _, target, language in pairs:
        texts.setdefault(language, []).append(target)
    trimming = student.trim(texts, "corpus")
    print(f"student: {trimming.rows_before:,} -> {trimming.rows_after:,} rows")
    pack(student.model, out / "student")
    open_model("all-MiniLM-L6-v2").half().save(str(out / "teacher"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sources", type=int, default=60_000)
    parser.add_argument("--tatoeba", type=Path, default=Path("../shared/data/eval/tatoeba_laser_v1"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    pairs = drawn_pairs(options.store, options.sources, 17)
    print(f"{len(pairs):,} pairs of {options.sources:,} sources")
    write_pairs(options.out / "pairs.tsv.gz", pairs)
    test: list[tuple[str, str, str]] = []
    for code, language in zip(TATOEBA, LANGUAGES, strict=True):
        sides = [read_lines(options.tatoeba / f"tatoeba.{code}-eng.{side}.gz") for side in ("eng", code)]
        test += [(english, other, language) for english, other in zip(*sides, strict=True)]
    write_pairs(options.out / "tatoeba.tsv.gz", test)
    write_models(options.out, pairs, [side for pair in test for side in pair[:2]])


if __name__ == "__main__":
    main()
