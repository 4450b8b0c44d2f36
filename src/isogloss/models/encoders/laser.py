"""LASER through its own package: LASER2 for its 93 languages, LASER3 for one language at a time.

The package `laser_encoders` fetches the weights when they are first needed. Vectors are as it gives them, 1024-d and not
normalized.
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

PACKAGE = "laser_encoders"
AT_ONCE = 512


class LaserEncoder:
    """LASER2, or the LASER3 encoder of a language (`wol_Latn`)."""

    dimension = 1024

    def __init__(self, language: str = "") -> None:
        self.language = language
        self.name = f"laser:{language}" if language else "laser"
        try:
            package: Any = import_module(PACKAGE)
        except ImportError as error:
            raise ModelError("LASER is not installed here", hint=f"pip install {PACKAGE}") from error
        try:
            chosen = {"lang": language} if language else {"laser": "laser2"}
            self._pipeline = package.LaserEncoderPipeline(**chosen)
        except Exception as error:
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(
                f"{self.name}: LASER cannot be opened ({reason})",
                hint="is the language one of LASER3's, such as wol_Latn? its weights come from dl.fbaipublicfiles.com",
            ) from error

    @property
    def fingerprint(self) -> str:
        """Names the package's version and the language, which choose the weights."""
        return content_hash("laser", self.language, version(PACKAGE))

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence, each distinct one computed once."""
        return each_once(texts, self._some, AT_ONCE, self.name, on_progress, stage)

    def _some(self, texts: list[str]) -> FloatArray:
        return np.asarray(self._pipeline.encode_sentences(texts), dtype=np.float32)
