"""What the same pairs, and what the same minutes, are worth: isogloss beside sentence-transformers' multilingual recipe.

    python benchmarks/engine_quality.py --data carry          # what benchmarks/engine_data.py wrote; needs a GPU

Both start from the same student (multilingual-e5-small cut to the pairs' vocabulary, normalized) and the same teacher
(all-MiniLM-L6-v2), and see the same training pairs; the last source sentences of the file are kept out as dev pairs.
Measured: the paper's MSE (mean over dev pairs of both sides' squared distance to the teacher, halved) and accuracy on
Tatoeba's test sentences of fourteen languages, both directions. The clock of both sides begins with the first sentence
that the teacher embeds and ends with the last step: compiling, tokenizing and the bridge are ours to pay.

1. same pairs: the peer's own recipe (batch 64, MSE, AdamW, 10 % warm-up, bf16), at three learning rates, the best kept;
   isogloss with the same settings, loss and number of pairs, no bridge, once as it comes (without dropout) and once with
   the body's dropout, as the peer trains. Seeds decide which pairs are drawn, in which order; told are averages over them.
2. same wall clock: isogloss as one would use it (bridge, MSE + 0.1 soft similarity, larger batches).
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from provenance import provenance
from travelling import unpack

from isogloss.config import BalanceSettings, BridgeSettings, LossSettings, Recipe, TrainingSettings
from isogloss.models.encoder import SentenceEncoder
from isogloss.models.loading import open_model
from isogloss.models.student import Student
from isogloss.search.neighbors import nearest
from isogloss.training.distillation import Distillation
from isogloss.types import Bitext, Pair

RESULTS = Path(__file__).with_name("results")
BATCH, DEV_SOURCES = 64, 1500
SEEDS = (17, 18, 19)


def read(path: Path) -> list[tuple[str, str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [(row[0], row[1], row[2]) for row in (line.rstrip("\n").split("\t") for line in file)]


class Bench:
    """The data, the models, and the two measures."""

    def __init__(self, data: Path, device: str, most: int) -> None:
        pairs = read(data / "pairs.tsv.gz")[-most:]
        sources = list(dict.fromkeys(pair[0] for pair in pairs))
        held = set(sources[-min(DEV_SOURCES, len(sources) // 4) :])
        self.train = [pair for pair in pairs if pair[0] not in held]
        self.dev = [pair for pair in pairs if pair[0] in held]
        self.tatoeba = read(data / "tatoeba.tsv.gz")[:: max(1, 200_000 // most)]
        self.folder, self.device = data, device
        self.teacher_model = open_model(str(data / "teacher")).float().to(device)
        self.teacher = SentenceEncoder(self.teacher_model, "all-MiniLM-L6-v2")
        texts = list(dict.fromkeys(pair[0] for pair in self.dev))
        self.taught = dict(zip(texts, self.teacher.encode(texts), strict=True))

    def student(self) -> Student:
        """The student as both sides get it."""
        return Student(unpack(self.folder / "student").to(self.device), "multilingual-e5-small", max_tokens=128)

    def measure(self, student: Student) -> dict[str, float]:
        """Dev MSE and Tatoeba accuracy, in single precision."""
        student.model.to(self.device).eval()
        texts = list(dict.fromkeys(side for pair in self.dev + self.tatoeba for side in pair[:2]))
        rows = dict(zip(texts, student.encode(texts), strict=True))
        squares = [
            (np.square(rows[source] - self.taught[source]).sum() + np.square(rows[target] - self.taught[source]).sum()) / 2
            for source, target, _ in self.dev
        ]
        found = []
        for language in sorted({pair[2] for pair in self.tatoeba}):
            sides = [np.stack([rows[pair[side]] for pair in self.tatoeba if pair[2] == language]) for side in (0, 1)]
            right = np.arange(len(sides[0]))
            found.append(((nearest(*sides) == right).mean() + (nearest(sides[1], sides[0]) == right).mean()) / 2)
        return {"dev_mse": round(float(np.mean(squares)), 4), "tatoeba_14": round(100 * float(np.mean(found)), 2)}


def peer(bench: Bench, rate: float, steps: int, seed: int) -> dict[str, Any]:
    """sentence-transformers' recipe: teacher vectors as labels, MSELoss, one step after another."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MSELoss

    student = bench.student()
    began = time.monotonic()
    chosen = np.random.default_rng(seed).permutation(len(bench.train))[: steps * BATCH]
    pairs = [bench.train[place] for place in chosen]
    texts = list(dict.fromkeys(pair[0] for pair in pairs))
    vectors = bench.teacher_model.encode(texts, batch_size=64, show_progress_bar=False)
    label = dict(zip(texts, vectors, strict=True))
    columns = {"english": [p[0] for p in pairs], "non_english": [p[1] for p in pairs], "label": [label[p[0]] for p in pairs]}
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            seed=seed,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            learning_rate=rate,
            warmup_steps=steps // 10,
            bf16=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        SentenceTransformerTrainer(
            model=student.model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=MSELoss(student.model)
        ).train()
    wait()
    seconds = time.monotonic() - began
    return {"learning_rate": rate, "pairs_seen": steps * BATCH, "seconds": round(seconds, 1), **bench.measure(student)}


def ours(bench: Bench, recipe: Recipe, named: str) -> dict[str, Any]:
    """The same from isogloss: the clock runs from the teacher's first sentence to the last step."""
    student = bench.student()
    bitext = Bitext.of(Pair(source, target, language, "lab", "train") for source, target, language in bench.train)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        session = Distillation(student, bench.teacher, bitext, recipe, folder)
        ready = time.monotonic()
        if recipe.bridge.enabled:
            session.build_bridge()
        bridged = time.monotonic()
        summary = session.train()
    wait()
    seconds = time.monotonic() - began
    stages = {"teacher_and_tokens": ready - began, "bridge": bridged - ready, "training": time.monotonic() - bridged}
    seen = recipe.balance.pairs_per_epoch * recipe.training.epochs
    return {
        "name": named,
        "pairs_seen": seen,
        "seconds": round(seconds, 1),
        "stages": {name: round(value, 1) for name, value in stages.items()},
        "pairs_per_second": round(summary.pairs_per_second),
        **bench.measure(student),
    }


def averaged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The first run with the averages of all in it, and what each of them gave."""
    measures = "seconds", "dev_mse", "tatoeba_14"
    means = {name: round(float(np.mean([run[name] for run in runs])), 4) for name in measures}
    return runs[0] | means | {"runs": [{name: run[name] for name in measures} for run in runs]}


def wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def settings(
    pairs: int,
    batch: int,
    rate: float,
    bridge: bool,
    soft: float,
    group: str = "pair",
    seed: int = SEEDS[0],
    dropout: bool = False,
) -> Recipe:
    return Recipe(
        seed=seed,
        balance=BalanceSettings(scheme="proportional", pairs_per_epoch=pairs, group=group),  # type: ignore[arg-type]
        bridge=BridgeSettings(enabled=bridge),
        losses=LossSettings(soft_similarity=soft),
        training=TrainingSettings(
            epochs=1,
            batch_pairs=batch,
            learning_rate=rate,
            weight_decay=0.0,
            dropout=dropout,
            dev_pairs=0,
            checkpoint_seconds=1e9,
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rates", type=float, nargs="+", default=[2e-5, 2e-4, 5e-4])
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--same-clock-pairs", type=int, default=700_000)
    parser.add_argument("--go-on", action="store_true", help="keep what --out has already")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--most-pairs", type=int, default=10**9)
    parser.add_argument("--out", type=Path, default=RESULTS / "engine_quality.json")
    options = parser.parse_args()
    bench = Bench(options.data, options.device, options.most_pairs)
    found: dict[str, Any] = provenance(SEEDS[0]) | {"seeds": list(options.seeds)}
    found |= {"train_pairs": len(bench.train), "dev_pairs": len(bench.dev)}
    if options.go_on:
        found = json.loads(options.out.read_text())

    def keep(name: str, measured: Callable[[], dict[str, Any]]) -> None:
        if name not in found:
            found[name] = measured()
            print(name, json.dumps(found[name]), flush=True)
            options.out.write_text(json.dumps(found, indent=2) + "\n")

    def same(rate: float, dropout: bool = False) -> dict[str, Any]:
        recipes = [settings(pairs, BATCH, rate, False, 0.0, seed=seed, dropout=dropout) for seed in options.seeds]
        return averaged([ours(bench, recipe, "same recipe") for recipe in recipes])

    def theirs(rate: float) -> dict[str, Any]:
        return averaged([peer(bench, rate, options.steps, seed) for seed in options.seeds])

    pairs, more = options.steps * BATCH, options.same_clock_pairs
    keep("untouched", lambda: bench.measure(bench.student()))
    for rate in options.rates:
        keep(f"isogloss, same pairs, rate {rate:g}", partial(same, rate))
        keep(f"isogloss, same pairs and dropout, rate {rate:g}", partial(same, rate, True))
    bridged = "bridge + soft, same pairs", "as one would use it"
    keep("isogloss, bridge, same pairs", lambda: ours(bench, settings(pairs, BATCH, 4e-4, True, 0.1), bridged[0]))
    keep("isogloss, same clock", lambda: ours(bench, settings(more, 256, 4e-4, True, 0.1), bridged[1]))
    for rate in options.rates:
        keep(f"peer, rate {rate:g}", partial(theirs, rate))


if __name__ == "__main__":
    main()
