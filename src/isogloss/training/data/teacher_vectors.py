"""The teacher's embeddings of all source sentences, by the rows of the dataset: one float16 matrix, mapped from disk.

    FOLDER/teacher-NAME.npy           sources × dimension
    FOLDER/teacher-NAME.unfinished/   without a cache: what was computed so far

The teacher reads a sentence once: the cache has the others. Sentences are computed in windows, in which they are sorted by
length, so that batches are dense. Memory depends on the window, not on the number of sentences.
"""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from isogloss.checksums import load_array, seal
from isogloss.memory import release_memory
from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder, SentenceEncoder
from isogloss.models.tokenizer_checks import refuse_unknown
from isogloss.models.vector_cache import Float16Rows, VectorCache
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash, explaining_disk, folder_lock, refuse_small_disk
from isogloss.training.data.pair_dataset import PairDataset
from isogloss.training.data.work_files import use

WINDOW = 65_536  # sentences that are sorted by length together
TEACHER_AT_ONCE = 1024


def teacher_rows(
    encoder: Encoder,
    data: PairDataset,
    cache: VectorCache | None = None,
    folder: Path | None = None,
    on_progress: OnProgress = silent,
) -> Float16Rows:
    """The teacher's embedding of every source sentence, by row: mapped from `folder`, or in memory without one.

    What is computed is kept in `cache` for other runs. An embedding that is not finite is refused with its sentence.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="isogloss-") as temporary:
            return np.array(teacher_rows(encoder, data, cache, Path(temporary), on_progress))
    path = folder / f"teacher-{content_hash(encoder.fingerprint, data.source_addresses.view(np.uint8).data)[:16]}.npy"
    use(path)
    kept = load_array(path)
    if kept is not None and kept.shape == (data.sources, encoder.dimension):
        on_progress(Step("teacher", data.sources, data.sources, "sentences", "reused"))
        return kept
    unfinished = path.with_suffix(".unfinished")
    with folder_lock(unfinished, "another isogloss is writing these vectors", "wait for it, or name another folder"):
        copies = 1 if cache is not None else 2
        hint = "free some space, use fewer pairs, or name another output.folder"
        refuse_small_disk(unfinished, 2 * data.sources * encoder.dimension * copies, "the teacher's vectors", hint)
        computed = cache or VectorCache(unfinished, encoder.fingerprint, encoder.dimension)
        vectors = unfinished / "vectors.npy"
        with explaining_disk(unfinished):
            _write(CachedEncoder(encoder, computed, TEACHER_AT_ONCE), data, vectors, on_progress)
        seal(vectors)
        os.replace(vectors, path)
    shutil.rmtree(unfinished, ignore_errors=True)
    release_memory()
    made: Float16Rows = np.load(path, mmap_mode="r")
    return made


def _write(cached: CachedEncoder, data: PairDataset, path: Path, on_progress: OnProgress) -> None:
    """Write the matrix window by window; not through a mapping, since a full disk would end the process."""
    with path.open("wb") as handle:
        header = {"descr": "<f2", "fortran_order": False, "shape": (data.sources, cached.dimension)}
        np.lib.format.write_array_header_1_0(handle, header)
        for start in range(0, data.sources, WINDOW):
            texts = data.source_texts[start : start + WINDOW].to_pylist()
            end = start + len(texts)

            def report(step: Step, end: int = end) -> None:
                note = f"{cached.reused:,} reused from the cache" if cached.reused else ""
                on_progress(replace(step, done=end - step.total + step.done, total=data.sources, note=note))

            if not start and isinstance(cached.encoder, SentenceEncoder):
                refuse_unknown(cached.encoder.unknown_share(texts), cached.name)
            handle.write(cached.stored(texts, report, "teacher").data)
            del texts  # before the next are read
        handle.flush()
        os.fsync(handle.fileno())
