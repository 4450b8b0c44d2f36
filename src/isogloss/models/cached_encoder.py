"""An encoder that keeps what it computed: each distinct sentence is encoded once, in this process and in all later ones.

Evaluation, mining, `embed`, the similarity rule of cleaning and the teacher's side of an evaluation all encode through it.
What is on disk and how it is found again is in `vector_cache`; the teacher's embeddings of a whole corpus, which do not fit
into memory, are in `training.data.teacher_vectors` and use the same cache.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from isogloss.corpora.reading.readers import read_lines
from isogloss.errors import DataError
from isogloss.models.encoder import Encoder, refuse_broken
from isogloss.models.vector_cache import Float16Rows, VectorCache, longest_first, text_keys
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import atomic_write, folder_lock
from isogloss.types import FloatArray

CHUNK = 512  # sentences per call of the encoder on a CPU: what an interruption may cost


class CachedEncoder:
    """An `Encoder` in front of a `VectorCache`. Without a cache it only makes sure that sentences are encoded once.

    Embeddings have the precision of the cache, float16 unless it says otherwise. What was computed is on disk every few
    seconds and when the work is interrupted; the next call computes the rest. `reused` counts the sentences that were found.
    """

    def __init__(self, encoder: Encoder, cache: "Path | str | VectorCache | None", chunk: int = 0) -> None:
        """On a CPU, `chunk` sentences (0: `CHUNK`) are computed at once, or as many as the encoder wants."""
        self.encoder, self.name, self.reused = encoder, encoder.name, 0
        self._chunk = max(chunk or CHUNK, getattr(encoder, "chunk_size", 0))
        if isinstance(cache, Path | str):
            cache = VectorCache(Path(cache), encoder.fingerprint, encoder.dimension)
        self.cache = cache

    @property
    def dimension(self) -> int:
        """Size of an embedding."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """That of the encoder itself."""
        return self.encoder.fingerprint

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row per sentence, in the order given; the longest sentences are computed first."""
        if self.cache is None:
            return self.encoder.encode(texts, on_progress, stage)
        return self.stored(texts, on_progress, stage).astype(np.float32)

    def stored(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> Float16Rows:
        """The same in the precision of the cache."""
        assert self.cache is not None
        keys, first, place = np.unique(text_keys(texts), return_index=True, return_inverse=True)
        known, found = self.cache.find(keys)
        vectors = np.empty((len(keys), self.dimension), dtype=found.dtype)
        vectors[known] = found
        reused = int(known[place].sum())
        self.reused += reused
        missing = np.sort(first[~known])
        note = f"{reused:,} reused from the cache" if reused else ""
        total = len(missing) or len(texts)

        def report(done: int) -> None:
            on_progress(Step(stage, done, total, "sentences", note))

        report(total - len(missing))
        if not len(missing):
            return vectors[place]
        done = 0

        def compute(chunk: Sequence[str]) -> FloatArray:
            computed = self.encoder.encode(chunk, lambda step: report(done + step.done))
            refuse_broken(computed, chunk, self.name)
            return computed

        with self.cache.keeping() as keep:
            for rows, computed in longest_first([texts[row] for row in missing], compute, self._chunk, vectors.dtype):
                where = place[missing[rows]]
                vectors[where] = computed
                keep(keys[where], computed)
                done += len(rows)
                report(done)
        return vectors[place]


def embed(
    model: "Encoder | str",
    texts: Sequence[str] | Path,
    cache: Path | str | None = None,
    on_progress: OnProgress = silent,
    stage: str = "embed",
) -> FloatArray:
    """Turn sentences into embeddings, one row each.

    `model` is an encoder, or the name of one of any kind (see `open_encoder`). `texts` is a list, or the path of a file with
    one sentence per line. With `cache`, embeddings are kept in that folder as float16 under the model's fingerprint, and only
    new sentences are computed.
    """
    from isogloss.models.encoders.open import open_encoder

    if isinstance(texts, str):
        raise DataError(
            "embed was given one text, not a list of them", hint="write embed(model, [text]), or Path(...) for a file"
        )
    if isinstance(texts, Path):
        texts = read_lines(str(texts))
    encoder = open_encoder(model) if isinstance(model, str) else model
    return CachedEncoder(encoder, cache).encode(texts, on_progress, stage)


def embed_file(
    encoder: Encoder,
    texts: Sequence[str],
    out: Path,
    finish: Callable[[FloatArray], FloatArray] | None = None,
    on_progress: OnProgress = silent,
) -> tuple[int, int]:
    """Write the embeddings of `texts` to the .npy file `out`, float32, one row each; return the shape.

    `finish` may change them at the end. Interrupted work continues from `OUT.unfinished/`, a cache in full precision. Chunks
    depend on the sentences alone, so an interrupted file ends up the same as one that was not.
    """

    def write(encoder: Encoder) -> tuple[int, int]:
        vectors = encoder.encode(texts, on_progress, "embed")
        vectors = vectors if finish is None else finish(vectors)
        with atomic_write(out) as temporary, temporary.open("wb") as handle:
            np.save(handle, vectors)
        return len(vectors), int(vectors.shape[1])

    if len(set(texts)) <= CHUNK:
        return write(encoder)
    folder = out.with_name(f"{out.name}.unfinished")
    with folder_lock(folder, "another isogloss is writing these embeddings", "wait for it, or name another --out"):
        shape = write(CachedEncoder(encoder, VectorCache(folder, encoder.fingerprint, encoder.dimension, "<f4")))
    shutil.rmtree(folder, ignore_errors=True)
    return shape
