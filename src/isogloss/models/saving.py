"""Write a model atomically as a sentence-transformers folder, in a form that servers and older versions read too.

sentence-transformers 5.4 and later save one key for pooling and new class names. text-embeddings-inference needs the older
form, which new versions read too: a boolean for each pooling mode, `word_embedding_dimension`, classes of
`sentence_transformers.models`, `max_seq_length` in `sentence_bert_config.json`. transformers 4, which optimum's ONNX runtime
still needs, does not know the class of tokenizers that version 5 names. `make_readable` writes the older names, and pooling in
both forms; settings that the older form lacks stay as they are. `loading` reads such a folder and checks its checksums.
"""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isogloss.checksums import SUMS, write_sums
from isogloss.errors import IsoglossError
from isogloss.models.encoder import embedding_dimension
from isogloss.models.loading import quiet_transformers
from isogloss.storage import atomic_write, json_text, read_json, write_json

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

CARD = "README.md"
TRAINING = "isogloss_training.json"  # describes the training data
OLD_PACKAGE = "sentence_transformers.models"
OLD_CLASSES = {"Transformer", "Pooling", "Dense", "Normalize", "StaticEmbedding", "WordEmbeddings", "LSTM"}
POOLING_FLAGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
MATRYOSHKA = "matryoshka_dimensions"
BODY = "sentence_bert_config.json"
PLAIN_BODY = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
TOKENIZER, NEW_TOKENIZER, OLD_TOKENIZER = "tokenizer_config.json", "TokenizersBackend", "PreTrainedTokenizerFast"
SENTENCE = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}


def save_model(
    model: "SentenceTransformer", folder: Path, card: str, training: dict[str, Any] | None = None, origin: Path | None = None
) -> None:
    """Write `model` to `folder`, replacing a model in it.

    `training` describes the training data. If the weights equal those in `origin`, its card and description are kept.
    """
    refuse_other_content(folder)
    with atomic_write(folder) as temporary, quiet_transformers():
        _set_truncation(model)
        model.save(str(temporary), create_model_card=False)
        make_readable(temporary, model.max_seq_length)
        (temporary / CARD).write_text(card, encoding="utf-8")
        if training is not None:
            write_json(temporary / TRAINING, training)
        write_sums(temporary, but=(CARD,))
        if origin is not None and training is None and _same_weights(temporary, origin):
            for name in (CARD, TRAINING):
                if (origin / name).is_file():
                    (temporary / name).write_bytes((origin / name).read_bytes())
            write_sums(temporary, but=(CARD,))
        mode = stat.S_IMODE((temporary / CARD).stat().st_mode)  # of an ordinary new file: safetensors makes weights private
        for path in filter(Path.is_file, temporary.rglob("*")):
            path.chmod(mode)


def _set_truncation(model: "SentenceTransformer") -> None:
    """Truncate in tokenizer.json, too: programs without transformers read the limit there, and it has that of the last call."""
    if getattr(model[0], "auto_model", None) is None or not model.max_seq_length:
        return
    tokenizer = model.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.enable_truncation(int(model.max_seq_length), direction=tokenizer.truncation_side)


def refuse_other_content(folder: Path) -> None:
    """A model replaces a model or an empty folder, never anything else."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "modules.json").is_file():
        raise IsoglossError(
            f"{folder}: the folder contains files that are not a model", hint="name a new folder; nothing was changed"
        )


def make_readable(folder: Path, max_tokens: int | None) -> None:
    """Rewrite what sentence-transformers saved to `folder`; text is truncated at `max_tokens`."""
    modules: list[dict[str, Any]] = read_json(folder / "modules.json")
    for module in modules:
        kind, place = str(module["type"]).rsplit(".", 1)[-1], folder / module["path"]
        if str(module["type"]).startswith("sentence_transformers.") and kind in OLD_CLASSES:
            module["type"] = f"{OLD_PACKAGE}.{kind}"
        if kind == "Pooling":
            _write(place / "config.json", _pooling(read_json(place / "config.json")))
        elif kind == "Dense":
            config = read_json(place / "config.json")
            _write(place / "config.json", {key: value for key, value in config.items() if SENTENCE.get(key) != value})
        elif kind == "Transformer":
            _make_body_readable(place, max_tokens)
    _write(folder / "modules.json", modules)


def _make_body_readable(place: Path, max_tokens: int | None) -> None:
    if max_tokens and read_json(place / BODY) == PLAIN_BODY:
        _write(place / BODY, {"max_seq_length": max_tokens, "do_lower_case": False})
    tokenizer = read_json(place / TOKENIZER) if (place / TOKENIZER).is_file() else {}
    if tokenizer.get("tokenizer_class") == NEW_TOKENIZER:
        _write(place / TOKENIZER, tokenizer | {"tokenizer_class": OLD_TOKENIZER})


def set_matryoshka_dimensions(model: "SentenceTransformer", sizes: Sequence[int]) -> None:
    """Say in config.json to which sizes embeddings can be truncated: vLLM and SGLang refuse others, and all if none is named.

    Without `sizes`, what another training may have left there is removed.
    """
    config = getattr(getattr(model[0], "auto_model", None), "config", None)
    if config is None:
        return
    vars(config).pop(MATRYOSHKA, None)
    if sizes:
        setattr(config, MATRYOSHKA, sorted({*sizes, embedding_dimension(model)}))


def _write(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Plain JSON without our checksum key, for files of other programs."""
    path.write_text(json_text(value), encoding="utf-8")


def _pooling(config: dict[str, Any]) -> dict[str, Any]:
    mode = config["pooling_mode"]
    modes = {mode} if isinstance(mode, str) else set(mode)
    flags = {flag: name in modes for flag, name in POOLING_FLAGS.items()}
    first = {"word_embedding_dimension": config["embedding_dimension"], **flags}
    return first | {key: value for key, value in config.items() if key != "embedding_dimension"}


def _same_weights(folder: Path, other: Path) -> bool:
    """Whether two folders have checksums, and the same ones for all weights."""
    if not (other / SUMS).is_file():
        return False
    sums = [(place / SUMS).read_text(encoding="utf-8").splitlines() for place in (folder, other)]
    weights = [[line for line in lines if line.endswith(".safetensors")] for lines in sums]
    return weights[0] == weights[1]
