"""Train the upper layers on stored outputs of the frozen lower ones.

Frozen layers give the same output in every epoch, so it is computed once and stored on disk. In training, one module that
returns the stored output replaces the lower layers.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.amounts import amount
from isogloss.checksums import load_array, save_array
from isogloss.errors import IsoglossError, ModelError
from isogloss.models.token_store import TokenStore, by_length
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import make_folder
from isogloss.types import IntArray

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENS_AT_ONCE = 2048
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
    """Lower-layer output of every sentence, in parts on disk; one row per token."""

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
        return torch.from_numpy(np.concatenate(own))


Frozen = tuple[SplitBody, Activations]


def remember(split: SplitBody, tokens: TokenStore, folder: Path, on_progress: OnProgress = silent) -> Activations:
    """Store the lower layers' output for every sentence in `folder`, part by part; existing parts are reused."""
    split.body.eval()
    order = np.argsort(tokens.lengths, kind="stable")
    width = _checked_width(split, tokens.padded(order[:2]))
    _refuse_if_too_large(folder, int(tokens.offsets[-1]) * width * 4)
    part_of, start_of = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    parts: list[Path] = []
    reused = 0
    for begin in range(0, len(order), PART_SENTENCES):
        members = order[begin : begin + PART_SENTENCES]
        lengths = tokens.lengths_of(members)
        path = folder / f"part-{len(parts):05d}.npy"
        kept = load_array(path)
        if kept is not None and kept.shape == (int(lengths.sum()), width):
            reused += len(members)
        else:
            batches = (tokens.padded(members[places]) for places in by_length(lengths, TOKENS_AT_ONCE))
            outputs = [split.lower(batch).cpu()[batch["attention_mask"].bool()] for batch in batches]
            save_array(path, torch.cat(outputs).numpy())
        part_of[members], start_of[members] = len(parts), np.cumsum(lengths) - lengths
        parts.append(path)
        note = f"{reused} reused" if reused else ""
        on_progress(Step("lower layers", begin + len(members), len(order), "sentences", note))
    return Activations(parts, width, part_of, start_of, tokens)


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


def _refuse_if_too_large(folder: Path, bytes_needed: int) -> None:
    make_folder(folder)
    bytes_needed -= sum(part.stat().st_size for part in folder.glob("part-*.npy"))
    free = shutil.disk_usage(folder).free
    if bytes_needed > 0.9 * free:
        raise IsoglossError(
            f"{folder}: activations need {bytes_needed / 2**30:.1f} GiB, the disk has {free / 2**30:.1f} GiB free",
            hint="set training.train_layers = 0 to train without them, use fewer pairs, or name another output.folder",
        )
