"""Train the upper layers on stored outputs of the frozen lower ones.

Frozen layers give the same output in every epoch, so it is computed once and stored on disk. In training, one module that
returns the stored output replaces the lower layers.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isogloss.amounts import amount
from isogloss.checksums import load_array, save_array
from isogloss.errors import ModelError
from isogloss.kernels.packed import STRANGE, Packed, Way, first_position, runs_of
from isogloss.kernels.postnorm import post_norm
from isogloss.models.fast_encode import alike, core_pool
from isogloss.models.token_store import TokenStore, by_length, spread_by_length
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import make_folder, refuse_small_disk
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENS_AT_ONCE, TOKENS_PER_CORE = 2048, 512  # in one forward pass: padded, and without padding
SAMPLE = 5  # sentences that computing without padding is tried on
OPEN_PARTS = 256
PART_SENTENCES = 512  # a few seconds of work on a CPU


def layers_of(body: "PreTrainedModel") -> nn.ModuleList:
    """The transformer's layers: the longest module list in it."""
    lists = [module for module in body.modules() if isinstance(module, nn.ModuleList) and len(module)]
    if not lists:
        raise ModelError(f"{type(body).__name__} has no list of layers", hint="set training.train_layers = 0")
    return max(lists, key=len)


class _StoredOutput(nn.Module):
    """Replaces the lower layers and returns their stored output, as a tuple if they did."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: Tensor | None = None
        self.as_tuple = False

    def forward(self, *_args: Any, **_kwargs: Any) -> Any:  # noqa: ANN401 - called like the layers it replaces
        return (self.hidden,) if self.as_tuple else self.hidden


class SplitBody:
    """A transformer split below its upper `train_layers` layers: `lower` computes what is stored, `upper` continues from it."""

    def __init__(self, body: "PreTrainedModel", train_layers: int) -> None:
        self.body, self.stack = body, layers_of(body)
        self.layers = list(self.stack)
        if not 0 < train_layers < len(self.layers):
            choice = {1: "", 2: "1, or "}.get(len(self.layers), f"1 to {len(self.layers) - 1}, or ")
            raise ModelError(
                f"training.train_layers = {train_layers}, but the student has {amount(len(self.layers), 'layer')}",
                hint=f"set it to {choice}0 to train everything",
            )
        self.cut = len(self.layers) - train_layers
        self.stored = _StoredOutput()

    def lower(self, features: dict[str, Tensor]) -> Tensor:
        """Output of the last frozen layer: batch × tokens × hidden size."""
        caught: list[Any] = []
        hook = self.layers[self.cut - 1].register_forward_hook(lambda _module, _inputs, output: caught.append(output))
        device = self.body.device
        try:
            with torch.inference_mode(), self._stacked(self.layers[: self.cut]):
                self.body(**{name: value.to(device) for name, value in features.items()})
        finally:
            hook.remove()
        self.stored.as_tuple = isinstance(caught[0], tuple)
        hidden: Tensor = caught[0][0] if self.stored.as_tuple else caught[0]
        return hidden

    @contextmanager
    def upper(self, hidden: Tensor) -> Iterator[None]:
        """Inside this block the transformer skips its lower layers and continues from `hidden`."""
        self.stored.hidden = hidden
        try:
            with self._stacked([self.stored, *self.layers[self.cut :]]):
                yield
        finally:
            self.stored.hidden = None

    @contextmanager
    def _stacked(self, layers: Sequence[nn.Module]) -> Iterator[None]:
        """Replace the transformer's layers, and restore them at the end of the block."""
        original = self.stack._modules
        self.stack._modules = {str(place): layer for place, layer in enumerate(layers)}
        try:
            yield
        finally:
            self.stack._modules = original


class Activations:
    """Lower-layer output of every sentence, in parts on disk; one row per token: float32, or the bits of bf16 as int16."""

    def __init__(self, parts: list[Path], width: int, part_of: IntArray, start_of: IntArray, tokens: TokenStore) -> None:
        self.parts, self.width, self.part_of, self.start_of, self.tokens = parts, width, part_of, start_of, tokens
        # Every mapped part keeps a file open; a large corpus has more parts than a process may open files.
        self._mapped = lru_cache(maxsize=OPEN_PARTS)(lambda number: np.load(self.parts[number], mmap_mode="r"))

    def padded(self, rows: Sequence[int] | IntArray) -> Tensor:
        """The chosen sentences as batch × tokens × hidden size, padded with zeros."""
        lengths = torch.from_numpy(self.tokens.lengths_of(rows))
        out = torch.zeros((len(rows), int(lengths.max()), self.width))
        out[torch.arange(out.shape[1]) < lengths[:, None]] = self.packed(rows)
        return out

    def packed(self, rows: Sequence[int] | IntArray) -> Tensor:
        """The chosen sentences end to end: tokens × hidden size."""
        starts, parts = self.start_of[rows], self.part_of[rows]
        ends = starts + self.tokens.lengths_of(rows)
        own = [self._mapped(part)[start:end] for part, start, end in zip(parts, starts, ends, strict=True)]
        found = torch.from_numpy(np.concatenate(own))
        return found.view(torch.bfloat16).float() if found.dtype == torch.int16 else found


Frozen = tuple[SplitBody, Activations]


def remember(
    split: SplitBody,
    tokens: TokenStore,
    folder: Path,
    on_progress: OnProgress = silent,
    dtype: torch.dtype = torch.float32,
) -> Activations:
    """Store the lower layers' output for every sentence in `folder`, part by part; existing parts are reused.

    With bf16 as `dtype` it takes half the space; it is computed in bf16 too, if a sample is the same up to rounding.
    """
    split.body.eval()
    order = np.argsort(tokens.lengths, kind="stable")
    width = _checked_width(split, tokens.padded(order[:2]))
    make_folder(folder)
    needed = int(tokens.offsets[-1]) * width * dtype.itemsize - sum(part.stat().st_size for part in folder.glob("part-*.npy"))
    hint = "set training.train_layers = 0 to train without them, use fewer pairs, or name another output.folder"
    refuse_small_disk(folder, needed, "activations", hint)
    part_of, start_of = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    parts: list[Path] = []
    reused = 0
    outputs = _lower_outputs(split, tokens, dtype)
    for begin in range(0, len(order), PART_SENTENCES):
        members = order[begin : begin + PART_SENTENCES]
        lengths = tokens.lengths_of(members)
        path = folder / f"part-{len(parts):05d}.npy"
        kept = load_array(path)
        if kept is not None and kept.shape == (int(lengths.sum()), width):
            reused += len(members)
        else:
            save_array(path, _as_stored(np.concatenate(outputs(members)), dtype))
        part_of[members], start_of[members] = len(parts), np.cumsum(lengths) - lengths
        parts.append(path)
        note = f"{reused} reused" if reused else ""
        on_progress(Step("lower layers", begin + len(members), len(order), "sentences", note))
    return Activations(parts, width, part_of, start_of, tokens)


def _as_stored(output: FloatArray, dtype: torch.dtype) -> NDArray[Any]:
    """The output as it is on disk: numpy knows no bf16."""
    return torch.from_numpy(output).bfloat16().view(torch.int16).numpy() if dtype == torch.bfloat16 else output


def _lower_outputs(split: SplitBody, tokens: TokenStore, dtype: torch.dtype) -> Callable[[IntArray], list[FloatArray]]:
    """A function that computes the lower layers' output of sentences in order of length, in parts with one row per token.

    On a CPU every core computes parts of its own without padding, if the output is the same for a sample.
    """

    def padded(rows: IntArray) -> FloatArray:
        batch = tokens.padded(rows)
        return np.asarray(split.lower(batch).cpu()[batch["attention_mask"].bool()].numpy())

    def packed(rows: IntArray, layers: Way) -> FloatArray:
        with torch.inference_mode():
            return np.asarray(layers(pack(tokens, rows)).float().numpy())

    sample = spread_by_length(tokens.lengths, SAMPLE)
    for precision in dict.fromkeys((dtype, torch.float32)):
        layers = split_layers(split.body, slice(split.cut), tokens, precision)
        if layers is not None and alike(packed(sample, layers), padded(sample), precision):
            computed = partial(packed, layers=layers)
            return lambda rows: [output for _, output in on_all_cores(computed, tokens, rows)]
    return lambda rows: [padded(rows[places]) for places in by_length(tokens.lengths_of(rows), TOKENS_AT_ONCE)]


def on_all_cores(
    compute: Callable[[IntArray], FloatArray], tokens: TokenStore, rows: IntArray
) -> Iterator[tuple[IntArray, FloatArray]]:
    """Groups of sentences of similar length, as places in `rows`, and what `compute` returns for the rows of each."""
    groups = list(by_length(tokens.lengths_of(rows), TOKENS_PER_CORE))
    with core_pool(torch.get_num_threads()) as pool:
        yield from zip(groups, pool.map(compute, (rows[places] for places in groups)), strict=True)


def split_layers(body: "PreTrainedModel", part: slice, tokens: TokenStore, dtype: torch.dtype = torch.float32) -> Way | None:
    """Some layers of a body on a CPU for sentences without padding; None if they cannot be computed like that."""
    padding = first_position(body) - 1  # RoBERTa gives this token no position, wherever it is
    if body.device.type != "cpu" or not tokens.lengths.all() or (padding >= 0 and (tokens.ids == padding).any()):
        return None
    try:
        return post_norm(body, dtype, part)
    except STRANGE:
        return None


def pack(tokens: TokenStore, rows: IntArray, hidden: Tensor | None = None) -> Packed:
    """Sentences in order of length, end to end."""
    ids, lengths = tokens.gather(rows)
    packed = Packed.of(torch.from_numpy(ids).long(), torch.from_numpy(lengths), runs_of(lengths.tolist()))
    return replace(packed, hidden=hidden)


def _checked_width(split: SplitBody, features: dict[str, Tensor]) -> int:
    """Hidden size of the activations, after checking that continuing from them gives the same output."""
    device = split.body.device
    features = {name: value.to(device) for name, value in features.items()}
    try:
        hidden = split.lower(features)
        with torch.inference_mode():
            whole = split.body(**features).last_hidden_state
            with split.upper(hidden):
                again = split.body(**features).last_hidden_state
        mask = features["attention_mask"][..., None].bool()
        torch.testing.assert_close(again.masked_fill(~mask, 0), whole.masked_fill(~mask, 0), atol=1e-3, rtol=1e-3)
    except (AssertionError, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise ModelError(
            f"{type(split.body).__name__} cannot be split between its layers",
            hint="set training.train_layers = 0 to train all of them",
        ) from error
    return int(hidden.shape[-1])
