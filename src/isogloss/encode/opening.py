"""One way to any model that gives vectors, by its name.

all-MiniLM-L6-v2, org/name, runs/mine    sentence-transformers: carried, hub, folder, finished run (`encoder`)
muse                                     mUSE, from its PyPI package (`muse`)
laser, laser:wol_Latn                    LASER2, or LASER3 of a language (`laser`)
onnx:FOLDER                              an ONNX export (`onnx_model`)
cmd:COMMAND                              a program that turns lines into vectors (`command`)
http://HOST/v1/embeddings                a service in the OpenAI style (`endpoint`)
"""

from pathlib import Path

from isogloss.encode.encoder import Encoder, load
from isogloss.errors import ModelError


def open_encoder(name: str, device: str = "auto") -> Encoder:
    """Open a model of any kind by its name; `device` is for those that torch computes."""
    kind, colon, rest = name.partition(":")
    if name.startswith(("http://", "https://")):
        from isogloss.encode.endpoint import Endpoint

        return Endpoint(name)
    if colon and kind in ("onnx", "cmd") and not rest.strip():
        raise ModelError(f"{name} names nothing", hint="onnx:FOLDER names an ONNX export, cmd:COMMAND a program")
    if colon and kind == "onnx":
        from isogloss.encode.onnx_model import OnnxEncoder

        return OnnxEncoder(Path(rest))
    if colon and kind == "cmd":
        from isogloss.encode.command import CommandEncoder

        return CommandEncoder(rest)
    if kind == "laser" and not Path(name).is_dir():
        from isogloss.encode.laser import LaserEncoder

        return LaserEncoder(rest)
    if name == "muse" and not Path(name).is_dir():
        from isogloss.encode.muse import MuseEncoder

        return MuseEncoder()
    return load(name, device=device)
