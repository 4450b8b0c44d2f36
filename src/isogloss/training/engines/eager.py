"""The engine that runs anywhere: autograd, one operation after another, on one process or many.

A step encodes the distinct sentences of its share of the batch, shares the vectors with the other processes, asks the
losses what the whole batch costs, and goes back through its own sentences. With `chunk_pairs` a batch larger than
memory is encoded twice (GradCache, Gao et al. 2021): once without gradients for the loss, then chunk by chunk, each
carrying the loss's gradient of its vectors; the sum is the gradient of the whole batch. With `accumulate` all of this is
done part by part of a batch, and the weights move once: the loss is the mean of the parts' losses by their pairs,

    L = Σ_p |B_p| / |B| · L(B_p)

which is the whole batch's for losses that judge each pair alone; others compare within a part only.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.losses.combined import CombinedLoss, LossBatch
from isogloss.models.frozen_layers import Activations, SplitBody
from isogloss.models.student import Student
from isogloss.training.batches import Batch
from isogloss.training.distributed import Distributed
from isogloss.training.engines.base import OptimizerConfig, TokenCount, TrainingInputs
from isogloss.training.engines.token_table import TableRows, beside, clip_and_move
from isogloss.training.moving_teacher import MovingTeacher
from isogloss.types import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a plain engine may be told: pairs encoded at once (0: all), half precision, dropout, what of it is frozen.

    `remembered` gives what the frozen layers computed; it is asked before the first step, since a training that was
    finished needs none of it. `accumulate` is the number of parts that a batch is gone through in.
    """

    chunk_pairs: int = 0
    bf16: bool = False
    dropout: bool = False
    split: SplitBody | None = None
    remembered: Callable[[], tuple[SplitBody, Activations] | None] = lambda: None
    accumulate: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A process's share of a batch, or of a part of it, and how many pairs the whole of that has."""

    batch: Batch
    teacher: FloatArray | None
    pairs: int
    whole: int


class EagerEngine:
    """Trains a student where it is."""

    reads_every = 1

    def __init__(
        self,
        student: Student,
        material: TrainingInputs,
        combined: CombinedLoss,
        descent: OptimizerConfig,
        distributed: Distributed,
        how: EngineConfig,
        live: MovingTeacher | None = None,
    ) -> None:
        self.student, self.material, self.combined, self.descent = student, material, combined, descent
        self.distributed, self.how, self.live = distributed, how, live
        self.device = student.model.device
        self.shows_sources = set(combined.active) != {"moving_teacher"}  # Ham & Kim's student sees translations alone
        self.step_at, self.seed = 0, torch.initial_seed()
        self._losses: list[dict[str, float]] = []
        split = how.split
        self.parameters = only_trained(student.model, dict(student.trained_parameters(split)))
        # A live teacher follows every row at every step, so none may be left behind.
        alone = split is None and live is None and distributed.size == 1
        self.table = TableRows.of(student, self.parameters, descent) if alone else None
        self.optimizer = beside(self.table, self.parameters, descent)
        distributed.follow([*self.parameters.values(), *(live.state().values() if live is not None else ())])

    @property
    def kind(self) -> str:
        """Names the form of its state."""
        return "plain" if self.table is None else "plain-rows"

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, chosen: IntArray) -> list[Part]:
        """What this process encodes of the chosen pairs, part by part; a batch of fewer pairs than parts has fewer parts."""
        return [self._part(pairs) for pairs in np.array_split(chosen, min(self.how.accumulate, len(chosen)))]

    def _part(self, chosen: IntArray) -> Part:
        mine = self.distributed.share(chosen)
        batch = Batch.of(self.material.pairs, mine, self.material.negatives, sources=self.shows_sources)
        teacher = self.material.teacher
        return Part(batch, None if teacher is None else teacher[batch.group].astype(np.float32), len(mine), len(chosen))

    def step(self, prepared: list[Part]) -> TokenCount:
        """Encode, lose and go back, for one part after another; then move."""
        tokens = self.material.tokens
        self.how.remembered()  # before dropout is on
        ids, lengths = zip(*(tokens.gather(part.batch.rows) for part in prepared), strict=True)
        if self.table is not None:
            self.table.ready(np.concatenate(ids), tokens.pad_id, self.step_at)
        self.student.model.train(self.how.dropout)
        if (
            self.how.dropout and self.distributed.size > 1
        ):  # each drops its own units; a checkpoint holds only the first one's numbers
            torch.manual_seed(hash((self.seed, self.step_at, self.distributed.rank)) % 2**63)
        for parameter in self.parameters.values():
            parameter.grad = None
        values = self._gone_through(prepared)
        if math.isfinite(values["loss"]):  # what is not finite changes nothing; the loop reads it and stops
            values["gradient_norm"] = self._move()
        else:
            values["gradient_norm"] = math.nan
        if self.live is not None:
            self.live.follow(self.student, self.step_at)
        self.step_at += 1
        self._losses.append(values)
        return TokenCount(sum(int(one.sum()) for one in lengths), sum(map(self.student.tokens_computed, lengths)))

    def _gone_through(self, parts: list[Part]) -> dict[str, float]:
        """What the batch costs, its gradient taken: each part counts by its pairs."""
        values: dict[str, float] = {}
        pairs = sum(part.whole for part in parts)
        for part in parts:
            share = part.whole / pairs
            for name, loss in self._backward(part, share).items():
                values[name] = values.get(name, 0.0) + share * float(loss.detach())
        return values

    def _backward(self, part: Part, share: float) -> dict[str, Tensor]:
        """What a part costs; `share` of its gradient is added to what is there."""
        rows, chunk = part.batch.rows, 2 * self.how.chunk_pairs
        if not chunk or len(rows) <= chunk:
            losses = self._losses_of(self._encode(rows), part)
            (share * losses["loss"]).backward()  # type: ignore[no-untyped-call]
            return losses
        chunks = [rows[start : start + chunk] for start in range(0, len(rows), chunk)]
        states, seen = [], []
        with torch.no_grad():
            for some in chunks:
                states.append(random_state())
                seen.append(self._encode(some))
        vectors = torch.cat(seen).requires_grad_()
        losses = self._losses_of(vectors, part)
        (gradient,) = torch.autograd.grad(share * losses["loss"], vectors)
        after = random_state()
        for some, state, push in zip(chunks, states, torch.split(gradient, [len(some) for some in chunks]), strict=True):
            set_random_state(state)  # the same dropout as when the loss was taken
            torch.autograd.backward(self._encode(some), push)
        set_random_state(after)
        return losses

    def _encode(self, rows: IntArray) -> Tensor:
        if not len(rows):  # the last batch of an epoch may have fewer pairs than there are processes
            return torch.zeros((0, self.student.dimension), device=self.device, requires_grad=True)
        with self._precision():
            return self.student.batch(self.material.tokens, rows, self.how.remembered()).float()

    def _precision(self) -> Any:  # noqa: ANN401 - a context
        return torch.autocast(self.device.type, torch.bfloat16) if self.how.bf16 else nullcontext()

    def _losses_of(self, vectors: Tensor, part: Part) -> dict[str, Tensor]:
        """What the whole part costs, from this process's vectors and everybody else's."""
        batch, distributed = part.batch, self.distributed
        each = distributed.largest_share(part.whole)

        def placed(at: IntArray, room: int) -> Tensor:
            return distributed.gathered(vectors[torch.from_numpy(at).to(self.device)], room)

        def told(values: Any) -> Tensor:  # noqa: ANN401 - an array
            return distributed.gathered(torch.as_tensor(values).to(self.device), each)

        teacher = None if part.teacher is None else told(part.teacher)
        live = None
        if self.live is not None:
            with self._precision():
                seen = self.live.vectors(self.material.tokens, batch.group) if part.pairs else vectors.detach()
                live = distributed.gathered(seen, each)
        negatives = negative_group = negative_weight = negative_target_group = None
        if self.material.negatives is not None:  # also where this process has none: the others wait for its rows
            room = each * self.material.negatives.shape[1]
            negatives = placed(batch.negative_at, room)
            negative_weight = distributed.gathered(torch.ones(len(batch.negative_at), device=self.device), room)
            negative_group, negative_target_group = (
                distributed.gathered(torch.from_numpy(numbers).to(self.device), room)
                for numbers in (batch.negative_group, batch.negative_target_group)
            )
        views = LossBatch(
            placed(batch.source_at, each),
            placed(batch.target_at, each),
            teacher,
            told(batch.group),
            told(np.ones(part.pairs, dtype=np.float32)),
            negatives,
            negative_group,
            negative_weight,
            live,
            told(batch.target_group),
            negative_target_group,
        )
        return self.combined(views)

    def _move(self) -> float:
        """Clip the gradients of all processes together and take the step; returns their norm before clipping."""
        if self.distributed.size > 1:
            for one in self.parameters.values():  # what this process's pairs did not touch, others' may have
                one.grad = torch.zeros_like(one) if one.grad is None else one.grad
        gradients = {name: one.grad for name, one in self.parameters.items() if one.grad is not None}
        if self.distributed.size > 1:
            self.distributed.add_up(list(gradients.values()))
        return clip_and_move(gradients, self.table, self.optimizer, self.descent, self.step_at)

    # ── between steps ───────────────────────────────────────────────────────────────────────────────────────────────────

    def losses(self) -> list[dict[str, float]]:
        """What every step since the last call cost."""
        read, self._losses = self._losses, []
        return read

    def vectors(self, rows: IntArray) -> FloatArray:
        """The student's vectors as it is now."""
        self.settle()
        return self.student.vectors_of(self.material.tokens, rows, self.how.remembered())

    def settle(self) -> None:
        """Bring the table up to date."""
        if self.table is not None:
            self.table.settle(self.step_at)

    def sound(self) -> bool:
        """Whether every weight is finite."""
        return all(bool(torch.isfinite(parameter).all()) for parameter in self.parameters.values())

    def state(self) -> dict[str, Any]:
        """Weights, optimizers, the live teacher and the random numbers to come."""
        return {
            "step": self.step_at,
            "parameters": {name: parameter.detach() for name, parameter in self.parameters.items()},
            "optimizer": None if self.optimizer is None else self.optimizer.state_dict(),
            "rows": None if self.table is None else self.table.adam.state(),
            "live": None if self.live is None else self.live.state(),
            "random": random_state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.step_at = int(state["step"])
        self.take(state["parameters"])
        if self.optimizer is not None:
            self.optimizer.load_state_dict(state["optimizer"])
        if self.table is not None:
            self.table.adam.load(state["rows"])
        if self.live is not None:
            self.live.load(state["live"])
        set_random_state(state["random"])

    def weights(self) -> dict[str, Any]:
        """The trained parameters as they would be saved."""
        self.settle()
        return {name: parameter.detach().cpu().clone() for name, parameter in self.parameters.items()}

    def take(self, weights: dict[str, Any]) -> None:
        """Put parameters in place."""
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(weights[name])
        if self.table is not None:
            self.table.taken(self.step_at)

    def close(self) -> None:
        """Bring the table up to date and leave the student as it was found, but for what it learnt."""
        self.settle()
        if self.table is not None:
            self.table.close()
        for parameter in self.parameters.values():
            parameter.grad = None
        self.student.model.eval()


def only_trained(model: nn.Module, trained: dict[str, nn.Parameter]) -> dict[str, nn.Parameter]:
    """Let gradients reach what is trained and nothing else; a pooler is behind no sentence vector."""
    trained = {name: one for name, one in trained.items() if ".pooler." not in f".{name}"}
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for parameter in trained.values():
        parameter.requires_grad_(True)
    return trained


def random_state() -> list[Tensor]:
    """Where torch's random numbers stand, on the CPU and on the card."""
    states = [torch.get_rng_state()]
    return [*states, torch.cuda.get_rng_state()] if torch.cuda.is_available() else states


def set_random_state(states: list[Tensor]) -> None:
    """Let them go on from there."""
    torch.set_rng_state(states[0])
    if len(states) > 1 and torch.cuda.is_available():
        torch.cuda.set_rng_state(states[1])
