"""Fast embedding of many sentences with a sentence-transformers model.

The model's own `encode` pads every batch and does one thing after the other. Here a thread tokenizes the next window of
sentences while the current one is computed; a window is sorted by length and split into chunks by token count; a chunk goes
through the transformer without padding (`kernels/packed.py`, `kernels/postnorm.py`), and results are copied back while the next
chunk runs. On CUDA the transformer computes in half precision from a copy of its weights, and in bf16 on a CPU if that is asked
for; pooling and later modules in single precision. On a CPU every core has its own chunks, since cores that share a matrix
product wait for each other.

`fast_encoder` returns None for models it cannot handle. Sentences that cannot be packed, and chunks that overflow half
precision or memory, go through the model itself.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.kernels.fused_qkv import fuse
from isogloss.kernels.packed import (
    STRANGE,
    EqualLengths,
    Packed,
    Way,
    first_position,
    hidden_states,
    packing,
    packs_exactly,
    runs_of,
)
from isogloss.kernels.postnorm import copied, post_norm
from isogloss.models.token_store import TextTokenizer, TokenStore, by_length
from isogloss.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

FIRST_WINDOW, WINDOW = 2048, 16_384  # sentences; a small first window keeps the device from waiting
TOKENS_AT_ONCE = {"cuda": 65_536, "cpu": 1024}  # on a CPU, per core: more gains nothing
FEWEST_AT_ONCE = 128
PADDED_AT_ONCE = {"cuda": 16_384, "cpu": 1024}
IN_FLIGHT = 2  # chunks in flight per worker
TRIED_FIRST, LONGEST = 128, 1 << 20  # tokens of a sentence
ALIKE_SINGLE = 1e-4  # difference relative to the largest value
ALIKE_HALF = {torch.float16: 0.999, torch.bfloat16: 0.9995}  # cosine
POOLINGS = ("mean", "cls", "max")

Done = Callable[[int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Sentences that are computed together, in order of length. `rows` are their rows in the result."""

    rows: IntArray
    tokens: TokenStore
    packs: bool

    def packed(self, device: torch.device) -> Packed:
        """On the device, copied in one transfer."""
        lengths, starts, size = self.tokens.lengths, self.tokens.offsets, len(self.tokens.ids)
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        within = np.arange(size) - starts[sentence]
        numbers = torch.from_numpy(np.concatenate([self.tokens.ids, within, sentence, starts]).astype(np.int32))
        if device.type == "cuda":
            numbers = numbers.pin_memory().to(device, non_blocking=True)
        ids, places, owners = (numbers[start : start + size].long() for start in (0, size, 2 * size))
        return Packed.laid_out(ids, places, owners, numbers[3 * size :], int(lengths[-1]), runs_of(lengths.tolist()))


class FastEncoder:
    """Embeds texts or tokens with one model. Start with `fast_encoder`."""

    def __init__(self, model: "SentenceTransformer", prompt: str, dtype: torch.dtype) -> None:
        self.model, self.prompt, self.dtype = model, prompt, dtype
        self.body: PreTrainedModel = model[0].auto_model
        self.device: torch.device = self.body.device
        self.pooling: str = model[1].pooling_mode
        self.tail = [copied(module, torch.float32) for module in list(model)[2:]]
        self.dimension = int(model.get_embedding_dimension())
        self.text_tokenizer = TextTokenizer(model.tokenizer, int(model.max_seq_length), prompt)
        self.way: Way | None = None
        self._build: Callable[[PreTrainedModel, torch.dtype], Way | None] = post_norm
        self._tried, self._reach = 0, 0  # longest sentence tested, and longest that packs exactly, in tokens
        first = first_position(self.body)
        self._uncounted = first - 1 if first else None  # RoBERTa gives a padding token in the text no position

    # ── public ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def encode(self, texts: Sequence[str], done: Done = lambda _count: None) -> FloatArray:
        """One row per text; `done` is called with the number of finished texts."""
        with closing(self._of_texts(texts)) as chunks:  # its thread ends here in any case
            return self._filled(len(texts), chunks, done)

    def vectors(self, tokens: TokenStore, rows: IntArray | None = None, done: Done = lambda _count: None) -> FloatArray:
        """The same for tokenized sentences (for `rows` of them, if given)."""
        rows = np.arange(len(tokens)) if rows is None else np.asarray(rows, dtype=np.int64)
        windows = (np.arange(start, min(start + WINDOW, len(rows))) for start in range(0, len(rows), WINDOW))
        chunks = (chunk for places in windows for chunk in self._cut(tokens, rows[places], places))
        return self._filled(len(rows), chunks, done)

    def agrees(self, texts: Sequence[str]) -> bool:
        """Whether the model's own `encode` gives the same embeddings for these texts."""
        own = self.model.encode(list(texts), prompt=self.prompt or None, show_progress_bar=False, convert_to_numpy=True)
        return self.alike(own.astype(np.float32), self.encode(texts))

    def alike(self, expected: FloatArray, found: FloatArray) -> bool:
        """Whether embeddings are equal within the precision."""
        return alike(found, expected, self.dtype)

    def reaches(self, longest: int) -> bool:
        """Whether sentences of this length pack exactly: tested once per doubling, up to the model's limit.

        Our own layers (`postnorm`) are tested first, then the model's modules.
        """
        if longest > self._tried:
            size = max(TRIED_FIRST, 1 << (longest - 1).bit_length())
            self._tried = min(size, max(self.text_tokenizer.max_tokens, longest))
            if self._packs(self._build) or self._packs(_own_modules):
                self._reach = self._tried
        return longest <= self._reach

    def _packs(self, build: Callable[["PreTrainedModel", torch.dtype], Way | None]) -> bool:
        """Whether an implementation is exact, tested in single precision; then it is used."""
        if self.way is not None and build is not self._build:
            return False  # chunks may be running with the current implementation
        kept = self.way if self.dtype == torch.float32 else None
        try:
            exact = kept or build(self.body, torch.float32)
            vocabulary = len(self.body.get_input_embeddings().weight)
        except STRANGE:
            return False
        if exact is None or not packs_exactly(self.body, vocabulary, self._tried, exact):
            return False
        if self.way is None:
            self._build, self.way = build, exact if self.dtype == torch.float32 else build(self.body, self.dtype)
        return True

    # ── from texts to chunks ────────────────────────────────────────────────────────────────────────────────────────────

    def _of_texts(self, texts: Sequence[str]) -> Generator[Chunk]:
        """Chunks of all texts; a thread tokenizes the next window in the background."""
        edges = [0, *range(FIRST_WINDOW, len(texts), WINDOW), len(texts)]
        with ThreadPoolExecutor(1) as thread:
            coming = thread.submit(self.text_tokenizer.store, texts[: edges[1]])
            for place, start in enumerate(edges[:-1]):
                store = coming.result()
                if place + 2 < len(edges):
                    coming = thread.submit(self.text_tokenizer.store, texts[edges[place + 1] : edges[place + 2]])
                rows = np.arange(len(store))
                yield from self._cut(store, rows, rows + start)

    def _cut(self, tokens: TokenStore, rows: IntArray, places: IntArray) -> Iterator[Chunk]:
        """Sentences as chunks; `places` are their rows in the result."""
        lengths, kind = tokens.lengths_of(rows), self.device.type
        most = TOKENS_AT_ONCE[kind]
        if kind == "cpu":  # so that no core waits long for another's last chunk
            most = max(FEWEST_AT_ONCE, min(most, int(lengths.sum()) // (4 * self._workers(len(rows)))))
        packs = self._which_pack(tokens, rows, lengths)
        for those, budget in ((packs, most), (~packs, PADDED_AT_ONCE[kind])):
            chosen = np.flatnonzero(those)
            for group in by_length(lengths[chosen], budget):
                own = chosen[group]
                ids, counts = tokens.gather(rows[own])
                yield Chunk(places[own], TokenStore.of_lengths(ids, counts, self.text_tokenizer.pad_id), those is packs)

    def _which_pack(self, tokens: TokenStore, rows: IntArray, lengths: IntArray) -> BoolArray:
        """Which sentences can be packed: not empty, not longer than tested, no padding token in the text."""
        self.reaches(int(lengths.max(initial=1)))
        packs: BoolArray = (lengths > 0) & (lengths <= self._reach)
        if self._uncounted is not None:
            odd = np.flatnonzero(tokens.gather(rows)[0] == self._uncounted)
            packs[np.searchsorted(np.cumsum(lengths), odd, side="right")] = False
        return packs

    # ── from chunks to vectors ──────────────────────────────────────────────────────────────────────────────────────────

    def _filled(self, count: int, chunks: Iterable[Chunk], done: Done) -> FloatArray:
        """Compute all chunks, a few at a time, and write the embeddings to their rows."""
        vectors = np.empty((count, self.dimension), dtype=np.float32)
        waiting: deque[tuple[Chunk, Callable[[], FloatArray]]] = deque()

        def finish() -> None:
            chunk, arrive = waiting.popleft()
            found = arrive()
            if chunk.packs and not np.isfinite(found).all():
                found = self._padded(chunk)  # half precision ends at 65,504
            vectors[chunk.rows] = found
            done(len(chunk.rows))

        workers = self._workers(count)
        with torch.inference_mode(), self._at_work(workers) as submit:
            for chunk in chunks:
                waiting.append((chunk, submit(chunk)))
                if len(waiting) > IN_FLIGHT * workers:
                    finish()
            while waiting:
                finish()
        return vectors

    def _workers(self, sentences: int) -> int:
        """One for CUDA; on a CPU one per core, if there are enough sentences."""
        return 1 if self.device.type == "cuda" else max(1, min(torch.get_num_threads(), sentences))

    @contextmanager
    def _at_work(self, workers: int) -> Iterator[Callable[[Chunk], Callable[[], FloatArray]]]:
        """A function that starts a chunk and returns a function that waits for its embeddings."""
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                yield self._launch
            return
        with core_pool(workers) as pool:
            yield lambda chunk: pool.submit(self._compute, chunk).result

    def _launch(self, chunk: Chunk) -> Callable[[], FloatArray]:
        try:
            vectors = self._vectors(chunk)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            logger.warning("%d tokens at once do not fit into GPU memory; they are computed in parts", len(chunk.tokens.ids))
            found = self._padded(chunk)
            return lambda: found
        landing = torch.empty(vectors.shape, dtype=torch.float32, pin_memory=True)
        landing.copy_(vectors, non_blocking=True)
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()

        def arrive() -> FloatArray:
            event.synchronize()
            arrived: FloatArray = landing.numpy()
            return arrived

        return arrive

    def _compute(self, chunk: Chunk) -> FloatArray:
        with torch.inference_mode():  # the mode is per thread
            vectors: FloatArray = self._vectors(chunk).numpy()
        return vectors

    def _vectors(self, chunk: Chunk) -> Tensor:
        if not chunk.packs or self.way is None:
            return torch.from_numpy(self._padded(chunk))
        packed = chunk.packed(self.device)
        features = {"sentence_embedding": pooled_runs(self.way(packed), packed.runs, self.pooling)}
        for module in self.tail:
            features = module(features)
        return features["sentence_embedding"][:, : self.dimension]

    def _padded(self, chunk: Chunk) -> FloatArray:
        """The same embeddings from the model itself."""
        vectors = np.empty((len(chunk.rows), self.dimension), dtype=np.float32)
        with torch.inference_mode():
            for places in by_length(chunk.tokens.lengths, PADDED_AT_ONCE[self.device.type]):
                features = chunk.tokens.padded(places)
                if not features["input_ids"].shape[1]:  # no tokens at all: the model needs at least one
                    features["input_ids"] = torch.full((len(places), 1), self.text_tokenizer.pad_id)
                    features["attention_mask"] = torch.zeros((len(places), 1), dtype=torch.int64)
                features = {name: value.to(self.device) for name, value in features.items()}
                own = self.model(features)["sentence_embedding"][:, : self.dimension]
                vectors[places] = own.float().cpu().numpy()
        return vectors


def fast_encoder(model: "SentenceTransformer", prompt: str = "", dtype: torch.dtype = torch.float32) -> FastEncoder | None:
    """A fast encoder for a model, or None if its kind is not supported. The model is not changed.

    It may copy the current weights: after training, make a new one.
    """
    if not _is_known(model, prompt):
        return None
    model.eval()
    fast = FastEncoder(model, prompt, dtype)
    return fast if fast.reaches(min(TRIED_FIRST, fast.text_tokenizer.max_tokens)) else None


def trusted_encoder(
    model: "SentenceTransformer", name: str, prompt: str, dtype: torch.dtype, agrees: Callable[[FastEncoder], bool]
) -> FastEncoder | None:
    """A fast encoder that gives the model's own embeddings, as far as `agrees` can see; in `dtype` if possible."""
    for tried in dict.fromkeys((dtype, torch.float32)):
        found = fast_encoder(model, prompt, tried)
        if found is None or agrees(found):
            return found
        logger.warning("%s: the fast encoder gives other embeddings in %s, so it is not used", name, tried)
    return None


def alike(found: FloatArray, expected: FloatArray, dtype: torch.dtype) -> bool:
    """Whether rows that were computed in `dtype` are those of single precision, up to rounding."""
    if not np.isfinite(found).all():
        return False
    if dtype == torch.float32:
        return bool(np.abs(found - expected).max() <= ALIKE_SINGLE * max(1.0, float(np.abs(expected).max())))
    sizes = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    return bool(((expected * found).sum(axis=1) >= ALIKE_HALF[dtype] * sizes).all())


@contextmanager
def core_pool(workers: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that compute side by side, each with its share of the cores."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(threads)  # new threads take the number that was set last, in any thread


def pooled_runs(states: Tensor, runs: Sequence[EqualLengths], how: str) -> Tensor:
    """Pool token states in order of length to embeddings in single precision; `packed.pooled` takes any order."""
    if how == "cls":
        return torch.cat([run.of(states)[:, 0].float() for run in runs])
    if how == "max":
        return torch.cat([run.of(states).amax(1).float() for run in runs])
    return torch.cat([run.of(states).mean(1, dtype=torch.float32) for run in runs])


def _is_known(model: "SentenceTransformer", prompt: str) -> bool:
    """Whether the modules are a transformer, a supported pooling, then Dense and Normalize layers."""
    from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer

    modules: list[Any] = list(model)
    if [type(module) for module in modules[:2]] != [Transformer, Pooling]:
        return False
    tail = all(
        type(module) in (Dense, Normalize) and module.module_input_name == module.module_output_name == "sentence_embedding"
        for module in modules[2:]
    )
    body, pooling = modules[0].auto_model, modules[1]
    pools = pooling.pooling_mode in POOLINGS and (pooling.include_prompt or not prompt)
    ends = 0 < (model.max_seq_length or 0) <= LONGEST
    return tail and pools and ends and isinstance(body, nn.Module) and str(body.device.type) in TOKENS_AT_ONCE


def _own_modules(body: "PreTrainedModel", dtype: torch.dtype) -> Way | None:
    """The model's own modules, copied and set up for packed sentences."""
    if body.config.model_type == "mpnet":
        return None  # its packing holds one chunk at a time, but threads need several
    own, open_for_good = copied(body, dtype), ExitStack()
    open_for_good.enter_context(packing(own))
    fuse(own)

    def states(packed: Packed, _held: ExitStack = open_for_good) -> Tensor:
        return hidden_states(own, packed)

    return states
