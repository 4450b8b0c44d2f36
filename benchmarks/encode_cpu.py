"""Sentences a second of a CPU: isogloss' encoder beside sentence-transformers' own `encode`, multilingual-e5-small.

    python benchmarks/encode_cpu.py --data ../shared/data

Both sides have the same loaded model, the same distinct real sentences (English alone, then in many languages), the same
prompt and the same threads, in single precision, and are timed in turn, round after round, after one warm-up each; what
counts is the median. The peer runs at its default batch size and at others, and its best median is kept beside the default
one. The largest difference of any number in the vectors has to be below 1e-5. With `--bf16` both sides run in bf16 too (the
peer with a copy of its weights, at every batch size), and the lowest cosine to the vectors of single precision is recorded; the
summary is in `bf16`, and the figures beside it are of single precision alone. Goes to benchmarks/results/encode_cpu.json.
"""

import argparse
import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from provenance import provenance
from real_pairs import real

from isogloss.models.encoder import SentenceEncoder
from isogloss.models.loading import open_model
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results")
LANGUAGES = ("ar", "cs", "de", "el", "es", "fr", "hi", "ja", "ko", "ru", "sw", "th", "tr", "vi", "zh")
PROMPT, LIMIT, DEFAULT = "query: ", 1e-5, 32
BF16 = ", bf16"

Way = Callable[[], FloatArray]


def sentences(data: Path, count: int, seed: int) -> dict[str, list[str]]:
    """Distinct real sentences: English alone, and as many with translations into many languages among them."""
    random = np.random.default_rng(seed)
    sides: dict[str, list[str]] = {"source": [], "target": []}
    for language in LANGUAGES:
        if not (data / "train" / "tatoeba" / f"en-{language}.tsv.gz").is_file():
            continue
        table = real(data, language, ("tatoeba",))
        rows = table.take(random.permutation(table.num_rows)[:count])
        for side, texts in sides.items():
            texts += rows.column(side).to_pylist()
    english = list(dict.fromkeys(sides["source"]))
    mixed = list(dict.fromkeys(english[: len(english) // len(LANGUAGES)] + sides["target"]))
    return {
        name: [texts[row] for row in random.permutation(len(texts))[:count]]
        for name, texts in (("English", english), ("16 languages", mixed))
    }


def in_turn(ways: dict[str, Way], rounds: int) -> tuple[dict[str, list[float]], dict[str, FloatArray]]:
    """Seconds of each round of each way, one after the other, and what each one gives."""
    given = {name: way() for name, way in ways.items()}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - began)
    return seconds, given


def ways_of(encoder: SentenceEncoder, texts: list[str], batches: list[int], mark: str = "") -> dict[str, Way]:
    """Our encoder and the peer's at several batch sizes, with `mark` after their names."""
    ways: dict[str, Way] = {f"isogloss{mark}": lambda: encoder.encode(texts)}
    model = copy.deepcopy(encoder.model).bfloat16() if mark else encoder.model
    for size in dict.fromkeys([DEFAULT, *batches]):
        ways[f"batch {size}{mark}"] = lambda size=size: model.encode(  # type: ignore[misc]
            texts, prompt=PROMPT, batch_size=size, show_progress_bar=False
        )
    return ways


def compare(
    encoder: SentenceEncoder, half: SentenceEncoder | None, texts: list[str], rounds: int, batches: list[int]
) -> dict[str, Any]:
    """Both sides on the same texts; with `half`, our encoder in bf16, in bf16 too."""
    marked = {} if half is None else ways_of(half, texts, batches, BF16)
    ways = ways_of(encoder, texts, batches)
    seconds, given = in_turn(ways | marked, rounds)
    middle = {name: median(times) for name, times in seconds.items()}
    best = min((name for name in ways if name != "isogloss"), key=middle.__getitem__)
    lengths = [len(row) for row in encoder.model.tokenizer([PROMPT + text for text in texts])["input_ids"]]
    return _in_bf16(list(marked), middle, given, best) | {
        "sentences": len(texts),
        "tokens_per_sentence": round(float(np.mean(lengths)), 2),
        "sentences_per_second": {name: round(len(texts) / time_, 2) for name, time_ in middle.items()},
        "times_faster_than_default": round(middle[f"batch {DEFAULT}"] / middle["isogloss"], 3),
        "times_faster_than_best": round(middle[best] / middle["isogloss"], 3),
        "best": best,
        "largest_difference": float(np.abs(given["isogloss"] - given[f"batch {DEFAULT}"]).max()),
        "seconds": {name: [round(one, 3) for one in times] for name, times in seconds.items()},
    }


def _in_bf16(ways: list[str], middle: dict[str, float], given: dict[str, FloatArray], single: str) -> dict[str, Any]:
    """Ours in bf16 beside the peer at its best batch size in its faster precision; nothing if bf16 was not measured."""
    if not ways:
        return {}
    best = min((name for name in [*ways, single] if not name.startswith("isogloss")), key=middle.__getitem__)
    ours, expected = given[f"isogloss{BF16}"], given["isogloss"]
    cosines = (ours * expected).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(expected, axis=1)
    return {
        "bf16": {
            "times_faster_than_best": round(middle[best] / middle[f"isogloss{BF16}"], 3),
            "times_faster_than_single": round(middle["isogloss"] / middle[f"isogloss{BF16}"], 3),
            "best": best,
            "lowest_cosine": float(cosines.min()),
        }
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sentences", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="*", default=[8, 16, 64])
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "encode_cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    encoder = SentenceEncoder(open_model("multilingual-e5-small"), "multilingual-e5-small", PROMPT)
    half = SentenceEncoder(encoder.model, encoder.name, PROMPT, precision="bf16") if options.bf16 else None
    written = provenance(17) | {"prompt": PROMPT, "limit": LIMIT, "rounds": options.rounds, "results": {}}
    for name, texts in sentences(options.data, options.sentences, 17).items():
        written["results"][name] = found = compare(encoder, half, texts, options.rounds, options.batches)
        print(name, json.dumps({key: value for key, value in found.items() if key != "seconds"}, indent=2), flush=True)
    options.out.write_text(json.dumps(written, indent=2) + "\n")
    if any(found["largest_difference"] > LIMIT for found in written["results"].values()):
        raise SystemExit("the vectors differ")


if __name__ == "__main__":
    main()
