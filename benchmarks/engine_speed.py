"""Pairs a second of one GPU: isogloss' engine beside sentence-transformers' own trainer, XLM-R-base's shape, real pairs.

    python benchmarks/engine_speed.py --pairs pairs.tsv.gz --tokenizer xlmr --batches 64 256 1024

`--pairs` has source, translation and language, tab-separated (benchmarks/engine_data.py writes it from the shared data);
`--tokenizer` is a folder with XLM-R's tokenizer. The body has XLM-R-base's shape and random weights: what is measured is
time, and random weights take as long. Both sides see the same pairs at the same batch size, train both terms of the loss
of Reimers & Gurevych against vectors that are there already, and are timed after their own warm-up. The peer is timed in
fp16 and bf16, with its data loader's workers, and its best is kept.
"""

import argparse
import gzip
import json
import math
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from provenance import provenance

from isogloss.config import LossSettings
from isogloss.losses.combined import CombinedLoss
from isogloss.models.loading import quiet_transformers
from isogloss.models.student import Student
from isogloss.training.batches import PairRows
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.fixed_batch import FixedBatch
from isogloss.training.engines.graphs import GraphEngine
from isogloss.training.tasks.distill import DistillTask, TrainingInputs
from isogloss.training.trainer import ahead
from isogloss.types import IntArray

RESULTS = Path(__file__).with_name("results")
WIDTH, LAYERS, HEADS, INNER, VOCABULARY = 768, 12, 12, 3072, 250_002
MAX_TOKENS = 128


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Real pairs: texts, rows, and a made-up teacher vector for each source."""

    texts: list[str]
    pairs: PairRows
    teacher: NDArray[np.float16]


def read_data(path: Path, seed: int) -> Data:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    sources = list(dict.fromkeys(row[0] for row in rows))
    texts = list(dict.fromkeys([*sources, *(row[1] for row in rows)]))
    number = {text: place for place, text in enumerate(texts)}
    languages = {name: code for code, name in enumerate(sorted({row[2] for row in rows}))}
    source, target = (np.array([number[row[side]] for row in rows], dtype=np.int64) for side in (0, 1))
    language = np.array([languages[row[2]] for row in rows], dtype=np.int64)
    teacher = np.random.default_rng(seed).normal(size=(len(sources), WIDTH))
    teacher /= np.linalg.norm(teacher, axis=1, keepdims=True)
    return Data(texts, PairRows(source, target, np.zeros_like(source), language), teacher.astype(np.float16))


def fresh_student(tokenizer: Path, device: str = "cuda") -> Student:
    """XLM-R-base's shape with random weights and mean pooling."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import AutoTokenizer, XLMRobertaConfig, XLMRobertaModel

    torch.manual_seed(0)
    config = XLMRobertaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=514,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        layer_norm_eps=1e-5,
    )
    small = XLMRobertaConfig.from_dict(config.to_dict() | {"num_hidden_layers": 0, "vocab_size": 8})
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        XLMRobertaModel(small).save_pretrained(folder)
        AutoTokenizer.from_pretrained(tokenizer).save_pretrained(folder)
        first = Transformer(folder)
    with torch.device(device):
        first.model = XLMRobertaModel(config, add_pooling_layer=False)
    first.model.config.architectures = ["XLMRobertaModel"]
    model = SentenceTransformer(modules=[first, Pooling(WIDTH, "mean"), Normalize()], device=device)
    model.model_card_data.generate_widget_examples = False
    return Student(model, "xlm-r-base shape", max_tokens=MAX_TOKENS)


# ── ours ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def batches(engine: GraphEngine, data: Data, size: int, grouped: bool, seed: int) -> Iterator[tuple[int, FixedBatch]]:
    """Batches without end, prepared by one thread ahead of the device."""

    def orders() -> Iterator[IntArray]:
        random = np.random.default_rng(seed)
        while True:
            rank = random.permutation(len(data.teacher))[data.pairs.source]
            order = np.argsort(rank, kind="stable") if grouped else random.permutation(len(data.pairs))
            for start in range(0, len(order) - size + 1, size):
                yield order[start : start + size]

    return ahead(engine.prepare, orders())


def ours(data: Data, tokenizer: Path, size: int, grouped: bool, seconds: float, profile: bool) -> dict[str, Any]:
    student = fresh_student(tokenizer)
    tokens = student.tokenize(data.texts)
    torch.cuda.reset_peak_memory_stats()
    engine = GraphEngine(
        student,
        [DistillTask(TrainingInputs(tokens, data.pairs, data.teacher), CombinedLoss(LossSettings()))],
        OptimizerConfig([1e-5] * 100_000, 0.01, 1.0),
        [size],
    )
    began = time.monotonic()
    stream = batches(engine, data, size, grouped, 17)
    shapes = 0
    warm_until = time.monotonic() + seconds
    warmed = 0
    while time.monotonic() < warm_until or warmed < 40:
        engine.step(next(stream))
        warmed += 1
        torch.cuda.synchronize()
    shapes = len(engine.recorder.steps)
    warm = time.monotonic() - began
    steps, useful, padded = 0, 0, 0
    torch.cuda.synchronize()
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in range(max(10, 6400 // size)):
            one = next(stream)
            count = engine.step(one)
            steps += 1
            useful += count.tokens
            padded += count.computed
        torch.cuda.synchronize()
    took = time.monotonic() - start
    losses = engine.losses()
    if profile:
        profiled(engine, stream, size)
    result = {
        "batch": size,
        "grouped": grouped,
        "pairs_per_second": steps * size / took,
        "ms_per_step": 1000 * took / steps,
        "tokens_per_second": useful / took,
        "tokens_per_pair": useful / steps / size,
        "useful_tokens": useful / padded,
        "tflops": useful * flops_per_token() / took / 1e12,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
        "reserved_gib": torch.cuda.memory_reserved() / 2**30,
        "graphs": sum(step.graph is not None for step in engine.recorder.steps.values()),
        "shapes": shapes,
        "warm_up_s": warm,
        "finite": math.isfinite(losses[-1]["loss"]),
    }
    del engine, student, stream
    torch.cuda.empty_cache()
    return result


def flops_per_token() -> float:
    """Multiply-adds of the layers' products, forward and backward, counted as two; attention's own products are left out."""
    return 6.0 * LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER)


def profiled(engine: GraphEngine, stream: Iterator[tuple[int, FixedBatch]], size: int) -> None:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        for _ in range(5):
            engine.step(next(stream))
        torch.cuda.synchronize()
    print(f"── profile at batch {size}, 5 steps")
    print(seen.key_averages().table(sort_by="cuda_time_total", row_limit=45, max_name_column_width=90, header=None))


def matrix_rate() -> float:
    """What this card reaches in one large bf16 product, in TFLOP/s."""
    n = 8192
    left, right = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        left @ right
    torch.cuda.synchronize()
    start = time.monotonic()
    for _ in range(20):
        left @ right
    torch.cuda.synchronize()
    return 20 * 2 * n**3 / (time.monotonic() - start) / 1e12


# ── the peer ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def peer(data: Data, tokenizer: Path, size: int, precision: str, steps: int, workers: int = 0) -> dict[str, Any]:
    """sentence-transformers' trainer with MSELoss, one column a side, the teacher's vectors as labels."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MSELoss
    from transformers import TrainerCallback

    student = fresh_student(tokenizer)
    model = student.model
    chosen = np.random.default_rng(17).permutation(len(data.pairs))[: size * (steps + 20)]
    columns = {
        "english": [data.texts[row] for row in data.pairs.source[chosen]],
        "non_english": [data.texts[row] for row in data.pairs.target[chosen]],
        "label": [data.teacher[row].astype(np.float32) for row in data.pairs.source[chosen]],
    }
    dataset = Dataset.from_dict(columns)
    stamps: list[float] = []

    class Stamp(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_arguments: Any, **_options: Any) -> None:  # noqa: ANN401
            torch.cuda.synchronize()
            stamps.append(time.monotonic())

    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=min(steps, len(chosen) // size),
            per_device_train_batch_size=size,
            learning_rate=2e-5,
            warmup_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            fp16=precision == "fp16",
            bf16=precision == "bf16",
            tf32=torch.cuda.is_available(),
            dataloader_num_workers=workers,
            dataloader_persistent_workers=workers > 0,
        )
        trainer = SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=dataset, loss=MSELoss(model), callbacks=[Stamp()]
        )
        trainer.train()
    half = len(stamps) // 3  # the first third warms up
    took, counted = stamps[-1] - stamps[half], len(stamps) - 1 - half
    result = {
        "batch": size,
        "precision": precision,
        "loader_workers": workers,
        "pairs_per_second": counted * size / took,
        "ms_per_step": 1000 * took / counted,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30,
    }
    del trainer, model, student
    torch.cuda.empty_cache()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--batches", type=int, nargs="*", default=[64, 256, 1024])
    parser.add_argument("--peer-batches", type=int, nargs="*", default=[64, 256, 1024])
    ways = [("bf16", "0"), ("fp16", "0"), ("bf16", "4")]  # precision and workers of its data loader
    parser.add_argument("--peer-ways", type=lambda way: tuple(way.split(":")), nargs="+", default=ways)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--both-groupings", action="store_true", help="also with all translations of a source together")
    parser.add_argument("--out", type=Path, default=RESULTS / "engine_speed.json")
    options = parser.parse_args()
    data = read_data(options.pairs, 17)
    found: dict[str, Any] = provenance(17) | {"matrix_tflops": matrix_rate(), "isogloss": [], "peer": []}
    print("matrix rate", round(found["matrix_tflops"]))
    for size in options.batches:
        for grouped in (False, True) if options.both_groupings else (False,):
            found["isogloss"].append(
                ours(data, options.tokenizer, size, grouped, options.seconds, options.profile and not grouped)
            )
            print(json.dumps(found["isogloss"][-1]), flush=True)
            options.out.write_text(json.dumps(found, indent=2) + "\n")
    for size in options.peer_batches:
        for precision, workers in options.peer_ways:
            steps = max(18, min(60, 12_000 // size))
            found["peer"].append(peer(data, options.tokenizer, size, precision, steps, int(workers)))
            print(json.dumps(found["peer"][-1]), flush=True)
            options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
