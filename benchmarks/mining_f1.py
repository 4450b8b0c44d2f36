"""How well models find translations: F1 on BUCC zh-en and on two news sets, and whether precision can be told without gold.

    python benchmarks/mining_f1.py --data ../shared/data/eval --model "e5=multilingual-e5-small" --prompt "e5=query: "
    python benchmarks/mining_f1.py --data ../shared/data/eval --model mUSE=muse --model distilled=runs/mine

A model is NAME=WHAT: whatever `isogloss evaluate` opens, or packed:FOLDER, which `travelling` wrote. Results are added to those
of other calls (a model that was there is replaced), so models that no one machine has stand side by side; --fresh forgets
them. Differences are to the first model of the file, by the paired bootstrap.

- F1: ratio margin over 4 neighbors, as `isogloss evaluate --suite bucc` measures it. The threshold is chosen on the training
  split; a set without one (none of these has it) is halved by a hash of the ids, and each half measured with the threshold of
  the other.
- Calibration: `isogloss mine --threshold auto` on the same files. At each threshold of its curve, the precision it estimates,
  and the precision by the gold pairs, of which it knew nothing.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from provenance import provenance

from isogloss.config.mining import MiningSettings
from isogloss.evaluation.bootstrap import Draws, Sample, Sums, f1, interval
from isogloss.evaluation.data.test_sets import Haystack, open_data
from isogloss.evaluation.space import Space
from isogloss.evaluation.tasks.bitext import Splits, mining, open_splits
from isogloss.mining.gold import read_gold
from isogloss.mining.mine import mine
from isogloss.mining.sentences import read_sentences
from isogloss.models.encoder import Encoder, SentenceEncoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.loading import choose_device
from isogloss.progress import OnProgress, silent
from isogloss.storage import content_hash, write_json
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results") / "mining_f1.json"
SETS = (("bucc", "zh-en"), ("mining-news", "de-en"), ("mining-news", "fr-en"))
ASKED = (0.8, 0.9, 0.95, 0.99)
POINTS = 25  # of a curve, in the result
ALL = 1e-9  # a precision that every threshold promises
PACKED = "packed:"


class Remembering:
    """An encoder that computes each sentence once, however many measurements ask for it."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder, self.name = encoder, encoder.name
        self.known: dict[str, FloatArray] = {}

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """That of the encoder."""
        return self.encoder.fingerprint

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a text."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        if new:
            rows = self.encoder.encode(new, on_progress, stage)
            self.known.update(zip(new, rows, strict=True))
        return np.stack([self.known[text] for text in texts])


def opened(what: str, device: str, prompt: str) -> Encoder:
    """A model by its name, or one that was packed to travel."""
    if not what.startswith(PACKED):
        return open_encoder(what, device, prompt)
    from travelling import unpack

    return SentenceEncoder(unpack(Path(what.removeprefix(PACKED))).to(choose_device(device)), what, prompt)


def cut(haystack: Haystack, most: int) -> Haystack:
    """A smaller one for trials: a quarter of it gold pairs, the rest the first other sentences."""
    gold = haystack.gold[: most // 4]
    sides = []
    for side in (0, 1):
        golden = {pair[side] for pair in gold}
        others = [one for one in haystack.ids[side] if one not in golden][: most - len(golden)]
        kept = golden.union(others)
        rows = zip(haystack.ids[side], haystack.texts[side], strict=True)
        sides.append([(name, text) for name, text in rows if name in kept])
    gold = [pair for pair in haystack.gold if all(pair[side] in {name for name, _ in sides[side]} for side in (0, 1))]
    ids, texts = (tuple([row[column] for row in side] for side in sides) for column in (0, 1))
    return replace(haystack, ids=(ids[0], ids[1]), texts=(texts[0], texts[1]), gold=gold)


def read(data: str, most: int) -> dict[str, Splits]:
    """The sets, by name."""
    found = {f"{name} {subset}": open_splits(open_data(data), name, subset) for name, subset in SETS}
    if most:
        found = {name: Splits(cut(one.test, most), one.training and cut(one.training, most)) for name, one in found.items()}
    return found


def described(splits: Splits) -> dict[str, Any]:
    """What a set is, so that results of several calls can be told to be of the same."""
    test = splits.test
    gold = ["\t".join(pair) for pair in test.gold]
    return {
        "sentences": [len(side) for side in test.ids],
        "gold": len(test.gold),
        "split": test.split,
        "threshold_from": "training split" if splits.training else "the other half of the sentences (2-fold, by id)",
        "content": content_hash(*test.texts[0], *test.texts[1], *gold),
    }


def retrieved(splits: Splits, encoder: Remembering) -> dict[str, Any]:
    """F1, precision and recall with a threshold that the measured pairs had no say in."""
    task = mining("mined", (splits,))
    space = Space.encode(encoder, (text for part in task.sets for texts in part.texts for text in texts))
    measured = task.measure(space)[0]
    sample = measured.sample
    ((_, metric),) = sample.terms
    assert isinstance(metric, Sums)
    right, found, wanted = (metric.columns[:, column].astype(np.int64) for column in range(3))
    return {
        "f1": sample.value(),
        "interval": list(interval(Draws().of([sample])[0])),
        **{name: measured.others[name] for name in ("precision", "recall", "threshold")},
        "f1_in_hindsight": measured.others["F1, threshold in hindsight"],
        # Rows of left sentences, each as often as it counts: what a paired comparison needs.
        "rows": {name: packed(counts) for name, counts in (("right", right), ("found", found), ("wanted", wanted))},
    }


def packed(counts: "np.ndarray[Any, np.dtype[np.int64]]") -> str:
    """Row numbers in one line of text, each as often as it was counted."""
    return " ".join(map(str, np.repeat(np.arange(len(counts)), counts).tolist()))


def sample_of(rows: dict[str, str], sentences: int, unit: str) -> Sample:
    """What `packed` wrote, as something that can be drawn."""
    counts = [np.bincount(np.array(rows[name].split(), dtype=np.int64), minlength=sentences) for name in rows]
    return f1(counts[0], counts[1], counts[2], unit)


def calibration(haystack: Haystack, encoder: Remembering, device: str) -> dict[str, Any]:
    """What `isogloss mine` says of itself without gold, beside what the gold says."""
    with tempfile.TemporaryDirectory(prefix="isogloss-bench-") as temporary:
        folder = Path(temporary)
        files = [folder / name for name in ("source.txt", "target.txt")]
        for file, ids, texts in zip(files, haystack.ids, haystack.texts, strict=True):
            file.write_text("".join(f"{name}\t{text}\n" for name, text in zip(ids, texts, strict=True)), encoding="utf-8")
        (folder / "gold.tsv").write_text("".join(f"{one}\t{other}\n" for one, other in haystack.gold), encoding="utf-8")
        settings = MiningSettings(threshold="auto", precision=ALL, with_ids=True, device=device, cache=folder / "cache")
        mined = mine(encoder, files[0], files[1], settings)
        sides = [read_sentences(file, MiningSettings(with_ids=True)) for file in files]
        gold = read_gold(str(folder / "gold.tsv"), sides[0], sides[1])
    scores = mined.pairs.column("score").to_numpy().astype(np.float64)  # falling
    found = zip(*(mined.pairs.column(name).to_pylist() for name in ("source_id", "target_id")), strict=True)
    right = np.cumsum([pair in gold.pairs for pair in found])
    curve = mined.calibration
    assert curve is not None

    def at(threshold: float) -> dict[str, Any]:
        pairs = int((scores >= threshold).sum())
        correct = int(right[pairs - 1]) if pairs else 0
        return {
            "threshold": threshold if np.isfinite(threshold) else None,
            "pairs": pairs,
            "estimated": curve.precision_at(threshold) if pairs else None,
            "precision": correct / pairs if pairs else None,
            "recall": correct / len(gold.pairs),
        }

    points = [at(float(one)) for one in curve.thresholds if one >= mined.threshold]
    gaps = [abs(one["estimated"] - one["precision"]) for one in points]
    kept = sorted(set(np.linspace(0, len(points) - 1, POINTS).astype(int).tolist())) if points else []
    return {
        "asked": {f"{asked:g}": at(curve.threshold_for(asked)) for asked in ASKED},
        "mean_gap": float(np.mean(gaps)) if gaps else None,
        "largest_gap": max(gaps, default=None),
        "without_translation": {
            "estimated": curve.without_translation,
            "by_gold": 1 - len(gold.pairs) / mined.accounts[0].kept,
        },
        "curve": [points[place] for place in kept],
    }


def measured(name: str, what: str, prompt: str, sets: dict[str, Splits], device: str) -> dict[str, Any]:
    """One model on all sets."""
    began = time.monotonic()
    encoder = Remembering(opened(what, device, prompt))
    found = {}
    for title, splits in sets.items():
        found[title] = retrieved(splits, encoder) | {"calibration": calibration(splits.test, encoder, device)}
        shown = {key: round(100 * found[title][key], 1) for key in ("f1", "precision", "recall")}
        print(name, title, json.dumps(shown), flush=True)
    facts = {"dimension": encoder.dimension, "fingerprint": encoder.fingerprint, "sentences": len(encoder.known)}
    seconds = round(time.monotonic() - began, 1)
    return {"model": what, "prompt": prompt, **facts, "seconds": seconds, "provenance": provenance(0), "sets": found}


def compared(told: dict[str, Any]) -> dict[str, Any]:
    """The same results with every model's difference to the first one, drawn on the same sentences."""
    names = list(told["models"])
    for title, one in told["sets"].items():
        found = [told["models"][name]["sets"][title] for name in names]
        samples = [sample_of(own["rows"], one["sentences"][0], title) for own in found]
        draws = Draws().of(samples)
        for place, own in enumerate(found):
            own.pop("difference", None)
            if place:
                low, high = interval(draws[place] - draws[0])
                gap = own["f1"] - found[0]["f1"]
                own["difference"] = {"to": names[0], "value": gap, "interval": [low, high], "significant": low > 0 or high < 0}
    return told


def named(pairs: Sequence[str], option: str) -> dict[str, str]:
    """NAME=WHAT, several times."""
    for one in pairs:
        if "=" not in one:
            raise SystemExit(f"--{option} {one}: write it NAME=WHAT")
    return {name: what for name, _, what in (one.partition("=") for one in pairs)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--data", default="../shared/data/eval")
    parser.add_argument("--model", action="append", required=True, metavar="NAME=WHAT")
    parser.add_argument("--prompt", action="append", default=[], metavar="NAME=TEXT", help="put before its every sentence")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--most", type=int, default=0, help="sentences a side: a trial, which needs another --out")
    parser.add_argument("--fresh", action="store_true", help="forget what other calls measured")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    if given.most and given.out == RESULTS:
        raise SystemExit("--most is for trials: name another file with --out")
    models, prompts = named(given.model, "model"), named(given.prompt, "prompt")
    if stray := set(prompts) - set(models):
        raise SystemExit(f"--prompt {', '.join(sorted(stray))}: no such --model")
    sets = read(given.data, given.most)
    told: dict[str, Any] = {"sets": {name: described(one) for name, one in sets.items()}, "models": {}}
    if given.out.exists() and not given.fresh:
        earlier = json.loads(given.out.read_text(encoding="utf-8"))
        if earlier["sets"] != told["sets"]:
            raise SystemExit(f"{given.out} is of other sentences; --fresh forgets it")
        told = earlier
    for name, what in models.items():
        told["models"][name] = measured(name, what, prompts.get(name, ""), sets, given.device)
        write_json(given.out, compared(told))


if __name__ == "__main__":
    main()
