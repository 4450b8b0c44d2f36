"""Vectors of many sentences as one .npy file, made in parts: what is interrupted goes on from the last of them.

    OUT                              sentences × dimension, float32; it appears when all is done
    OUT.unfinished/KEY-00000.npy     parts on their way; KEY names the model and the sentences

Every distinct sentence is computed once, the longest first, in parts whose borders depend on the sentences alone: so an
interrupted file ends as one that was not. `cache` keeps vectors for everybody, in half precision; here they stay as they are.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from isogloss.checksums import load_array, save_array
from isogloss.models.encoder import Encoder
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import ContentHash, atomic_write, folder_lock
from isogloss.types import FloatArray, IntArray

A_PART, A_PART_ON_CUDA = 4096, 65_536  # sentences: what a kill may cost, what a GPU needs to be kept busy
UNFINISHED = ".unfinished"
STAGE = "embed"


def embed_file(
    encoder: Encoder,
    texts: Sequence[str],
    out: Path,
    finish: Callable[[FloatArray], FloatArray] | None = None,
    on_progress: OnProgress = silent,
) -> tuple[int, int]:
    """Write the vectors of `texts` to `out`, one row each; rows and dimension. `finish` may change them at the end."""
    distinct = list(dict.fromkeys(texts))
    order = np.argsort([-len(text) for text in distinct], kind="stable")
    parts = _borders(len(distinct), _sentences_a_part(encoder))
    if len(parts) == 1:
        vectors = encoder.encode(distinct, on_progress, STAGE)
        return _write(vectors, distinct, texts, out, finish)
    folder = out.with_name(out.name + UNFINISHED)
    with folder_lock(folder, "another isogloss is writing these vectors", "wait for it, or name another --out"):
        vectors = _in_parts(encoder, distinct, order, parts, folder, on_progress)
        shape = _write(vectors, distinct, texts, out, finish)
    shutil.rmtree(folder, ignore_errors=True)
    return shape


def _in_parts(
    encoder: Encoder, texts: Sequence[str], order: IntArray, parts: Sequence[slice], folder: Path, on_progress: OnProgress
) -> FloatArray:
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    key = _key(encoder, texts)
    for other in folder.glob("*.npy"):  # of other sentences, or another model
        if not other.name.startswith(key):
            other.unlink()
    reused = 0
    for number, part in enumerate(parts):
        path, rows = folder / f"{key}-{number:05d}.npy", order[part]
        kept = load_array(path)
        if kept is not None and kept.shape == (len(rows), encoder.dimension) and kept.dtype == np.float32:
            vectors[rows] = kept
            reused += len(rows)
        else:
            vectors[rows] = encoder.encode([texts[row] for row in rows])
            save_array(path, vectors[rows])
        on_progress(Step(STAGE, part.stop, len(texts), "sentences", f"{reused:,} found again" if reused else ""))
    return vectors


def _write(
    vectors: FloatArray,
    distinct: Sequence[str],
    texts: Sequence[str],
    out: Path,
    finish: Callable[[FloatArray], FloatArray] | None,
) -> tuple[int, int]:
    if len(distinct) != len(texts):
        place = {text: row for row, text in enumerate(distinct)}
        vectors = vectors[[place[text] for text in texts]]
    if finish is not None:
        vectors = finish(vectors)
    with atomic_write(out) as temporary, temporary.open("wb") as handle:
        np.save(handle, vectors)
    return len(vectors), int(vectors.shape[1])


def _borders(count: int, most: int) -> list[slice]:
    """Parts of about equal size: a short last one would be computed by other means than the rest."""
    parts = max(1, -(-count // most))
    return [slice(count * number // parts, count * (number + 1) // parts) for number in range(parts)]


def _sentences_a_part(encoder: Encoder) -> int:
    import torch

    wanted = A_PART_ON_CUDA if torch.cuda.is_available() else A_PART
    return max(wanted, int(getattr(encoder, "at_once", 0)))  # some are slow to start and want all at once


def _key(encoder: Encoder, texts: Sequence[str]) -> str:
    digest = ContentHash()
    digest.add(encoder.fingerprint, *texts)
    return digest.name()[:16]
