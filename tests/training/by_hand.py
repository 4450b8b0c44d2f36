"""A small training problem, and the loop anybody would write for it: padded batches, dense AdamW, nothing shared or packed.

Engines are compared with it. It uses the losses and the student's modules, and none of the code that makes steps fast.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isogloss.config import LossSettings, Optimizer
from isogloss.losses.combined import CombinedLoss, LossBatch
from isogloss.models.bridge import Bridge
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.batches import PairRows
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig
from isogloss.training.engines.eager import EagerEngine, EngineConfig, on_device
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.training.tasks.distill import DistillTask, TrainingInputs
from isogloss.training.tasks.protocol import ModelTask, Task, named_losses
from isogloss.types import IntArray
from tiny import PAIRS

DIMENSION = 16
LANGUAGES = sorted({pair.language for pair in PAIRS})
SOURCES = list(dict.fromkeys(pair.source for pair in PAIRS))
SENTENCES = list(dict.fromkeys([*SOURCES, *(pair.target for pair in PAIRS)]))
ALL_THREE = CombinedLoss(LossSettings(mse=1.0, soft_similarity=0.2, ranking=0.1))


def all_pairs() -> PairRows:
    """Every pair of `tiny` as rows of `SENTENCES`; sources come first, as in training data."""
    row = {text: place for place, text in enumerate(SENTENCES)}
    source, target = (np.array([row[getattr(pair, side)] for pair in PAIRS], dtype=np.int64) for side in ("source", "target"))
    return PairRows(source, target, np.zeros_like(source), np.array([LANGUAGES.index(pair.language) for pair in PAIRS]))


def a_student(models: Path, bridged: bool = True) -> Student:
    """The tiny student, with a bridge that nobody solved and unit length; the same one each time."""
    student = Student.from_pretrained(str(models / "student"), max_tokens=32, device="cpu")
    if bridged:
        random = np.random.default_rng(0)
        weight = (random.normal(size=(DIMENSION, student.dimension)) / 6).astype(np.float32)
        student.add_bridge(Bridge(weight, np.zeros(DIMENSION, np.float32), 1.0, {}), normalize=True)
    return student


def unit_teacher(dimension: int = DIMENSION) -> NDArray[np.float16]:
    """A random direction for each source sentence."""
    rows = np.random.default_rng(1).normal(size=(len(SOURCES), dimension))
    directions: NDArray[np.float16] = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float16)
    return directions


def some_material(student: Student, negatives: IntArray | None = None, teacher: bool = True) -> TrainingInputs:
    """All of it in one place."""
    return TrainingInputs(
        student.tokenize(SENTENCES), all_pairs(), unit_teacher(student.dimension) if teacher else None, negatives
    )


def shared_material(student: Student, negatives: IntArray | None = None) -> TrainingInputs:
    """The same with pairs whose translations are few: sources share them, and some are sources of other pairs themselves."""
    pairs = all_pairs()
    number = np.arange(len(pairs))
    target = np.where(number % 5 == 4, pairs.source[(number + 7) % len(pairs)], pairs.target[number % 12])
    material = some_material(student, negatives)
    return TrainingInputs(
        material.tokens, PairRows(pairs.source, target, pairs.corpus, pairs.language), material.teacher, negatives
    )


def some_batches(steps: int, size: int = 8, seed: int = 2) -> list[IntArray]:
    """Pairs of each step, drawn at random; every fourth step has fewer, as the last one of an epoch has."""
    random = np.random.default_rng(seed)
    return [random.choice(len(PAIRS), size - 3 if step % 4 == 3 else size, replace=False) for step in range(steps)]


def an_optimizer(steps: int, peak: float = 5e-3, clip: float = 2.0, optimizer: Optimizer = "adamw") -> OptimizerConfig:
    """Rates that rise and fall, with decay and a clip that bites at some steps and not at others."""
    rates = [peak * min((step + 1) / 3, 1 - step / (2 * steps)) for step in range(steps)]
    return OptimizerConfig(rates, weight_decay=0.1, clip_norm=clip, optimizer=optimizer)


def eager_engine(
    student: Student,
    inputs: TrainingInputs,
    combined: CombinedLoss,
    optimizer: OptimizerConfig,
    config: EngineConfig | None = None,
    shadow: MovingTeacher | None = None,
    distributed: Distributed | None = None,
) -> EagerEngine:
    """The eager engine over one distillation task."""
    return EagerEngine(student, [DistillTask(inputs, combined, shadow)], optimizer, distributed, config)


def task_loss(student: Student, task: Task, chosen: IntArray) -> torch.Tensor:
    """What a task says of a batch: of its sentence vectors, or of the model."""
    if isinstance(task, ModelTask):
        return task.loss(task.prepare(chosen))
    sentence_task: Any = task
    batch = sentence_task.prepare(chosen)
    encoded = student.batch(sentence_task.tokens, batch.rows, None).float()
    vectors = {name: encoded[torch.from_numpy(at)] for name, at in batch.at.items()}
    values = {name: on_device(value, encoded.device) for name, value in batch.values.items()}
    return named_losses(task.name, sentence_task.loss(vectors, values, torch.ones(len(chosen))))["loss"]


def weights_of(student: Student) -> dict[str, torch.Tensor]:
    """Every weight but the pooler's, which is behind no vector."""
    return {name: one.detach().clone() for name, one in student.model.state_dict().items() if ".pooler." not in name}


def learnt(student: Student) -> dict[str, torch.Tensor]:
    """The same without the biases of keys.

    They move all logits of a query alike, which changes nothing: their gradient is rounding, and AdamW makes steps of it.
    """
    return {name: one for name, one in weights_of(student).items() if not name.endswith("key.bias")}


def furthest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    """The largest difference of any weight."""
    assert one.keys() == other.keys()
    return max(float((one[name].float() - other[name].float()).abs().max()) for name in one)


def encode(student: Student, tokens: TokenStore, rows: Sequence[int] | IntArray) -> torch.Tensor:
    """Sentence vectors of one padded batch, each row on its own."""
    longest = max(len(tokens.row(int(row))) for row in rows)
    ids = torch.full((len(rows), longest), tokens.pad_id)
    mask = torch.zeros((len(rows), longest), dtype=torch.int64)
    for place, row in enumerate(rows):
        own = torch.from_numpy(np.array(tokens.row(int(row)), dtype=np.int64))
        ids[place, : len(own)], mask[place, : len(own)] = own, 1
    vectors: torch.Tensor = student.model({"input_ids": ids, "attention_mask": mask})["sentence_embedding"]
    return vectors


def views_by_hand(student: Student, material: TrainingInputs, chosen: IntArray) -> LossBatch:
    """A batch as the losses see it: both sides of each pair encoded, whether or not another pair has them too."""
    pairs, tokens = material.pairs, material.tokens
    source, target = pairs.source[chosen], pairs.target[chosen]
    teacher = None if material.teacher is None else torch.from_numpy(material.teacher[source].astype(np.float32))
    hard: tuple[torch.Tensor | None, torch.Tensor | None] = None, None
    hard_text: torch.Tensor | None = None
    if material.negatives is not None:
        wrong = material.negatives[chosen].ravel()
        hard = encode(student, tokens, pairs.target[wrong]), torch.from_numpy(pairs.source[wrong])
        hard_text = torch.from_numpy(pairs.target[wrong])
    sides = encode(student, tokens, source), encode(student, tokens, target)
    text = torch.from_numpy(target)
    return LossBatch(*sides, teacher, torch.from_numpy(source), None, *hard, target_group=text, negative_target_group=hard_text)


def in_parts(chosen: IntArray, parts: int) -> list[IntArray]:
    """A batch dealt out to as many parts as there are pairs for, in order, the first ones with a pair more than the last."""
    parts = min(parts, len(chosen))
    sizes = [len(chosen) // parts + (number < len(chosen) % parts) for number in range(parts)]
    return [chosen[sum(sizes[:number]) : sum(sizes[: number + 1])] for number in range(parts)]


def losses_by_hand(
    student: Student, material: TrainingInputs, combined: CombinedLoss, chosen: IntArray, parts: int
) -> dict[str, torch.Tensor]:
    """What a batch costs: the mean over its parts' pairs, each part judged as if it were all there is."""
    total: dict[str, torch.Tensor] = {}
    for part in in_parts(chosen, parts):
        for name, loss in combined(views_by_hand(student, material, part)).items():
            total[name] = total.get(name, torch.zeros(())) + loss * len(part) / len(chosen)
    return total


def descend(
    student: Student,
    material: TrainingInputs,
    combined: CombinedLoss,
    optimizer_config: OptimizerConfig,
    batches: list[IntArray],
    parts: int = 1,
) -> list[dict[str, float]]:
    """Train by the plainest loop there is; the values of every step, as an engine gives them."""
    trained = [(name, one) for name, one in student.model.named_parameters() if ".pooler." not in name]
    matrices = {"params": [one for _, one in trained if one.ndim > 1], "weight_decay": optimizer_config.weight_decay}
    vectors = {"params": [one for _, one in trained if one.ndim <= 1], "weight_decay": 0.0}
    optimizer = torch.optim.AdamW([matrices, vectors], lr=1.0)
    student.model.eval()
    values = []
    for rate, chosen in zip(optimizer_config.rates, batches, strict=False):
        losses = losses_by_hand(student, material, combined, chosen, parts)
        optimizer.zero_grad()
        losses["loss"].backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_([one for _, one in trained], optimizer_config.clip_norm or torch.inf)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        values.append({name: float(loss.detach()) for name, loss in losses.items()} | {"gradient_norm": float(norm)})
    return values


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(value, other[name]) for name, value in one.items())
