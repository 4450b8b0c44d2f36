"""LASER through its own package: LASER2 for its 93 languages, LASER3 for one language at a time.

The package `laser_encoders` downloads the weights when they are first needed. Embeddings are 1024-d and not normalized.
"""

from importlib.metadata import version

import numpy as np

from isogloss.errors import ModelError
from isogloss.models.encoders.external import ExternalEncoder, optional_package
from isogloss.storage import content_hash
from isogloss.types import FloatArray

PACKAGE = "laser_encoders"


class LaserEncoder(ExternalEncoder):
    """LASER2, or the LASER3 encoder of a language (`wol_Latn`)."""

    dimension = 1024
    batch_size = 512

    def __init__(self, language: str = "") -> None:
        self.language = language
        self.name = f"laser:{language}" if language else "laser"
        package = optional_package(PACKAGE, "LASER", PACKAGE)
        try:
            self._pipeline = package.LaserEncoderPipeline(**({"lang": language} if language else {"laser": "laser2"}))
        except Exception as error:
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(
                f"{self.name}: LASER cannot be opened ({reason})",
                hint="is the language one of LASER3's, such as wol_Latn? its weights come from dl.fbaipublicfiles.com",
            ) from error

    def _identity(self) -> str:
        """The package's version and the language choose the weights."""
        return content_hash("laser", self.language, version(PACKAGE))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        return np.asarray(self._pipeline.encode_sentences(texts), dtype=np.float32)
