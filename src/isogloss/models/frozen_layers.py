"""Train the upper layers over remembered activations of the frozen lower ones.

Frozen layers give the same output every epoch, so it is computed once and kept on disk. While training, the body runs
unchanged (its own masks, its own layer code) with its lower layers replaced by one that hands back what was remembered.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

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
SENTENCES_A_PART = 512  # a few seconds of work on a CPU: what a kill -9 may cost


def layers_of(body: "PreTrainedModel") -> nn.ModuleList:
    """The body's stack of transformer layers: the longest list of modules in it."""
    lists = [module for module in body.modules() if isinstance(module, nn.ModuleList) and len(module)]
    if not lists:
        raise ModelError(f"{type(body).__name__} has no stack of layers", hint="set training.train_layers = 0")
    return max(lists, key=len)


class _Remembered(nn.Module):
    """Stands where the lower layers stood and returns their remembered output, in the form they returned it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden: Tensor | None = None
        self.as_tuple = False

    def forward(self, *_args: Any, **_kwargs: Any) -> Any:  # noqa: ANN401 - called as whatever layer it replaces
        return (self.hidden,) if self.as_tuple else self.hidden


class SplitBody:
    """A body cut below its `train_layers` upper layers: `lower` computes what is remembered, `upper` runs from it."""

    def __init__(self, body: "PreTrainedModel", train_layers: int) -> None:
        self.body, self.stack = body, layers_of(body)
        self.layers = list(self.stack)
        if not 0 < train_layers < len(self.layers):
            choice = {1: "", 2: "1, or "}.get(len(self.layers), f"1 to {len(self.layers) - 1}, or ")
            raise ModelError(
                f"training.train_layers = {train_layers}, but the student has {len(self.layers)} "
                + ("layer" if len(self.layers) == 1 else "layers"),
                hint=f"set it to {choice}0 to train everything",
            )
        self.cut = len(self.layers) - train_layers
        self.remembered = _Remembered()

    def lower(self, features: dict[str, Tensor]) -> Tensor:
        """Output of the last frozen layer: batch × tokens × width."""
        caught: list[Any] = []
        hook = self.layers[self.cut - 1].register_forward_hook(lambda _module, _inputs, output: caught.append(output))
        device = self.body.device
        try:
            with torch.inference_mode(), self._stacked(self.layers[: self.cut]):
                self.body(**{name: value.to(device) for name, value in features.items()})
        finally:
            hook.remove()
        self.remembered.as_tuple = isinstance(caught[0], tuple)
        hidden: Tensor = caught[0][0] if self.remembered.as_tuple else caught[0]
        return hidden

    @contextmanager
    def upper(self, hidden: Tensor) -> Iterator[None]:
        """Inside this block the body ignores its lower layers and goes on from `hidden`."""
        self.remembered.hidden = hidden
        try:
            with self._stacked([self.remembered, *self.layers[self.cut :]]):
                yield
        finally:
            self.remembered.hidden = None

    @contextmanager
    def _stacked(self, layers: Sequence[nn.Module]) -> Iterator[None]:
        """Swap what the body's own list of layers holds, and put it back."""
        original = self.stack._modules
        self.stack._modules = {str(place): layer for place, layer in enumerate(layers)}
        try:
            yield
        finally:
            self.stack._modules = original


class Activations:
    """Lower-layer output of every sentence, in parts on disk; a sentence has as many rows as it has tokens."""

    def __init__(self, parts: list[Path], width: int, part_of: IntArray, start_of: IntArray, tokens: TokenStore) -> None:
        self.parts, self.width, self.part_of, self.start_of, self.tokens = parts, width, part_of, start_of, tokens
        # Every mapped part holds a file open: a large corpus has more of them than a process may open.
        self._mapped = lru_cache(maxsize=OPEN_PARTS)(lambda number: np.load(self.parts[number], mmap_mode="r"))

    def padded(self, rows: Sequence[int] | IntArray) -> Tensor:
        """The chosen sentences as batch × tokens × width, padded with zeros to the longest of them."""
        lengths = self.tokens.lengths_of(rows)
        out = np.zeros((len(rows), int(lengths.max()), self.width), dtype=np.float32)
        for place, (row, count) in enumerate(zip(rows, lengths, strict=True)):
            out[place, :count] = self._of(int(row), int(count))
        return torch.from_numpy(out)

    def packed(self, rows: Sequence[int] | IntArray) -> Tensor:
        """The chosen sentences end to end: tokens × width."""
        lengths = self.tokens.lengths_of(rows)
        parts = [self._of(int(row), int(count)) for row, count in zip(rows, lengths, strict=True)]
        return torch.from_numpy(np.concatenate(parts))

    def _of(self, row: int, tokens: int) -> NDArray[np.float32]:
        start = int(self.start_of[row])
        part: NDArray[np.float32] = self._mapped(int(self.part_of[row]))
        return part[start : start + tokens]


def remember(split: SplitBody, tokens: TokenStore, folder: Path, on_progress: OnProgress = silent) -> Activations:
    """Compute the lower layers' output for every sentence into `folder`, part by part; parts already there are kept."""
    split.body.eval()
    order = np.argsort(tokens.lengths, kind="stable")
    width = _checked_width(split, tokens.padded(order[:2]))
    _refuse_if_too_large(folder, int(tokens.offsets[-1]) * width * 4)
    part_of, start_of = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    parts: list[Path] = []
    reused = 0
    for begin in range(0, len(order), SENTENCES_A_PART):
        members = order[begin : begin + SENTENCES_A_PART]
        path = folder / f"part-{len(parts):05d}.npy"
        kept = load_array(path)
        if kept is not None and kept.shape == (int(tokens.lengths_of(members).sum()), width):
            reused += len(members)
        else:
            values = _compute(split, tokens, members, width)
            save_array(path, values)
        part_of[members] = len(parts)
        start_of[members] = np.concatenate([[0], np.cumsum(tokens.lengths_of(members))[:-1]])
        parts.append(path)
        note = f"{reused} reused" if reused else ""
        on_progress(Step("lower layers", begin + len(members), len(order), "sentences", note))
    return Activations(parts, width, part_of, start_of, tokens)


def _checked_width(split: SplitBody, features: dict[str, Tensor]) -> int:
    """Width of the activations, after making sure that this body really goes on from them to the same output."""
    try:
        hidden = split.lower(features)
        device = split.body.device
        features = {name: value.to(device) for name, value in features.items()}
        with torch.inference_mode():
            whole = split.body(**features).last_hidden_state
            with split.upper(hidden):
                again = split.body(**features).last_hidden_state
        mask = features["attention_mask"][..., None].bool()
        same = torch.allclose(whole.masked_fill(~mask, 0), again.masked_fill(~mask, 0), atol=1e-3, rtol=1e-3)
    except (RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise _cannot_be_cut(split) from error
    if not same:
        raise _cannot_be_cut(split)
    return int(hidden.shape[-1])


def _cannot_be_cut(split: SplitBody) -> ModelError:
    return ModelError(
        f"{type(split.body).__name__} cannot be cut between its layers", hint="set training.train_layers = 0 to train it whole"
    )


def _compute(split: SplitBody, tokens: TokenStore, members: IntArray, width: int) -> NDArray[np.float32]:
    lengths = tokens.lengths_of(members)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    values = np.empty((int(starts[-1]), width), dtype=np.float32)
    for places in by_length(lengths, TOKENS_AT_ONCE):
        hidden = split.lower(tokens.padded(members[places])).cpu().numpy()
        for row, place in enumerate(places):
            values[starts[place] : starts[place + 1]] = hidden[row, : lengths[place]]
    return values


def _refuse_if_too_large(folder: Path, bytes_needed: int) -> None:
    make_folder(folder)
    bytes_needed -= sum(part.stat().st_size for part in folder.glob("part-*.npy"))
    free = shutil.disk_usage(folder).free
    if bytes_needed > 0.9 * free:
        raise IsoglossError(
            f"{folder}: activations need {bytes_needed / 2**30:.1f} GiB, the disk has {free / 2**30:.1f} GiB free",
            hint="set training.train_layers = 0 to train without them, use fewer pairs, or name another output.folder",
        )
