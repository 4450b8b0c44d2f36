"""Pairs a second of two CPU cores: isogloss' engine beside sentence-transformers' own trainer, multilingual-e5-small.

    python benchmarks/train_cpu.py --pairs pairs.tsv.gz

`--pairs` has source, translation and language, tab-separated (benchmarks/engine_data.py writes it from the shared data).
Both sides train the whole model (12 layers, 384 wide, all 250,037 rows of the token table) with the loss of Reimers & Gurevych
on the same real pairs of fourteen languages, in the same batches of 64, against vectors that are there already: in single
precision and in bf16, the peer in bf16 with torch's attention (its default) and with transformers' own. They take turns, round
after round; the first steps of each turn are not counted, and what counts is the median round. `best` compares each side's
fastest. Dropout is off on both sides, which saves the peer some work: so both can be held to the same weights, and the vectors
of both after the same steps have to agree to 1e-4 in single precision; in bf16 the lowest cosine to those is recorded. Goes to
benchmarks/results/train_cpu.json. With 10 steps and 3 rounds it takes about 12 minutes on two quiet cores.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from encode_cpu import PROMPT
from numpy.typing import NDArray
from provenance import provenance

from isogloss.config import LossSettings
from isogloss.losses.combined import CombinedLoss
from isogloss.models.student import Student
from isogloss.training.batches import PairRows
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.eager import EagerEngine, EngineConfig
from isogloss.training.tasks.distill import DistillTask, TrainingInputs
from isogloss.types import FloatArray

RESULTS = Path(__file__).with_name("results")
MODEL, BATCH, RATE, WARM, LIMIT = "multilingual-e5-small", 64, 2e-5, 2, 1e-4


class Data:
    """Real pairs of many languages, drawn at random, and a made-up unit vector for each source."""

    def __init__(self, path: Path, count: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        self.pairs = [tuple(rows[place][:2]) for place in random.permutation(len(rows))[:count]]
        sources = list(dict.fromkeys(source for source, _ in self.pairs))
        self.texts = list(dict.fromkeys([*sources, *(target for _, target in self.pairs)]))
        number = {text: place for place, text in enumerate(self.texts)}
        source, target = (np.array([number[pair[side]] for pair in self.pairs], dtype=np.int64) for side in (0, 1))
        self.rows = PairRows(source, target, np.zeros_like(source), np.zeros_like(source))
        vectors = random.normal(size=(len(sources), 384))
        self.teacher: NDArray[np.float16] = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)


def fresh_student() -> Student:
    student = Student.from_pretrained(MODEL, PROMPT, device="cpu")
    student.add_normalization()
    for part in student.model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    return student


def ours(data: Data, steps: int, bf16: bool) -> tuple[dict[str, Any], Student]:
    student = fresh_student()
    material = TrainingInputs(student.tokenize(data.texts), data.rows, data.teacher)
    task, optimizer = DistillTask(material, CombinedLoss(LossSettings())), OptimizerConfig([RATE] * steps, 0.0, 1.0)
    engine = EagerEngine(student, [task], optimizer, config=EngineConfig(bf16=bf16))
    stamps, useful, computed = [], 0, 0
    for step in range(steps):
        load = engine.step(engine.prepare(np.arange(step * BATCH, (step + 1) * BATCH)))
        useful, computed = useful + load.tokens, computed + load.computed
        stamps.append(time.perf_counter())
    engine.close()
    return {"pairs_per_second": rate(stamps), "useful_tokens": round(useful / computed, 3)}, student


def peer(data: Data, steps: int, bf16: bool, attention: str = "sdpa") -> tuple[dict[str, Any], Student]:
    """sentence-transformers' trainer with MSELoss, one column a side, the teacher's vectors as labels."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer.losses import MSELoss
    from transformers import TrainerCallback

    class InOrder(DefaultBatchSampler):  # type: ignore[misc]
        """The batches that isogloss takes."""

        def __iter__(self) -> Iterator[list[int]]:
            return iter([list(range(step * BATCH, (step + 1) * BATCH)) for step in range(steps)])

    stamps: list[float] = []

    class AsSum(MSELoss):  # type: ignore[misc]
        """The paper's loss is a sum over dimensions and both sides, the peer's a mean: Adam's epsilon tells them apart."""

        def forward(self, *arguments: Any) -> torch.Tensor:  # noqa: ANN401
            loss: torch.Tensor = 2 * data.teacher.shape[1] * super().forward(*arguments)
            return loss

    class Stamp(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_arguments: Any, **_options: Any) -> None:  # noqa: ANN401
            stamps.append(time.perf_counter())

    student = fresh_student()
    student.body.set_attn_implementation(attention)
    columns = {
        "english": [pair[0] for pair in data.pairs],
        "non_english": [pair[1] for pair in data.pairs],
        "label": [data.teacher[row].astype(np.float32) for row in data.rows.source],
    }
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            lr_scheduler_type="constant",
            weight_decay=0.0,
            batch_sampler=InOrder,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
            bf16=bf16,
            prompts=PROMPT,
        )
        model = student.model
        SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=Dataset.from_dict(columns), loss=AsSum(model), callbacks=[Stamp()]
        ).train()
    model.eval()
    return {"pairs_per_second": rate(stamps)}, student


WAYS: dict[str, Callable[[Data, int], tuple[dict[str, Any], Student]]] = {
    "isogloss": partial(ours, bf16=False),
    "isogloss bf16": partial(ours, bf16=True),
    "peer": partial(peer, bf16=False),
    "peer bf16": partial(peer, bf16=True),
    "peer bf16, own attention": partial(peer, bf16=True, attention="eager"),
}


def rate(stamps: list[float]) -> float:
    return round((len(stamps) - WARM) * BATCH / (stamps[-1] - stamps[WARM - 1]), 2)


def vectors(student: Student, data: Data) -> FloatArray:
    found: FloatArray = student.model.encode(data.texts[:64], show_progress_bar=False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", choices=["isogloss", "peer"])
    parser.add_argument("--out", type=Path, default=RESULTS / "train_cpu.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    data = Data(options.pairs, options.steps * BATCH, 17)
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in WAYS if name.startswith(options.only or "")}
    given: dict[str, FloatArray] = {}
    for _ in range(options.rounds):
        for name in taken:
            found, student = WAYS[name](data, options.steps)
            taken[name].append(found)
            given[name] = vectors(student, data)
            print(name, json.dumps(found), flush=True)
    if options.only:
        return
    middle = {name: median(one["pairs_per_second"] for one in found) for name, found in taken.items()}
    apart = float(np.abs(given["isogloss"] - given["peer"]).max())
    moved = float(np.abs(given["isogloss"] - vectors(fresh_student(), data)).max())
    half = {side: max(middle[name] for name in WAYS if name.startswith(f"{side} bf16")) for side in ("isogloss", "peer")}
    fastest = {side: max(middle[side], half[side]) for side in half}
    written = provenance(17) | {
        "batch": BATCH,
        "steps": options.steps,
        "pairs_per_second": {side: middle[side] for side in half},
        "times_faster": round(middle["isogloss"] / middle["peer"], 2),
        "largest_difference": apart,
        "limit": LIMIT,
        "largest_movement": moved,
        "rounds": taken,
        "bf16_pairs_per_second": half,
        "bf16_lowest_cosine": float((given["isogloss"] * given["isogloss bf16"]).sum(axis=1).min()),
        "best": fastest | {"times_faster": round(fastest["isogloss"] / fastest["peer"], 2)},
    }
    print(json.dumps({name: value for name, value in written.items() if name not in ("rounds", "versions", "hardware")}))
    options.out.write_text(json.dumps(written, indent=2) + "\n")
    if apart > LIMIT:
        raise SystemExit("the trained students differ")


if __name__ == "__main__":
    main()
