"""The `Encoder` protocol, and `SentenceEncoder`, which wraps any sentence-transformers model.

`fast_encode` makes encoding fast, `cached_encoder` keeps embeddings on disk, `encoders/` has models that are not from
sentence-transformers. Students, which are also trained, are in `student`.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.loading import choose_device, open_model
from isogloss.models.token_store import TextTokenizer, described
from isogloss.models.tokenizer_checks import MOSTLY, unknown_share
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import ContentHash
from isogloss.types import FloatArray

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

    from isogloss.models.fast_encode import FastEncoder

logger = logging.getLogger(__name__)

PROGRESS_EVERY = 64
WORTH_PREPARING = 256  # sentences
SAMPLE = 32  # sentences on which the fast encoder is compared with the model
MAX_TOKENS = 512  # per text when unknown tokens are counted, if the model has no limit
PROMPT_NAME, QUERY_PROMPT = "isogloss", "query"
DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # as sentence-transformers looks for them
PRECISIONS = ("auto", "float32", "float16", "bf16")
NOT_COMPUTED_WITH = {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}


class Encoder(Protocol):
    """A model that turns sentences into embeddings. `encoders.open.open_encoder` opens one by name."""

    name: str

    @property
    def dimension(self) -> int:
        """Size of an embedding."""
        ...

    @property
    def fingerprint(self) -> str:
        """Identifies weights, tokenizer and prompt: equal fingerprints mean equal embeddings."""
        ...

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row per sentence, in the order given."""
        ...


class SentenceEncoder:
    """A sentence-transformers model with its own pooling, normalization and prompts.

    After the first few hundred sentences `fast_encode` computes the embeddings, if it supports the architecture and they are
    the same; on CUDA in half precision, unless `precision` is "float32", and on a CPU in single precision, unless it is "bf16"
    (see `for_training`). `batch_size` is for the model's own `encode`, which is used for the first sentences and for other
    architectures.
    """

    def __init__(
        self, model: "SentenceTransformer", name: str, prompt: str = "", batch_size: int = 32, precision: str = "auto"
    ) -> None:
        if precision not in PRECISIONS:
            raise ModelError(f"precision = {precision!r} is not known", hint=f"choose one of {', '.join(PRECISIONS)}")
        self.model, self.name, self.prompt, self.batch_size, self.precision = model, name, prompt, batch_size, precision
        self.role_prompts: Mapping[str, str] = {}  # see `encoders.roles`
        self._texts_seen, self._warned = 0, False
        self._fast: FastEncoder | None = None
        self._fast_tried = False

    @property
    def dimension(self) -> int:
        """Size of an embedding."""
        return embedding_dimension(self.model)

    @cached_property
    def fingerprint(self) -> str:
        """Identifies weights, tokenizer and prompt, and bf16: where vectors are kept by it, those of float32 are apart."""
        return fingerprint(self.model, self.prompt) + ("-bf16" if self.precision == "bf16" else "")

    def for_training(self) -> "SentenceEncoder":
        """The encoder for sentences that a student learns from: with `precision` "auto" in bf16, if the CPU computes it.

        What is measured or searched is encoded in single precision, so that it is the same on every CPU.
        """
        from isogloss.kernels.native_bf16 import computes_bf16

        device = self.model.device
        if self.precision != "auto" or device.type != "cpu" or not computes_bf16(device):
            return self
        return SentenceEncoder(self.model, self.name, self.prompt, self.batch_size, "bf16")

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """Embed `texts`, each distinct one once. Raises for embeddings that are not finite, with the sentence."""
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        distinct, computed = list(places), 0

        def done(count: int) -> None:
            nonlocal computed
            computed += count
            on_progress(Step(stage, computed, len(distinct), "sentences"))

        if not self._warned and (share := self.unknown_share(distinct)) > MOSTLY:
            self._warned = True
            message = "%s: %.0f %% of the tokens are unknown to its tokenizer, so its embeddings say little about the text"
            logger.warning(message, self.name, 100 * share)
        fast = self._fast_encoder(distinct)
        vectors = fast.encode(distinct, done) if fast is not None else self._plainly(distinct, done)
        refuse_broken(vectors, distinct, self.name)
        return vectors if len(distinct) == len(texts) else vectors[[places[text] for text in texts]]

    def unknown_share(self, texts: Sequence[str]) -> float:
        """The share of unknown tokens in a sample of `texts`; 0 if the tokenizer has no unknown token."""
        tokenizer = self.model.tokenizer
        if not texts or getattr(tokenizer, "unk_token_id", None) is None:
            return 0.0
        ids, _lengths = TextTokenizer(tokenizer, int(self.model.max_seq_length or MAX_TOKENS))(_spread(texts))
        return unknown_share(ids, tokenizer)

    def _plainly(self, texts: Sequence[str], done: Callable[[int], None]) -> FloatArray:
        """With the model's own `encode`, the longest first."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        order = np.argsort([-len(text) for text in texts], kind="stable")
        at_once = max(PROGRESS_EVERY, self.batch_size)
        for start in range(0, len(texts), at_once):
            rows = order[start : start + at_once]
            vectors[rows] = self.model.encode(
                [texts[row] for row in rows],
                prompt=self.prompt or None,
                batch_size=self.batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            done(len(rows))
        return vectors

    def _fast_encoder(self, texts: Sequence[str]) -> "FastEncoder | None":
        """The fast encoder after the first few hundred texts; made again if the model was moved."""
        self._texts_seen += len(texts)
        moved = self._fast is not None and self._fast.device != self.model.device
        if moved or (not self._fast_tried and self._texts_seen >= WORTH_PREPARING):
            self._fast_tried, self._fast = True, self._agreeing(_spread(texts))
        return self._fast

    def _agreeing(self, sample: Sequence[str]) -> "FastEncoder | None":
        """A fast encoder that gives the model's own embeddings of the sample."""
        from isogloss.models.fast_encode import trusted_encoder

        prompt = self.prompt or self.model.prompts.get(self.model.default_prompt_name or "") or ""
        return trusted_encoder(self.model, self.name, prompt, self._dtype(), lambda fast: fast.agrees(sample))

    def _dtype(self) -> "torch.dtype":
        import torch

        own = "float16" if self.model.device.type == "cuda" else "float32"
        named = {"auto": own, "bf16": "bfloat16"}
        dtype: torch.dtype = getattr(torch, named.get(self.precision, self.precision))
        return dtype


def _spread(texts: Sequence[str]) -> list[str]:
    """A sample of texts of all lengths."""
    order = sorted(texts, key=len)
    return [order[int(place)] for place in np.unique(np.linspace(0, len(order) - 1, SAMPLE).astype(int))]


def load(name: str, prompt: str = "", batch_size: int = 32, device: str = "auto", precision: str = "auto") -> SentenceEncoder:
    """Load a sentence-transformers model: hub name, local folder, finished run, or bundled model."""
    return SentenceEncoder(open_model(name).to(choose_device(device)), name, prompt, batch_size, precision)


def refuse_broken(vectors: FloatArray, texts: Sequence[str], name: str) -> None:
    """Raise for NaN or infinity: distilled, they would spread to the whole student."""
    flat = vectors.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(flat, flat)):  # fast; rows are checked only if it overflows
            return
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ModelError(
            f"{name}: {len(bad)} of {len(vectors)} vectors are not finite, the first for {texts[bad[0]][:60]!r}",
            hint="the model's weights are damaged or overflow in this precision; try another copy of it",
        )


def embedding_dimension(model: "SentenceTransformer") -> int:
    """Size of a sentence-transformers model's embeddings."""
    dimension = model.get_embedding_dimension()
    if dimension is None:
        raise ModelError("the model does not state the size of its embeddings", hint="add a pooling layer to it")
    return int(dimension)


def fingerprint(model: "SentenceTransformer", prompt: str = "") -> str:
    """Hash the weights themselves: a renamed copy has the same fingerprint, a retrained model another."""
    digest = ContentHash()
    # Empty, our own prompt only marks a folder.
    prompts = {name: text for name, text in model.prompts.items() if text or name != PROMPT_NAME}
    digest.add(prompt, str(model.max_seq_length), repr(prompts), repr(model.default_prompt_name))
    for module in model:  # pooling mode, activation, number of heads: not visible in the weights
        settings = dict(module.get_config_dict()) if hasattr(module, "get_config_dict") else {}
        body = getattr(module, "auto_model", None)
        if body is not None:
            settings |= {key: value for key, value in body.config.to_dict().items() if key not in NOT_COMPUTED_WITH}
        digest.add(type(module).__name__, repr(sorted(settings.items(), key=lambda item: item[0])))
    _add_weights(digest, model)
    digest.add(described(model.tokenizer))
    return digest.name()


def weights_key(module: "torch.nn.Module") -> str:
    """Hash of the current weights of any module."""
    digest = ContentHash()
    _add_weights(digest, module)
    return digest.name()


def _add_weights(digest: ContentHash, module: "torch.nn.Module") -> None:
    """Add the memory of each tensor, without a copy: large models may fill most of the RAM."""
    import torch

    for name, value in sorted(module.state_dict().items()):
        digest.add(name, value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
