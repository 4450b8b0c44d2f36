"""The fast engine for CUDA: a whole training step, from token rows to updated weights, as one recorded graph.

At 64 pairs a step is a few milliseconds of work behind hundreds of launches; recorded once for each bucket of token counts
and replayed, the launches cost nothing. The rest of the speed: sentences are packed, the body computes in bf16 from copies
of single-precision masters (`flat`), the token table only touches rows that the batch reads (`rows`), query, key and value
are one product, and layers are compiled. Nothing is read back until `losses` is asked for.

A bucket's first batch runs eagerly, as a real step, which also warms up what is recorded when its second batch comes.
"""

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isogloss.errors import IsoglossError
from isogloss.kernels.flat_adamw import FlatAdamW, FlatParameters, update
from isogloss.kernels.fused_qkv import fuse, separate
from isogloss.kernels.packed import Packed, hidden_states, packing, pooled
from isogloss.kernels.row_adamw import RowAdamW
from isogloss.losses.combined import CombinedLoss, LossBatch
from isogloss.models.student import Student
from isogloss.training.batches import Batch, cuts_by_tokens
from isogloss.training.engines.base import OptimizerConfig, TokenCount, TrainingInputs
from isogloss.training.engines.fixed_batch import FixedBatch, Shape, fixed
from isogloss.types import FloatArray, IntArray

logger = logging.getLogger(__name__)

TOKENS_MEASURED_AT_ONCE = 65_536
LOGGED_STEPS = 1024  # steps between two readings of the losses, at most
STEEP = 1e-6  # as torch's own clipping has it


@dataclass(slots=True)
class Bench:
    """The fixed inputs of one shape, and its graph once there is one."""

    integers: Tensor
    parts: list[Tensor]
    weight: Tensor
    teacher: Tensor
    seen: int = 0
    graph: "torch.cuda.CUDAGraph | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """A batch in pinned memory, ready to be sent."""

    fixed: FixedBatch
    integers: Tensor
    weight: Tensor
    teacher: Tensor


def load(fixed: FixedBatch, teacher: NDArray[np.float16], pin: bool) -> Loaded:
    """Lay a batch and its teacher rows (one a pair, fewer than `pairs` at the end of an epoch) out for sending."""
    integers = torch.empty(sum(map(len, fixed.integers())), dtype=torch.int32, pin_memory=pin)
    np.concatenate(fixed.integers(), out=integers.numpy())
    rows = torch.zeros((fixed.shape.pairs, teacher.shape[1]), dtype=torch.float16, pin_memory=pin)
    rows.numpy()[: len(teacher)] = teacher
    weight = torch.empty(fixed.shape.pairs, dtype=torch.float32, pin_memory=pin)
    weight.numpy()[:] = fixed.weight
    return Loaded(fixed, integers, weight, rows)


class GraphEngine:
    """Owns the student's weights while it trains them; `close` gives them back in single precision."""

    reads_every = 50
    kind = "captured"

    def __init__(
        self,
        student: Student,
        material: TrainingInputs,
        combined: CombinedLoss,
        descent: OptimizerConfig,
        batch_pairs: int,
        dtype: torch.dtype = torch.bfloat16,
        record: bool = True,
        compiled: bool = True,
    ) -> None:
        self.student, self.material, self.combined, self.descent, self.record = student, material, combined, descent, record
        self.batch_pairs, self.longest = batch_pairs, int(student.model.max_seq_length)
        self.device = student.body.device
        self.benches: dict[Shape, Bench] = {}
        self.step_at = torch.zeros((), dtype=torch.int64, device=self.device)
        self.read_at = 0
        self.names = [*combined.active, "loss", "gradient_norm"]
        self.log = torch.full((LOGGED_STEPS, len(self.names)), torch.nan, device=self.device)
        self.pool = torch.cuda.graph_pool_handle() if record else None
        self.open = ExitStack()
        body = student.body
        body.eval()  # dropout is off: a recorded step has no use for it (see docs/engine.md)
        self.open.enter_context(packing(body))
        if fuse(body):
            self.open.callback(separate, body)
        self._take_weights(dtype)
        self.apply: Callable[..., Any] = self._heads
        self.square_sum: Callable[[Tensor], Tensor] = _square_sum
        if compiled:
            self._compile()

    def _take_weights(self, dtype: torch.dtype) -> None:
        body = self.student.body
        self.table: nn.Embedding = body.get_input_embeddings()
        self.tail = list(self.student.model)[2:]
        mine = [(name, one) for name, one in body.named_parameters() if one is not self.table.weight]
        ends = [(f"{place}.{name}", one) for place, part in enumerate(self.tail) for name, one in part.named_parameters()]
        self.flats = [FlatParameters(mine, dtype)] + ([FlatParameters(ends, torch.float32)] if ends else [])
        for _, parameter in mine + ends:
            parameter.requires_grad_(True)
        self.table.weight.requires_grad_(False)
        plan = self.descent
        self.optimizers = [FlatAdamW(flat, plan.rates, plan.weight_decay) for flat in self.flats]
        self.rows = RowAdamW(self.table.weight.data, plan.rates, plan.weight_decay)
        self.dtype = dtype

    def _compile(self) -> None:
        from isogloss.models.frozen_layers import layers_of

        for layer in layers_of(self.student.body):
            layer.compile(dynamic=True)
        self.open.callback(_forget_compiled, list(layers_of(self.student.body)))
        one_pass = torch.compile(update, dynamic=True)
        for optimizer in self.optimizers:
            optimizer.update = one_pass
        self.apply = torch.compile(self._heads, dynamic=True)
        self.square_sum = torch.compile(_square_sum, dynamic=True)
        self.rows.current = torch.compile(self.rows.current, dynamic=True)  # type: ignore[method-assign]
        self.rows.write = torch.compile(self.rows.write, dynamic=True)  # type: ignore[method-assign]

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, chosen: IntArray) -> Loaded:
        """The chosen pairs in pinned memory."""
        batch = Batch.of(self.material.pairs, chosen)
        laid_out = fixed(batch, self.material.tokens, self.batch_pairs, self.longest)
        if laid_out.rows.max() >= self.table.num_embeddings:
            raise IsoglossError(
                f"a batch reads every row of the {self.table.num_embeddings} that the vocabulary has: no step can be recorded",
                hint='set training.engine = "plain"',
            )
        teacher = self.material.teacher
        rows = np.zeros((0, self.student.dimension), dtype=np.float16) if teacher is None else teacher[batch.group]
        return load(laid_out, rows, pin=self.device.type == "cuda")

    def step(self, loaded: Loaded) -> TokenCount:
        """Take one step; its losses are read later, by `losses`."""
        bench = self._bench(loaded)
        bench.integers.copy_(loaded.integers, non_blocking=True)
        bench.weight.copy_(loaded.weight, non_blocking=True)
        bench.teacher.copy_(loaded.teacher, non_blocking=True)
        bench.seen += 1
        if not self.record:
            self._work(bench, loaded.fixed.shape)
        elif bench.seen == 1:
            self._aside(lambda: self._work(bench, loaded.fixed.shape))
        else:
            if bench.graph is None:
                bench.graph = torch.cuda.CUDAGraph()
                # thread_local: the thread that loads the next batches may ask for pinned memory meanwhile
                with torch.cuda.graph(bench.graph, pool=self.pool, capture_error_mode="thread_local"):
                    self._work(bench, loaded.fixed.shape)
            bench.graph.replay()
        return TokenCount(loaded.fixed.tokens, loaded.fixed.shape.tokens)

    def _bench(self, loaded: Loaded) -> Bench:
        shape = loaded.fixed.shape
        if shape not in self.benches:
            integers = torch.empty(len(loaded.integers), dtype=torch.int32, device=self.device)
            parts = list(torch.split(integers, [len(part) for part in loaded.fixed.integers()]))
            weight, teacher = (
                torch.empty_like(loaded.weight, device=self.device),
                torch.empty_like(loaded.teacher, device=self.device),
            )
            self.benches[shape] = Bench(integers, parts, weight, teacher)
        return self.benches[shape]

    def _aside(self, work: Callable[[], None]) -> None:
        """Run on another stream, as recording wants its first run to be."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            work()
        torch.cuda.current_stream().wait_stream(stream)

    def _work(self, bench: Bench, shape: Shape) -> None:
        rows, token_row, within, sentence, starts, source_at, target_at = bench.parts
        rows, token_row = rows.long(), token_row.long()
        packed = Packed.laid_out(token_row, within.long(), sentence.long(), starts, shape.longest)
        values, *moments = self.rows.current(rows, self.step_at)
        embedded = values.to(self.dtype)[token_row].requires_grad_()
        states = hidden_states(self.student.body, packed, embedded)
        losses = self.apply(states, packed.sentence, packed.starts, source_at, target_at, bench.teacher, bench.weight)
        parameters = [parameter for flat in self.flats for parameter in flat.parameters]
        token_gradient, *gradients = torch.autograd.grad(losses[-1], [embedded, *parameters])
        row_gradient = torch.zeros_like(values).index_add_(0, token_row, token_gradient.float())
        place = 0
        for flat in self.flats:
            flat.gather(gradients[place : place + len(flat.parameters)])
            place += len(flat.parameters)
        squares = [self.square_sum(flat.gradient) for flat in self.flats] + [self.square_sum(row_gradient)]
        norm = torch.stack(squares).sum().sqrt()
        clip = self.descent.clip_norm
        scale = (clip / (norm + STEEP)).clamp(max=1.0) if clip else torch.ones_like(norm)
        for optimizer in self.optimizers:
            optimizer.step(scale, self.step_at)
        self.rows.write(rows, values, (moments[0], moments[1]), row_gradient * scale, self.step_at)
        entry = torch.stack([*(loss.detach().float() for loss in losses), norm])
        self.log.index_copy_(0, (self.step_at % LOGGED_STEPS)[None], entry[None])
        self.step_at += 1

    def _heads(
        self,
        states: Tensor,
        sentence: Tensor,
        starts: Tensor,
        source_at: Tensor,
        target_at: Tensor,
        teacher: Tensor,
        weight: Tensor,
    ) -> list[Tensor]:
        """From token states to losses: pooling, the modules behind it, the losses."""
        vectors = self._sentence_vectors(states, sentence, starts)
        group, target_group = source_at.long(), target_at.long()  # a sentence is encoded once: its place is its number
        views = LossBatch(vectors[group], vectors[target_group], teacher.float(), group, weight, target_group=target_group)
        losses = self.combined(views)
        return [losses[name] for name in self.names[:-1]]

    def _sentence_vectors(self, states: Tensor, sentence: Tensor, starts: Tensor) -> Tensor:
        features = {"sentence_embedding": pooled(states, sentence, starts, self.student.pooling).float()}
        for module in self.tail:
            features = module(features)
        return features["sentence_embedding"]

    # ── between steps ───────────────────────────────────────────────────────────────────────────────────────────────────

    def losses(self) -> list[dict[str, float]]:
        """The losses of every step since this was last asked; waits for the device."""
        done = int(self.step_at)
        wanted = np.arange(max(self.read_at, done - LOGGED_STEPS), done) % LOGGED_STEPS
        self.read_at = done
        read = self.log[torch.from_numpy(wanted).to(self.device)].cpu().tolist()
        return [dict(zip(self.names, one, strict=True)) for one in read]

    def vectors(self, rows: IntArray) -> FloatArray:
        """The student's vectors as it is now, in the precision it trains in."""
        self.settle()
        found = np.empty((len(rows), self.student.dimension), dtype=np.float32)
        lengths = self.material.tokens.lengths_of(rows)
        with torch.no_grad():
            for start, stop in pairwise(cuts_by_tokens(lengths, TOKENS_MEASURED_AT_ONCE)):
                ids, counts = self.material.tokens.gather(rows[start:stop])
                packed = Packed.of(torch.from_numpy(ids).to(self.device).long(), torch.from_numpy(counts).to(self.device))
                states = hidden_states(self.student.body, packed, self.table.weight[packed.ids].to(self.dtype))
                found[start:stop] = self._sentence_vectors(states, packed.sentence, packed.starts).float().cpu().numpy()
        return found

    def settle(self) -> None:
        """Bring the table up to date."""
        self.rows.catch_up(self.step_at)

    def sound(self) -> bool:
        """Whether every weight is finite."""
        weights = [*(flat.master for flat in self.flats), self.table.weight]
        return all(bool(torch.isfinite(one).all()) for one in weights)

    def state(self) -> dict[str, Any]:
        """Masters, moments and the table. A recorded step draws no random numbers."""
        return {
            "step": int(self.step_at),
            "flats": [optimizer.state() for optimizer in self.optimizers],
            "table": self.table.weight.detach(),
            "rows": self.rows.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.step_at.fill_(state["step"])
        self.read_at = int(state["step"])
        for optimizer, kept in zip(self.optimizers, state["flats"], strict=True):
            optimizer.load(kept)
        self.table.weight.data.copy_(state["table"])
        self.rows.load(state["rows"])

    def weights(self) -> dict[str, Any]:
        """The masters and the table, up to date."""
        self.settle()
        return {"flats": [flat.master.cpu().clone() for flat in self.flats], "table": self.table.weight.detach().cpu().clone()}

    def take(self, weights: dict[str, Any]) -> None:
        """Put them in place."""
        for flat, master in zip(self.flats, weights["flats"], strict=True):
            flat.master.copy_(master)
            flat.copy.copy_(flat.master)
        self.table.weight.data.copy_(weights["table"])
        self.rows.at.copy_(self.step_at.expand_as(self.rows.at))  # these rows are as they should be: nothing is due

    def close(self) -> None:
        """Give the weights back: every row of the table up to date, single precision, the body's own modules."""
        self.settle()
        self.benches.clear()
        for flat in self.flats:
            flat.release()
        self.open.close()


def _square_sum(values: Tensor) -> Tensor:
    return values.to(torch.float32).square().sum()


def _forget_compiled(layers: list[nn.Module]) -> None:
    for layer in layers:
        layer._compiled_call_impl = None
