"""What isogloss needs of a model that is only asked for vectors, and the adapter that any sentence-transformers model gets.

`Encoder` is the protocol; `SentenceEncoder` wraps a loaded model; `embed` is the public way to turn text into vectors,
with the cache if a folder is given. Students, which are also trained, are in `students/`.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from isogloss.encode.cache import VectorCache
from isogloss.encode.models import choose_device, open_model
from isogloss.errors import DataError, ModelError
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import ContentHash
from isogloss.types import FloatArray

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

PROGRESS_EVERY = 64
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
    """A sentence-transformers model used as it is: its own pooling, normalisation and prompts."""

    def __init__(self, model: "SentenceTransformer", name: str, prompt: str = "", batch_size: int = 32) -> None:
        self.model, self.name, self.prompt, self.batch_size = model, name, prompt, batch_size

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return embedding_dimension(self.model)

    @cached_property
    def fingerprint(self) -> str:
        """Names weights, tokenizer and prompt."""
        return fingerprint(self.model, self.prompt)

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """Embed `texts`; a vector that is not finite is refused with the sentence that caused it."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), PROGRESS_EVERY):
            chunk = list(texts[start : start + PROGRESS_EVERY])
            vectors[start : start + len(chunk)] = self.model.encode(
                chunk,
                prompt=self.prompt or None,
                batch_size=self.batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
            on_progress(Step(stage, start + len(chunk), len(texts), "sentences"))
        refuse_broken(vectors, texts, self.name)
        return vectors


def load(name: str, prompt: str = "", batch_size: int = 32, device: str = "auto") -> SentenceEncoder:
    """Load a model to ask it for vectors: hub name, local folder, finished run, or one that a package carries."""
    return SentenceEncoder(open_model(name).to(choose_device(device)), name, prompt, batch_size)


def embed(
    model: "Encoder | str",
    texts: Sequence[str],
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
    stage: str = "embed",
) -> FloatArray:
    """Turn sentences into vectors, one row each.

    With `cache`, vectors are kept on disk as fp16 under the model's fingerprint, and only unseen text is computed.
    """
    encoder = load(model) if isinstance(model, str) else model
    if isinstance(texts, str):
        raise DataError("embed was given one text, not a list of them", hint="write embed(model, [text])")
    if cache is None:
        return encoder.encode(texts, on_progress, stage)
    store = VectorCache(Path(cache), encoder.fingerprint, encoder.dimension)
    return store.embed(texts, encoder.encode, on_progress, stage)[0]


def refuse_broken(vectors: FloatArray, texts: Sequence[str], name: str) -> None:
    """Stop on NaN or infinity: distilled, they would spread to the whole student."""
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
    for name, value in sorted(model.state_dict().items()):
        digest.add(name, _bytes(value))
    tokenizer = model.tokenizer
    digest.add(tokenizer.backend_tokenizer.to_str() if hasattr(tokenizer, "backend_tokenizer") else repr(tokenizer))
    return digest.name()


def _bytes(value: "torch.Tensor") -> memoryview:
    """The tensor's own memory, not a copy of it: a model may be as large as what is left of the machine."""
    import torch

    flat: NDArray[np.uint8] = value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
    return flat.data
