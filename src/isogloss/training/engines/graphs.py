"""The fast engine for CUDA: a whole training step of a sentence task, from token rows to updated weights, as one graph.

At 64 pairs a step is a few milliseconds of work and hundreds of launches. Recorded once for each task and bucket of token
counts and replayed, launches cost nothing. Sentences are packed, the body computes in bf16 from copies of single-precision
masters (`flat_adamw`), only token rows that the batch reads are updated (`row_adamw`), query, key and value are one
product, and layers are compiled. Nothing is read back until `losses` is called.

A bucket's first batch runs eagerly, as a real step and as the warm-up of a recording; the second is recorded. With
`record=False` every step runs eagerly: that is how the arithmetic is tested without a GPU.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.errors import IsoglossError
from isogloss.kernels.flat_adamw import FlatAdamW, FlatParameters, update
from isogloss.kernels.fused_qkv import fuse, separate
from isogloss.kernels.packed import Packed, hidden_states, never_pads, packing, pooled
from isogloss.kernels.row_adamw import RowAdamW
from isogloss.models.student import Student
from isogloss.models.token_store import TokenStore
from isogloss.training.batches import cuts_by_tokens
from isogloss.training.engines.base import OptimizerConfig, TokenCount, random_state, set_random_state
from isogloss.training.engines.eager import split_by_task, task_offsets
from isogloss.training.engines.fixed_batch import FixedBatch, Layout, Shape, fixed, split_integers
from isogloss.training.tasks.protocol import SentenceTask, named_losses
from isogloss.types import FloatArray, IntArray

TOKENS_MEASURED_AT_ONCE = 65_536
LOGGED_STEPS, LOGGED_VALUES = 1024, 16  # at most: steps between two readings of the losses, and values of a step
TINY = 1e-6  # as in torch's own clipping
LONGEST_STEP = 32  # tokens; attention that pads sentences pads to the longest of the batch, rounded up to this


class StepLog:
    """The losses of recent steps, on the device until they are read; their names are on the host."""

    def __init__(self, device: torch.device) -> None:
        self.values = torch.full((LOGGED_STEPS, LOGGED_VALUES), torch.nan, device=device)
        self.names: list[list[str]] = []  # of the steps since the last reading
        self.read_at = 0

    def write(self, losses: dict[str, Tensor], step: Tensor) -> list[str]:
        """Store the losses of a step; returns their names."""
        entry = self.values.new_full((LOGGED_VALUES,), torch.nan)
        entry[: len(losses)] = torch.stack([loss.detach().float() for loss in losses.values()])
        self.values.index_copy_(0, (step % LOGGED_STEPS)[None], entry[None])
        return list(losses)

    def read(self, done: int) -> list[dict[str, float]]:
        """The losses of the steps since the last reading, `LOGGED_STEPS` at most."""
        first = max(self.read_at, done - LOGGED_STEPS)
        names, self.names, self.read_at = self.names[len(self.names) - (done - first) :], [], done
        wanted = torch.from_numpy(np.arange(first, done) % LOGGED_STEPS).to(self.values.device)
        rows = self.values[wanted].cpu().tolist()
        return [dict(zip(named, row, strict=False)) for named, row in zip(names, rows, strict=True)]


@dataclass(slots=True)
class RecordedStep:
    """The fixed inputs of one shape, its graph once it is recorded, and the names of its losses once it has run."""

    inputs: dict[str, Tensor]
    graph: "torch.cuda.CUDAGraph | None" = None
    names: list[str] = field(default_factory=list)


class Recorder:
    """Runs the work of a step: first eagerly, then recorded, then replayed; its losses go to `log`."""

    def __init__(self, device: torch.device, record: bool) -> None:
        self.device, self.record, self.log = device, record, StepLog(device)
        self.pool = torch.cuda.graph_pool_handle() if record else None
        self.steps: dict[Any, RecordedStep] = {}

    def run(self, key: Any, tensors: dict[str, Tensor], work: Callable[[dict[str, Tensor]], list[str]]) -> None:  # noqa: ANN401
        """Take one step over `tensors`; `key` names the work and its shapes. `work` returns the names of the losses."""
        if key not in self.steps:
            inputs = {name: torch.empty_like(value, device=self.device) for name, value in tensors.items()}
            self.steps[key] = RecordedStep(inputs)
        step = self.steps[key]
        for name, value in tensors.items():
            step.inputs[name].copy_(value, non_blocking=True)
        if not self.record:
            step.names = work(step.inputs)
        elif not step.names:  # recording needs a first run on another stream
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                step.names = work(step.inputs)
            torch.cuda.current_stream().wait_stream(stream)
        else:
            if step.graph is None:
                step.graph = torch.cuda.CUDAGraph()
                # thread_local: the thread that prepares the next batches may ask for pinned memory meanwhile
                with torch.cuda.graph(step.graph, pool=self.pool, capture_error_mode="thread_local"):
                    work(step.inputs)
            step.graph.replay()
        self.log.names.append(step.names)


class GraphEngine:
    """Trains a student by sentence tasks, a graph per task and shape; `batch_sizes` are the examples of each task's batch.

    While it trains, `student.vectors_of` computes with its weights, so that dev sets can measure with the student.
    """

    reads_every = 50
    kind = "graphs"

    def __init__(
        self,
        student: Student,
        tasks: Sequence[SentenceTask],
        optimizer: OptimizerConfig,
        batch_sizes: Sequence[int],
        dtype: torch.dtype = torch.bfloat16,
        *,
        dropout: bool = False,
        record: bool = True,
        compiled: bool = True,
    ) -> None:
        self.student, self.tasks, self.optimizer_config, self.batch_sizes = student, list(tasks), optimizer, list(batch_sizes)
        self.dropout, self.dtype, self.longest = dropout, dtype, int(student.model.max_seq_length)
        self.device, self.offsets = student.body.device, task_offsets(tasks)
        self.pads = dropout and not never_pads(student.body, self.longest)
        self.step_at = torch.zeros((), dtype=torch.int64, device=self.device)
        self.recorder = Recorder(self.device, record)
        self.open = ExitStack()
        self.open.enter_context(packing(student.body))
        if fuse(student.body):
            self.open.callback(separate, student.body)
        self._take_weights()
        student.vectors_of = self._vectors_of  # type: ignore[method-assign]
        self.open.callback(delattr, student, "vectors_of")
        self.losses_of = [self._losses_of(task) for task in self.tasks]
        self.square_sum: Callable[[Tensor], Tensor] = _square_sum
        if compiled:
            self._compile()

    def _take_weights(self) -> None:
        body = self.student.body
        self.table: nn.Embedding = body.get_input_embeddings()
        self.tail = list(self.student.model)[2:]
        heads = {id(task.head): task.head for task in self.tasks if task.head is not None}
        self.modules: list[nn.Module] = [body, *self.tail, *heads.values()]
        inside = [(name, parameter) for name, parameter in body.named_parameters() if parameter is not self.table.weight]
        behind = [(f"{place}.{name}", p) for place, part in enumerate(self.tail) for name, p in part.named_parameters()]
        of_head = [list(head.named_parameters()) for head in heads.values()]
        groups = [(inside, self.dtype), *((named, torch.float32) for named in (behind, *of_head))]
        self.flats = [FlatParameters(named, dtype) for named, dtype in groups if named]
        for parameter in (parameter for flat in self.flats for parameter in flat.parameters):
            parameter.requires_grad_(True)
        self.table.weight.requires_grad_(False)
        config = self.optimizer_config
        self.optimizers = [FlatAdamW(flat, config.rates, config.weight_decay) for flat in self.flats]
        shared = self.optimizers[: len(self.optimizers) - len(heads)]
        own = dict(zip(heads, self.optimizers[len(shared) :], strict=True))
        # A head moves only in the steps of its task.
        self.moved_by = [[*shared, *([own[id(task.head)]] if task.head is not None else [])] for task in self.tasks]
        self.rows = RowAdamW(self.table.weight.data, config.rates, config.weight_decay)
        self._set_mode(self.dropout)

    def _set_mode(self, training: bool) -> None:
        for module in self.modules:
            module.train(training)

    def _compile(self) -> None:
        from isogloss.models.frozen_layers import layers_of

        layers = list(layers_of(self.student.body))
        for layer in layers:
            layer.compile(dynamic=True)
        self.open.callback(_forget_compiled, layers)
        one_pass = torch.compile(update, dynamic=True)
        for optimizer in self.optimizers:
            optimizer.update = one_pass
        self.losses_of = [torch.compile(losses_of, dynamic=True) for losses_of in self.losses_of]
        self.square_sum = torch.compile(_square_sum, dynamic=True)
        self.rows.current = torch.compile(self.rows.current, dynamic=True)  # type: ignore[method-assign]
        self.rows.write = torch.compile(self.rows.write, dynamic=True)  # type: ignore[method-assign]

    # ── one step ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, chosen: IntArray) -> tuple[int, FixedBatch]:
        """The chosen examples, all of one task, in pinned memory."""
        ((number, examples),) = split_by_task(chosen, self.offsets)
        task = self.tasks[number]
        batch, longest = task.prepare(examples), self.longest
        if self.pads:
            longest = min(longest, -(-int(task.tokens.lengths_of(batch.rows).max()) // LONGEST_STEP) * LONGEST_STEP)
        laid_out = fixed(batch, task.tokens, self.batch_sizes[number], longest, pin=self.device.type == "cuda")
        if int(laid_out.named_integers()["rows"].max()) >= self.table.num_embeddings:
            raise IsoglossError(
                f"a batch reads every row of the {self.table.num_embeddings} that the vocabulary has: no step can be recorded",
                hint='set training.engine = "eager"',
            )
        return number, laid_out

    def step(self, prepared: tuple[int, FixedBatch]) -> TokenCount:
        """Take one step; its losses are read later, by `losses`."""
        number, batch = prepared
        tensors = {**batch.floats, "integers": batch.integers}
        work = partial(self._work, number, batch.layout, batch.shape)
        self.recorder.run((number, batch.shape), tensors, work)
        return TokenCount(batch.tokens, batch.shape.tokens)

    def _work(self, number: int, layout: Layout, shape: Shape, inputs: dict[str, Tensor]) -> list[str]:
        integers = split_integers(inputs["integers"], layout)
        rows, token_row = integers["rows"].long(), integers["token_row"].long()
        within, sentence = integers["within"].long(), integers["sentence"].long()
        packed = Packed.laid_out(token_row, within, sentence, integers["starts"], shape.longest)
        values, *moments = self.rows.current(rows, self.step_at)
        embedded = values.to(self.dtype)[token_row].requires_grad_()
        states = hidden_states(self.student.body, packed, embedded)
        at = {name.removeprefix("at."): part.long() for name, part in integers.items() if name.startswith("at.")}
        given = {name: part.long() for name, part in integers.items() if name.startswith("value.")}
        given |= {name: part.float() for name, part in inputs.items() if name.startswith("value.")}
        given = {name.removeprefix("value."): part for name, part in given.items()}
        losses = self.losses_of[number](states, packed.sentence, packed.starts, at, given, inputs["weight"])
        moved = self.moved_by[number]
        parameters = [parameter for optimizer in moved for parameter in optimizer.flat.parameters]
        token_gradient, *gradients = torch.autograd.grad(losses["loss"], [embedded, *parameters])
        row_gradient = torch.zeros_like(values).index_add_(0, token_row, token_gradient.float())
        place = 0
        for optimizer in moved:
            optimizer.flat.gather(gradients[place : place + len(optimizer.flat.parameters)])
            place += len(optimizer.flat.parameters)
        squares = [self.square_sum(optimizer.flat.gradient) for optimizer in moved] + [self.square_sum(row_gradient)]
        norm = torch.stack(squares).sum().sqrt()
        clip = self.optimizer_config.clip_norm
        scale = (clip / (norm + TINY)).clamp(max=1.0) if clip else torch.ones_like(norm)
        for optimizer in moved:
            optimizer.step(scale, self.step_at)
        self.rows.write(rows, values, (moments[0], moments[1]), row_gradient * scale, self.step_at)
        names = self.recorder.log.write({**losses, "gradient_norm": norm}, self.step_at)
        self.step_at += 1
        return names

    def _losses_of(self, task: SentenceTask) -> Callable[..., dict[str, Tensor]]:
        """From token states to a task's losses: pooling, the modules behind it, the task."""

        def losses_of(
            states: Tensor,
            sentence: Tensor,
            starts: Tensor,
            at: dict[str, Tensor],
            values: dict[str, Tensor],
            weight: Tensor,
        ) -> dict[str, Tensor]:
            encoded = self._sentence_vectors(states, sentence, starts)
            vectors = {name: encoded[places] for name, places in at.items()}
            return named_losses(task.name, task.loss(vectors, values, weight))

        return losses_of

    def _sentence_vectors(self, states: Tensor, sentence: Tensor, starts: Tensor) -> Tensor:
        features = {"sentence_embedding": pooled(states, sentence, starts, self.student.pooling).float()}
        for module in self.tail:
            features = module(features)
        return features["sentence_embedding"]

    # ── between steps ───────────────────────────────────────────────────────────────────────────────────────────────────

    def losses(self) -> list[dict[str, float]]:
        """The losses of every step since the last call; waits for the device."""
        return self.recorder.log.read(int(self.step_at))

    def _vectors_of(self, tokens: TokenStore, rows: IntArray | None = None, *_others: Any, **_options: Any) -> FloatArray:  # noqa: ANN401
        """The student's vectors as it is now, in the precision it trains in."""
        self.synchronize()
        self._set_mode(False)
        rows = np.arange(len(tokens)) if rows is None else np.asarray(rows)
        found = np.empty((len(rows), self.student.dimension), dtype=np.float32)
        with torch.no_grad():
            for start, stop in pairwise(cuts_by_tokens(tokens.lengths_of(rows), TOKENS_MEASURED_AT_ONCE)):
                ids, counts = tokens.gather(rows[start:stop])
                packed = Packed.of(torch.from_numpy(ids).to(self.device).long(), torch.from_numpy(counts).to(self.device))
                states = hidden_states(self.student.body, packed, self.table.weight[packed.ids].to(self.dtype))
                found[start:stop] = self._sentence_vectors(states, packed.sentence, packed.starts).float().cpu().numpy()
        self._set_mode(self.dropout)
        return found

    def synchronize(self) -> None:
        """Bring the token table up to date."""
        self.rows.catch_up(self.step_at)

    def is_finite(self) -> bool:
        """Whether every weight is finite."""
        weights = [*(flat.master for flat in self.flats), self.table.weight]
        return all(bool(torch.isfinite(values).all()) for values in weights)

    def state_dict(self) -> dict[str, Any]:
        """Masters, moments, the table, and the state of random numbers."""
        return {
            "step": int(self.step_at),
            "flats": [optimizer.state_dict() for optimizer in self.optimizers],
            "table": self.table.weight.detach(),
            "rows": self.rows.state_dict(),
            "random": random_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self.step_at.fill_(state["step"])
        self.recorder.log.read_at = int(state["step"])
        for optimizer, kept in zip(self.optimizers, state["flats"], strict=True):
            optimizer.load_state_dict(kept)
        self.table.weight.data.copy_(state["table"])
        self.rows.load_state_dict(state["rows"])
        set_random_state(state["random"])

    def weights(self) -> dict[str, Any]:
        """The masters and the table, up to date."""
        self.synchronize()
        return {"flats": [flat.master.cpu().clone() for flat in self.flats], "table": self.table.weight.detach().cpu().clone()}

    def load_weights(self, weights: dict[str, Any]) -> None:
        """Put masters and table in place."""
        for flat, master in zip(self.flats, weights["flats"], strict=True):
            flat.master.copy_(master)
            flat.copy.copy_(flat.master)
        self.table.weight.data.copy_(weights["table"])
        self.rows.at.copy_(self.step_at.expand_as(self.rows.at))  # no update is due for these rows

    def close(self) -> None:
        """Give the weights back: every row of the table up to date, single precision, the body's own modules."""
        self.synchronize()
        self.recorder.steps.clear()
        for flat in self.flats:
            flat.release()
        self._set_mode(False)
        self.open.close()


def _square_sum(values: Tensor) -> Tensor:
    return values.to(torch.float32).square().sum()


def _forget_compiled(layers: list[nn.Module]) -> None:
    for layer in layers:
        layer._compiled_call_impl = None
