"""One way to any model that gives vectors, by its name.

all-MiniLM-L6-v2, org/name, runs/mine    sentence-transformers: carried, hub, folder, finished run (`encoder`)
muse                                     mUSE, from its PyPI package (`muse`)
laser, laser:wol_Latn                    LASER2, or LASER3 of a language (`laser`)
onnx:FOLDER                              an ONNX export (`onnx_model`)
cmd:COMMAND                              a program that turns lines into vectors (`command`)
http://HOST/v1/embeddings                a service in the OpenAI style (`endpoint`)
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from isogloss.errors import ModelError
from isogloss.models import loading as models
from isogloss.models.encoder import Encoder, load
from isogloss.progress import OnProgress, silent
from isogloss.storage import content_hash
from isogloss.types import FloatArray


class Prompted:
    """An encoder that is given every sentence with a text before it."""

    def __init__(self, encoder: Encoder, prompt: str) -> None:
        self.encoder, self.prompt, self.name = encoder, prompt, encoder.name

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> str:
        """Names the encoder and the prompt."""
        return content_hash(self.encoder.fingerprint, self.prompt)

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One row a sentence."""
        return self.encoder.encode([self.prompt + text for text in texts], on_progress, stage)


def open_encoder(name: str, device: str = "auto", prompt: str = "") -> Encoder:
    """Open a model of any kind by its name; `device` is for those that torch computes, `prompt` goes before every sentence."""
    other = _other_kind(name)
    if other is None:
        return load(name, prompt, device=device)
    return Prompted(other, prompt) if prompt else other


def refuse_missing(names: Iterable[str]) -> None:
    """Say before the work what can be known without loading: folders that are not there, or have no model in them."""
    for name in names:
        other = name.startswith(("http://", "https://", "onnx:", "cmd:", "laser")) or name == "muse"
        if not other or Path(name).is_dir():
            models.refuse_missing(name)


def _other_kind(name: str) -> Encoder | None:
    """A model that is not one of sentence-transformers'; None where it is."""
    kind, colon, rest = name.partition(":")
    if name.startswith(("http://", "https://")):
        from isogloss.models.encoders.endpoint import Endpoint

        return Endpoint(name)
    if colon and kind in ("onnx", "cmd") and not rest.strip():
        raise ModelError(f"{name} names nothing", hint="onnx:FOLDER names an ONNX export, cmd:COMMAND a program")
    if colon and kind == "onnx":
        from isogloss.models.encoders.onnx import OnnxEncoder

        return OnnxEncoder(Path(rest))
    if colon and kind == "cmd":
        from isogloss.models.encoders.command import CommandEncoder

        return CommandEncoder(rest)
    if kind == "laser" and not Path(name).is_dir():
        from isogloss.models.encoders.laser import LaserEncoder

        return LaserEncoder(rest)
    if name == "muse" and not Path(name).is_dir():
        from isogloss.models.encoders.muse import MuseEncoder

        return MuseEncoder()
    return None
