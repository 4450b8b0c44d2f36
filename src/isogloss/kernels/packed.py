"""Packed sequences: a batch is one row of tokens without padding, and attention stays within each sentence.

All layers except attention compute each token on its own, so packed sentences give the same states as padded ones, without
computing padding. Attention goes through transformers' AttentionInterface, so that any encoder which uses it can be packed:

- on CUDA, short sentences by `short_attention`, others in half precision by `torch.nn.attention.varlen` (flash attention);
- if sentences are sorted by length, each run of equal length as a batch without padding or mask;
- otherwise padded for the attention product only; these two on a CPU in single precision.

MPNet has its own attention with a bias by distance, which is computed in one of the last two ways. `packs_exactly` compares
packed with padded states of a given model; models for which they differ are padded.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ATTENTION = "isogloss_packed"
HAS_TRITON = find_spec("triton") is not None  # torch for Windows does not
HALF = (torch.bfloat16, torch.float16)
WIDEST_HEAD = 256  # of flash attention
STRANGE = (TypeError, ValueError, RuntimeError, AttributeError, KeyError, IndexError)  # raised by unsupported models
EXACT = 1e-4  # the largest rounding difference in single precision, for hidden states of size about 1


class EqualLengths(NamedTuple):
    """Consecutive sentences of equal length."""

    start: int  # of the first token
    sentences: int
    length: int

    def of(self, tokens: Tensor) -> Tensor:
        """Rows of tokens as sentences × length × the shape of a row."""
        own = tokens[self.start : self.start + self.sentences * self.length]
        return own.view(self.sentences, self.length, *tokens.shape[1:])


def runs_of(lengths: Sequence[int]) -> tuple[EqualLengths, ...]:
    """The runs of equal length in ascending lengths."""
    start, runs = 0, []
    for length, count in Counter(lengths).items():
        runs.append(EqualLengths(start, count, length))
        start += count * length
    return tuple(runs)


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Sentences end to end. `starts` has one entry more than there are sentences; sentence i is starts[i]:starts[i + 1]."""

    ids: Tensor
    within: Tensor  # position of each token in its sentence, from 0
    sentence: Tensor  # the number of each token's sentence
    starts: Tensor  # int32, cumulative lengths
    longest: int
    first: Tensor  # int32, start of each token's sentence
    end: Tensor  # int32, its end
    runs: tuple[EqualLengths, ...] = ()  # of all sentences if they are sorted by length; may be empty
    hidden: Tensor | None = None  # output of lower layers, to continue from: tokens × width

    @classmethod
    def laid_out(
        cls, ids: Tensor, within: Tensor, sentence: Tensor, starts: Tensor, longest: int, runs: tuple[EqualLengths, ...] = ()
    ) -> "Packed":
        """From positions that were computed before."""
        first = torch.arange(len(within), device=within.device, dtype=torch.int32) - within.to(torch.int32)
        return cls(ids, within, sentence, starts, longest, first, starts[sentence + 1], runs)

    @classmethod
    def of(cls, ids: Tensor, lengths: Tensor, runs: tuple[EqualLengths, ...] = ()) -> "Packed":
        """From tokens end to end and the length of each sentence."""
        starts = F.pad(lengths.cumsum(0), (1, 0))
        sentence = torch.repeat_interleave(torch.arange(len(lengths), device=ids.device), lengths)
        within = torch.arange(len(ids), device=ids.device) - starts[sentence]
        return cls.laid_out(ids, within, sentence, starts.to(torch.int32), int(lengths.max()), runs)


Way = Callable[[Packed], Tensor]  # from packed sentences to hidden states, one row per token


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    *,
    packed: Packed,
    **_others: Any,  # noqa: ANN401 - anything else that a model passes to its attention
) -> tuple[Tensor, None]:
    """Attention over (1, heads, tokens, width) within each sentence, for transformers' AttentionInterface."""
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    mixed = attend(query[0].transpose(0, 1), key[0].transpose(0, 1), value[0].transpose(0, 1), packed, scale, dropout)
    return mixed[None], None


def attend(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float, dropout: float = 0.0, bias: Tensor | None = None
) -> Tensor:
    """Attention inside each sentence; arguments and result are tokens × heads × width. `bias` is 1 × heads × L × L."""
    plain = bias is None and query.is_cuda
    if plain and is_short(query.shape[-1], packed.longest, query.device):
        return attend_together(torch.stack([query, key, value], dim=1), packed, scale, dropout)
    if plain and not dropout and query.dtype in HALF and query.shape[-1] <= WIDEST_HEAD:
        return _flash(query, key, value, packed, scale)
    each = _run_by_run if packed.runs else _padded_inside
    if query.is_cuda or query.dtype not in HALF:
        return each(query, key, value, packed, scale, dropout, bias)
    # On a CPU the gradient of attention over short sentences takes torch ten times as long in half precision.
    with torch.autocast(query.device.type, enabled=False):
        return each(query.float(), key.float(), value.float(), packed, scale, dropout, bias).to(query.dtype)


def _flash(query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float) -> Tensor:
    """Flash attention; heads are padded with zeros to a multiple of eight."""
    from torch.nn.attention.varlen import varlen_attn

    width, starts, longest = query.shape[-1], packed.starts, packed.longest
    if more := -width % 8:
        query, key, value = (F.pad(one, (0, more)) for one in (query, key, value))
    mixed: Any = varlen_attn(query, key, value, starts, starts, longest, longest, scale=scale)
    whole: Tensor = mixed
    return whole[..., :width]


def is_short(width: int, longest: int, device: torch.device) -> bool:
    """Whether `short_attention` supports heads of this width and sentences of at most `longest` tokens."""
    if device.type != "cuda" or not HAS_TRITON:
        return False
    from isogloss.kernels.short_attention import fits

    return fits(width, longest)


def never_pads(body: "PreTrainedModel", longest: int) -> bool:
    """Whether attention needs no padding even with dropout; MPNet's bias and other widths of heads need it."""
    heads = getattr(body.config, "num_attention_heads", 0)
    if not heads or body.config.model_type == "mpnet":
        return False
    return is_short(body.config.hidden_size // heads, longest, body.device)


def attend_together(together: Tensor, packed: Packed, scale: float, dropout: float = 0.0, bias: Tensor | None = None) -> Tensor:
    """The same for query, key and value in one tensor: tokens × 3 × heads × width."""
    if bias is not None or not is_short(together.shape[-1], packed.longest, together.device):
        return attend(together[:, 0], together[:, 1], together[:, 2], packed, scale, dropout, bias)
    from isogloss.kernels.short_attention import short_attention

    seed = torch.randint(2**31 - 1, (1,), device=together.device) if dropout else None
    mixed: Tensor = short_attention(together, packed.first, packed.end, scale, dropout, seed)[0]
    return mixed


def _kernels_for_any_shape(query: Tensor) -> AbstractContextManager[None]:
    """Without cuDNN's attention, which takes tens of milliseconds for each new shape; here nearly every batch has another."""
    if not query.is_cuda:
        return nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    kernels: AbstractContextManager[None] = sdpa_kernel(
        [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
    )
    return kernels


def _run_by_run(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float, dropout: float, bias: Tensor | None
) -> Tensor:
    # Split, not sliced: the gradient of a slice has the size of the whole tensor.
    sizes = [run.sentences * run.length for run in packed.runs]
    parts = zip(*(torch.split(one, sizes) for one in (query, key, value)), strict=True)
    mixed = []
    for run, part in zip(packed.runs, parts, strict=True):
        shape = (run.sentences, run.length, *query.shape[1:])
        queries, keys, values = (one.reshape(shape).transpose(1, 2) for one in part)
        mask = None if bias is None else bias[..., : run.length, : run.length].to(query.dtype)
        with _kernels_for_any_shape(query):
            own = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, dropout_p=dropout, scale=scale)
        mixed.append(own.transpose(1, 2).flatten(0, 1))
    return mixed[0] if len(mixed) == 1 else torch.cat(mixed)


def _padded_inside(
    query: Tensor, key: Tensor, value: Tensor, packed: Packed, scale: float, dropout: float, bias: Tensor | None
) -> Tensor:
    lengths = packed.starts.diff()
    shape = (len(lengths), packed.longest)
    place = packed.sentence * packed.longest + packed.within

    def padded(rows: Tensor) -> Tensor:
        zeros = rows.new_zeros((shape[0] * shape[1], *rows.shape[1:]))
        return zeros.index_copy(0, place, rows).view(*shape, *rows.shape[1:]).transpose(1, 2)

    mask: Tensor = (torch.arange(packed.longest, device=query.device)[None] < lengths[:, None])[:, None, None]
    if bias is not None:
        mask = bias.to(query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
    with _kernels_for_any_shape(query):
        mixed = F.scaled_dot_product_attention(
            padded(query), padded(key), padded(value), attn_mask=mask, dropout_p=dropout, scale=scale
        )
    flat: Tensor = mixed.transpose(1, 2).reshape(shape[0] * shape[1], *query.shape[1:])[place]
    return flat


def hidden_states(body: "PreTrainedModel", packed: Packed, embedded: Tensor | None = None) -> Tensor:
    """Last hidden states, tokens × width, of a body inside `packing`. `embedded` replaces the lookup in the token table."""
    positions = (packed.within + first_position(body))[None]
    given = {"input_ids": packed.ids[None]} if embedded is None else {"inputs_embeds": embedded[None]}
    states: Tensor = body(**given, position_ids=positions, packed=packed).last_hidden_state
    return states[0]


def first_position(body: "PreTrainedModel") -> int:
    """The position of the first token: in RoBERTa's family the padding id + 1, else 0."""
    table = getattr(getattr(body, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else int(padding) + 1


@contextmanager
def packing(body: "PreTrainedModel") -> Iterator[None]:
    """Inside this block the body takes packed sentences (`hidden_states`) instead of padded ones."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, packed_attention)
    before = body.config._attn_implementation
    body.config._attn_implementation = ATTENTION
    pooler = getattr(body, "pooler", None)  # not needed, and it would read the first sentence only
    if pooler is not None:
        body.pooler = None
    try:
        with _packed_mpnet(body) if body.config.model_type == "mpnet" else nullcontext():
            yield
    finally:
        body.config._attn_implementation = before
        if pooler is not None:
            body.pooler = pooler


@contextmanager
def _packed_mpnet(body: "PreTrainedModel") -> Iterator[None]:
    """MPNet passes no options to its attention: replace it, and compute the bias for the longest sentence."""
    encoder: Any = body.encoder
    attentions: list[Any] = [layer.attention.attn for layer in encoder.layer]
    current: dict[str, Any] = {}

    def begin(_module: nn.Module, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:  # noqa: ANN401
        current["packed"] = options.pop("packed")
        return arguments, options

    def distance_bias(states: Tensor) -> Tensor:
        bias: Tensor = type(encoder).compute_position_bias(encoder, states.new_empty((1, current["packed"].longest, 1)))
        return bias

    def forward_of(attention: Any) -> Any:  # noqa: ANN401 - an MPNetSelfAttention
        def forward(hidden_states: Tensor, _mask: Any = None, position_bias: Any = None, **_options: Any) -> tuple[Tensor]:  # noqa: ANN401
            width = attention.attention_head_size
            heads = [one(hidden_states)[0].unflatten(-1, (-1, width)) for one in (attention.q, attention.k, attention.v)]
            drop = attention.dropout.p if attention.training else 0.0
            mixed = attend(heads[0], heads[1], heads[2], current["packed"], width**-0.5, drop, position_bias)
            return (attention.o(mixed.flatten(1)[None]),)

        return forward

    hook = body.register_forward_pre_hook(begin, with_kwargs=True)
    encoder.compute_position_bias = distance_bias
    for attention in attentions:
        attention.forward = forward_of(attention)
    try:
        yield
    finally:
        hook.remove()
        del encoder.compute_position_bias
        for attention in attentions:
            del attention.forward


def packs_exactly(body: "PreTrainedModel", vocabulary: int, longest: int = 64, way: Way | None = None) -> bool:
    """Whether packed and padded sentences of random tokens give the same hidden states.

    One sentence has `longest` tokens, the greatest length in use: local attention differs only in long sentences. `way`
    computes the packed states; by default it is `hidden_states` inside `packing`.
    """
    device, was_training = body.device, body.training
    generator = torch.Generator().manual_seed(0)
    lengths = sorted([1, 2, min(7, longest), min(7, longest), min(11, longest), longest])
    ids = torch.randint(vocabulary // 2, vocabulary - 1, (sum(lengths),), generator=generator)
    ids[ids == body.config.pad_token_id] = vocabulary - 1  # RoBERTa gives it no position
    runs = () if way is None and device.type == "cuda" else runs_of(lengths)
    packed = Packed.of(ids.to(device), torch.tensor(lengths, device=device), runs)
    body.eval()
    try:
        with torch.no_grad(), torch.autocast(device.type, enabled=False), _full_float32():
            each = torch.split(
                ids, lengths
            )  # the long one is computed separately: others padded to its length would take longer
            padded = [_padded_states(body, part) for part in (each[:-1], each[-1:])]
            if way is None:
                with packing(body):
                    states = hidden_states(body, packed)
            else:
                states = way(packed)
        expected = torch.cat(padded)
        return bool((states - expected).abs().max() <= EXACT * expected.abs().max().clamp(min=1))
    except STRANGE:
        return False
    finally:
        body.train(was_training)


@contextmanager
def _full_float32() -> Iterator[None]:
    """Matrix products in full single precision: the rounding of TF32 would hide differences."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def _padded_states(body: "PreTrainedModel", sentences: Sequence[Tensor]) -> Tensor:
    """Hidden states of padded sentences, end to end."""
    rows = nn.utils.rnn.pad_sequence(list(sentences), batch_first=True, padding_value=body.config.pad_token_id or 0)
    mask = torch.arange(rows.shape[1])[None] < torch.tensor([len(one) for one in sentences])[:, None]
    states: Tensor = body(input_ids=rows.to(body.device), attention_mask=mask.long().to(body.device)).last_hidden_state
    return states[mask.to(body.device)]


def pooled(states: Tensor, sentence: Tensor, starts: Tensor, how: str) -> Tensor:
    """Sentence vectors from token states: mean, maximum or first token of each sentence."""
    sentences, width = len(starts) - 1, states.shape[1]
    if how == "cls":
        return states[starts[:-1].long().clamp(max=len(states) - 1)]
    if how == "max":
        lowest = states.new_full((sentences, width), -torch.inf)
        highest = lowest.scatter_reduce(0, sentence[:, None].expand_as(states), states, "amax")
        # Empty sentences are zero, as in a mean: infinity times a gradient of zero would be NaN.
        return highest.masked_fill((starts.diff() == 0)[:, None], 0.0)
    total = torch.zeros((sentences, width), dtype=torch.float32, device=states.device).index_add(0, sentence, states.float())
    mean: Tensor = total / starts.diff().clamp(min=1)[:, None]
    return mean
