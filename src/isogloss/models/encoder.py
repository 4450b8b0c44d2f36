"""What isogloss needs of a model that is only asked for vectors, and the adapter that any sentence-transformers model gets.

`Encoder` is the protocol; `SentenceEncoder` wraps a loaded model; `embed` is the public way to turn text into vectors,
with the cache if a folder is given. How many sentences are computed quickly is in `fast`. Students, which are also
trained, are in `students/`.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from isogloss.corpora.reading.readers import read_lines
from isogloss.errors import DataError, ModelError
from isogloss.models.loading import choose_device, open_model
from isogloss.models.token_store import TextTokenizer, described
from isogloss.models.tokenizer_checks import MOSTLY, unknown_share
from isogloss.models.vector_cache import VectorCache
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
SAMPLE = 32  # sentences that are computed both ways before the faster one is trusted
LONGEST = 512  # tokens of a text that are looked at, where the model does not cut
PRECISIONS = ("auto", "float32", "float16")
NOT_COMPUTED_WITH = {"_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"}


class Encoder(Protocol):
    """Anything that turns sentences into rows of a matrix."""

    name: str

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Names the weights, the tokenizer and the prompt: equal fingerprints give equal vectors."""
        ...

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence, in the order given."""
        ...


class SentenceEncoder:
    """A sentence-transformers model used as it is: its own pooling, normalization and prompts.

    Once it has been asked for more than a few sentences, the model is taken apart and computed faster (`fast`), if it is of a
    kind that can be and the vectors are the same. On CUDA that is in half precision, unless `precision` is "float32".
    `batch_size` is that of the model's own `encode`, for the first sentences and for other kinds of models.
    """

    def __init__(
        self, model: "SentenceTransformer", name: str, prompt: str = "", batch_size: int = 32, precision: str = "auto"
    ) -> None:
        if precision not in PRECISIONS:
            raise ModelError(f"precision = {precision!r} is not known", hint=f"choose one of {', '.join(PRECISIONS)}")
        self.model, self.name, self.prompt, self.batch_size, self.precision = model, name, prompt, batch_size, precision
        self._asked, self._fast, self._settled = 0, cast("FastEncoder | None", None), False
        self._said_unknown = False

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return embedding_dimension(self.model)

    @cached_property
    def fingerprint(self) -> str:
        """Names weights, tokenizer and prompt."""
        return fingerprint(self.model, self.prompt)

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """Embed `texts`, each distinct one once; a vector that is not finite is refused with the sentence that caused it."""
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        distinct, computed = list(places), 0

        def done(count: int) -> None:
            nonlocal computed
            computed += count
            on_progress(Step(stage, computed, len(distinct), "sentences"))

        self._say_unknown(distinct)
        fast = self._taken_apart(distinct)
        vectors = fast.encode(distinct, done) if fast is not None else self._as_it_is(distinct, done)
        refuse_broken(vectors, distinct, self.name)
        return vectors if len(distinct) == len(texts) else vectors[[places[text] for text in texts]]

    def unknown_share(self, texts: Sequence[str]) -> float:
        """The share of tokens in some of `texts` that are the unknown token; 0 where the tokenizer has none."""
        tokenizer = self.model.tokenizer
        if not texts or getattr(tokenizer, "unk_token_id", None) is None:
            return 0.0
        return unknown_share(TextTokenizer(tokenizer, int(self.model.max_seq_length or LONGEST))(_spread(texts))[0], tokenizer)

    def _say_unknown(self, texts: Sequence[str]) -> None:
        if not self._said_unknown and (share := self.unknown_share(texts)) > MOSTLY:
            self._said_unknown = True
            told = "%s: %.0f %% of the tokens in a text are unknown to its tokenizer, so its vectors say little about the text"
            logger.warning(told, self.name, 100 * share)

    def _as_it_is(self, texts: Sequence[str], done: Callable[[int], None]) -> FloatArray:
        """By the model's own `encode`, the longest first."""
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

    def _taken_apart(self, texts: Sequence[str]) -> "FastEncoder | None":
        """The faster way, once it is worth its preparation; tried once, on some of the texts at hand."""
        self._asked += len(texts)
        if self._settled and self._fast is not None and self._fast.device != self.model.device:
            self._settled = False  # the model was moved since
        if not self._settled and self._asked >= WORTH_PREPARING:
            self._settled, self._fast = True, self._agreeing(_spread(texts))
        return self._fast if self._settled else None

    def _agreeing(self, sample: Sequence[str]) -> "FastEncoder | None":
        import torch

        from isogloss.models.fast_encode import fast_encoder

        half = self.precision == "float16" or (self.precision == "auto" and self.model.device.type == "cuda")
        default = self.model.prompts.get(self.model.default_prompt_name or "", "")
        for dtype in (torch.float16, torch.float32) if half else (torch.float32,):
            fast = fast_encoder(self.model, self.prompt or default or "", dtype)
            if fast is None:
                return None
            if fast.agrees(sample):
                return fast
            logger.warning("%s: its vectors differ when they are computed the faster way in %s", self.name, dtype)
        return None


def _spread(texts: Sequence[str]) -> list[str]:
    """Some texts of all lengths."""
    order = sorted(texts, key=len)
    return [order[int(place)] for place in np.unique(np.linspace(0, len(order) - 1, SAMPLE).astype(int))]


def load(name: str, prompt: str = "", batch_size: int = 32, device: str = "auto", precision: str = "auto") -> SentenceEncoder:
    """Load a model to ask it for vectors: hub name, local folder, finished run, or one that a package carries."""
    return SentenceEncoder(open_model(name).to(choose_device(device)), name, prompt, batch_size, precision)


def embed(
    model: "Encoder | str",
    texts: Sequence[str] | Path,
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
    stage: str = "embed",
) -> FloatArray:
    """Turn sentences into embeddings, one row each.

    `model` is an encoder, or the name of one of any kind (`encoders/open.py`). `texts` is a list, or the path of a file with
    one sentence per line. With `cache`, embeddings are kept on disk as float16 under the model's fingerprint, and only new
    text is computed.
    """
    from isogloss.models.encoders.open import open_encoder  # which opens this module's kind among others

    if isinstance(texts, str):
        raise DataError(
            "embed was given one text, not a list of them", hint="write embed(model, [text]), or Path(...) for a file"
        )
    if isinstance(texts, Path):
        texts = read_lines(str(texts))
    encoder = open_encoder(model) if isinstance(model, str) else model
    if cache is None:
        return encoder.encode(texts, on_progress, stage)
    store = VectorCache(Path(cache), encoder.fingerprint, encoder.dimension)
    return store.embed(texts, encoder.encode, on_progress, stage)[0]


def refuse_broken(vectors: FloatArray, texts: Sequence[str], name: str) -> None:
    """Stop on NaN or infinity: distilled, they would spread to the whole student."""
    flat = vectors.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(flat, flat)):  # one pass tells for all; vectors that overflow it are looked at closely
            return
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        raise ModelError(
            f"{name}: {len(bad)} of {len(vectors)} vectors are not finite, the first for {texts[bad[0]][:60]!r}",
            hint="the model's weights are damaged or overflow in this precision; try another copy of it",
        )


def embedding_dimension(model: "SentenceTransformer") -> int:
    """Length of the vectors a sentence-transformers model gives."""
    dimension = model.get_embedding_dimension()
    if dimension is None:
        raise ModelError("the model does not say how long its vectors are", hint="add a pooling layer to it")
    return int(dimension)


def fingerprint(model: "SentenceTransformer", prompt: str = "") -> str:
    """Hash the weights themselves, so that a copied, renamed or retrained model is told apart by what it computes."""
    digest = ContentHash()
    digest.add(prompt, str(model.max_seq_length), repr(model.prompts), repr(model.default_prompt_name))
    for module in model:  # pooling mode, activation, number of heads: what the weights alone do not tell
        settings = dict(module.get_config_dict()) if hasattr(module, "get_config_dict") else {}
        body = getattr(module, "auto_model", None)
        if body is not None:
            settings |= {key: value for key, value in body.config.to_dict().items() if key not in NOT_COMPUTED_WITH}
        digest.add(type(module).__name__, repr(sorted(settings.items(), key=lambda item: item[0])))
    _add_weights(digest, model)
    tokenizer = model.tokenizer
    digest.add(described(tokenizer))
    return digest.name()


def weights_key(module: "torch.nn.Module") -> str:
    """Names the weights of any module as they are now."""
    digest = ContentHash()
    _add_weights(digest, module)
    return digest.name()


def _add_weights(digest: ContentHash, module: "torch.nn.Module") -> None:
    for name, value in sorted(module.state_dict().items()):
        digest.add(name, _bytes(value))


def _bytes(value: "torch.Tensor") -> memoryview:
    """The tensor's own memory, not a copy of it: a model may be as large as what is left of the machine."""
    import torch

    flat: NDArray[np.uint8] = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    return flat.data
