"""Speed of the other tasks: NLI and translation ranking beside sentence-transformers' own trainer, and LASER's step.

    python benchmarks/task_speed.py --tokenizer FOLDER [--model FOLDER] [--pairs pairs.tsv.gz] [--nli nli.tsv.gz]

(a) NLI with SoftmaxLoss, at SBERT's batch of 16 pairs and at 64; (b) translation ranking at 1,024 pairs with
MultipleNegativesRankingLoss in both directions, as ours; (c) LASER's step at lab size (2 layers of 256 each way, decoder of
512, 8,000 pieces, 256 examples), in milliseconds. Both sides of (a) and (b) train the same student with dropout and bf16 on the
same text. The peer is run with 0 and with 4 data loader workers, and the faster run counts. Weights are random (XLM-R-base's
shape) unless `--model` names a folder; speed does not depend on them. Without files the text is made up: words of a fixed list,
lengths as in the shared data. Goes to benchmarks/results/task_speed.json.
"""

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from engine_speed import fresh_student
from provenance import provenance

from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from isogloss.training.batches import PairRows
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import Engine, OptimizerConfig
from isogloss.training.engines.choose import choose_engine
from isogloss.training.engines.eager import EngineConfig
from isogloss.training.tasks.protocol import Task
from isogloss.training.tasks.rank import translation_ranking
from isogloss.training.tasks.schedule import TaskSchedule
from isogloss.training.tasks.sentence_pairs import NLITask, SentencePairs
from isogloss.training.tasks.translate import PIVOT, SECOND, Decoder, DecoderSizes, Examples, Translation
from isogloss.training.trainer import ahead

RESULTS = Path(__file__).with_name("results")
SEED, RATE, TEMPERATURE, COUNTED = 17, 2e-5, 0.05, 2 / 3  # the first third of the steps warms up
Text = tuple[list[str], list[str]]


def made_up(count: int, mean_words: float, seed: int) -> Text:
    """Two columns of sentences of random words, whose lengths are spread as those of real text."""
    random = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, size)) for size in random.integers(2, 9, 5000)]

    def sentence() -> str:
        return " ".join(random.choice(words, max(2, int(random.lognormal(np.log(mean_words), 0.5)))))

    return [sentence() for _ in range(count)], [sentence() for _ in range(count)]


def read(path: Path | None, count: int, mean_words: float, seed: int) -> tuple[list[str], list[str], list[int]]:
    """Two columns of a tab-separated file and labels by its third one, or made-up text and labels."""
    if path is None:
        return *made_up(count, mean_words, seed), np.random.default_rng(seed).integers(0, 3, count).tolist()
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    chosen = [rows[place] for place in np.random.default_rng(seed).permutation(len(rows))[:count]]
    kinds = {name: code for code, name in enumerate(sorted({row[2] for row in chosen}))}
    return [row[0] for row in chosen], [row[1] for row in chosen], [kinds[row[2]] % 3 for row in chosen]


class Bench:
    """What all measurements share: the machine, the student, how many steps."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, options.device

    def student(self) -> Student:
        """The same one each time."""
        torch.manual_seed(0)
        if self.options.model is not None:
            return Student.from_pretrained(str(self.options.model), max_tokens=128, device=self.device)
        return fresh_student(self.options.tokenizer, self.device)

    def wait(self) -> None:
        """Until the device has done its work."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    # ── ours ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def ours(self, model: Student, task: Task, batch: int, bf16: bool = True) -> dict[str, Any]:
        """Steps of a task as `train` takes them, with dropout."""
        steps = self.options.steps
        rates = [RATE] * max(steps, self.options.planned_steps)
        optimizer, config = OptimizerConfig(rates, 0.01, 1.0), EngineConfig(bf16=bf16, dropout=True, batch_sizes=[batch])
        engine: Engine = choose_engine(model, [task], optimizer, config, Distributed())
        schedule = TaskSchedule([len(task)], [batch], SEED, steps=steps)
        first, seen, start = int((1 - COUNTED) * steps), 0, 0.0
        prepared = ahead(lambda step: (len(schedule.examples(step)), engine.prepare(schedule.examples(step))), range(steps))
        for step, (examples, inputs) in enumerate(prepared):
            if step == first:
                self.wait()
                start = time.monotonic()
            engine.step(inputs)
            seen += examples if step >= first else 0
        self.wait()
        took = time.monotonic() - start
        loss = engine.losses()[-1]["loss"]
        engine.close()
        if not np.isfinite(loss):
            raise SystemExit(f"the loss of {task.name} is {loss}")
        return {
            "engine": engine.kind,
            "batch": batch,
            "ms_per_step": 1000 * took / (steps - first),
            "examples_per_second": seen / took,
        }

    # ── the peer ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def peer(self, columns: dict[str, Any], loss_of: Any, batch: int) -> dict[str, Any]:  # noqa: ANN401
        """The faster of the peer's runs, with 0 and with 4 workers."""
        runs = [self._peer(columns, loss_of, batch, workers) for workers in self.options.workers]
        return max(runs, key=lambda run: float(run["examples_per_second"])) | {"runs": runs}

    def _peer(self, columns: dict[str, Any], loss_of: Any, batch: int, workers: int) -> dict[str, Any]:  # noqa: ANN401
        from datasets import Dataset
        from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
        from transformers import TrainerCallback

        stamps: list[float] = []
        bench = self

        class Stamp(TrainerCallback):  # type: ignore[misc]
            def on_step_end(self, *_arguments: Any, **_options: Any) -> None:  # noqa: ANN401
                if len(stamps) in (int((1 - COUNTED) * bench.options.steps), bench.options.steps - 1):
                    bench.wait()  # only where the clock is read: steps in between may overlap
                stamps.append(time.monotonic())

        model = self.student().model
        with tempfile.TemporaryDirectory() as folder:
            arguments = SentenceTransformerTrainingArguments(
                output_dir=folder,
                max_steps=self.options.steps,
                per_device_train_batch_size=batch,
                learning_rate=RATE,
                save_strategy="no",
                report_to="none",
                disable_tqdm=True,
                logging_strategy="no",
                batch_sampler="batch_sampler",  # the fastest of the peer's samplers
                bf16=True,
                use_cpu=self.device == "cpu",
                tf32=True if self.device == "cuda" else None,
                dataloader_num_workers=workers,
                dataloader_persistent_workers=workers > 0,
                seed=SEED,
            )
            dataset, loss = Dataset.from_dict(columns), loss_of(model)
            SentenceTransformerTrainer(
                model=model, args=arguments, train_dataset=dataset, loss=loss, callbacks=[Stamp()]
            ).train()
        first = int((1 - COUNTED) * len(stamps))
        took, counted = stamps[-1] - stamps[first], len(stamps) - 1 - first
        return {
            "batch": batch,
            "loader_workers": workers,
            "ms_per_step": 1000 * took / counted,
            "examples_per_second": counted * batch / took,
        }

    # ── the three measurements ──────────────────────────────────────────────────────────────────────────────────────────

    def nli(self, batch: int) -> dict[str, Any]:
        """SBERT's first stage, by both."""
        from sentence_transformers.sentence_transformer.losses import SoftmaxLoss

        first, second, labels = read(self.options.nli, batch * (self.options.steps + 2), 11, SEED)
        student = self.student()
        task = NLITask(student, SentencePairs.of(student, first, second), np.array(labels, dtype=np.int64), SEED)
        ours = self.ours(student, task, batch)
        columns = {"sentence1": first, "sentence2": second, "label": labels}
        return versus(ours, self.peer(columns, lambda model: SoftmaxLoss(model, model.get_embedding_dimension(), 3), batch))

    def rank(self, batch: int) -> dict[str, Any]:
        """Translation ranking in both directions, by both."""
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        source, target, _ = read(self.options.pairs, batch * (self.options.steps + 2), 9, SEED)
        student = self.student()
        pairs = SentencePairs.of(student, source, target)
        rows = PairRows(pairs.left, pairs.right, 0 * pairs.left, 0 * pairs.left)
        ours = self.ours(student, translation_ranking(pairs.tokens, rows), batch)
        columns = {"anchor": source, "positive": target}
        both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
        return versus(
            ours, self.peer(columns, lambda model: MultipleNegativesRankingLoss(model, scale=1 / TEMPERATURE, **both), batch)
        )

    def laser(self, batch: int) -> dict[str, Any]:
        """Our step alone: the peer has no such task."""
        source, target, _ = read(self.options.pairs, batch * 8, 9, SEED)
        small = self.options.small
        tokenizer = learn_vocabulary(lambda: [source + target], 300 if small else 8000)
        sizes = EncoderSizes(embedding=16, hidden=8, layers=2) if small else EncoderSizes(embedding=128, hidden=256, layers=2)
        student = bilstm_student(tokenizer, sizes, max_tokens=128)
        student.model.to(self.device)
        tokens, count = student.tokenize(source + target), len(source)
        rows = np.arange(count)
        read_rows, written = np.concatenate([rows + count, rows]), np.concatenate([rows, rows + count])
        examples = Examples(read_rows, written, np.repeat([PIVOT, SECOND], count))
        decoder = Decoder(
            len(student.table), student.dimension, 2, 0, DecoderSizes(embedding=sizes.embedding, hidden=16 if small else 512)
        ).to(self.device)
        task = Translation(student, decoder, tokens, examples, int(student.tokenizer.eos_token_id))
        return {precision: self.ours(student, task, batch, bf16=precision == "bf16") for precision in ("float32", "bf16")}


def versus(ours: dict[str, Any], peer: dict[str, Any]) -> dict[str, Any]:
    """Both sides, and how many times faster ours is."""
    faster = ours["examples_per_second"] / peer["examples_per_second"]
    return {"isogloss": ours, "peer": peer, "times_faster": round(faster, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="student to train; random weights of XLM-R-base's shape without it")
    parser.add_argument("--tokenizer", type=Path, help="tokenizer of the random student")
    parser.add_argument("--pairs", type=Path, help="source, translation and language, tab-separated")
    parser.add_argument("--nli", type=Path, help="premise, hypothesis and label, tab-separated")
    parser.add_argument("--nli-batches", type=int, nargs="*", default=[16, 64])
    parser.add_argument("--rank-batches", type=int, nargs="*", default=[1024])
    parser.add_argument("--laser-batches", type=int, nargs="*", default=[256])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--rank-steps", type=int, default=80, help="steps of the ranking runs, whose batches are large")
    parser.add_argument("--planned-steps", type=int, default=10_000, help="length of the training that is sampled")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 4], help="data loader workers of the peer's runs")
    parser.add_argument("--small", action="store_true", help="a tiny LASER, for a smoke test")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, default=RESULTS / "task_speed.json")
    options = parser.parse_args()
    if options.model is None and options.tokenizer is None and (options.nli_batches or options.rank_batches):
        parser.error("name --model, or --tokenizer for a student of random weights")
    bench, found = (
        Bench(options),
        provenance(SEED) | {"steps": options.steps, "rank_steps": options.rank_steps, "nli": [], "rank": [], "laser": []},
    )
    measured = [("nli", size) for size in options.nli_batches] + [("laser", size) for size in options.laser_batches]
    for name, size in [*measured, *(("rank", size) for size in options.rank_batches)]:
        options.steps = options.rank_steps if name == "rank" else options.steps
        found[name].append(getattr(bench, name)(size))
        print(name, json.dumps(found[name][-1]), flush=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
