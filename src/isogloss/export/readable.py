"""A saved folder as other programs read it: servers and older sentence-transformers know the older form of some files.

sentence-transformers 5.4 and later save one key for pooling and new names of classes, and still read the older ones.
text-embeddings-inference wants the older ones: a boolean for each way of pooling, `word_embedding_dimension`, classes of
`sentence_transformers.models`, `max_seq_length` in `sentence_bert_config.json`. So these are written, and pooling in both
forms. What a file says that the older form cannot say is left as it is. Weights come from safetensors readable by their owner
alone; here they get the permissions of any other new file.
"""

import stat
from pathlib import Path
from typing import Any

from isogloss.storage import json_text, read_json

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
BODY = "sentence_bert_config.json"
PLAIN_BODY = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}
SENTENCE = {"module_input_name": "sentence_embedding", "module_output_name": "sentence_embedding"}


def make_readable(folder: Path, max_tokens: int | None) -> None:
    """Rewrite what sentence-transformers just saved to `folder`; `max_tokens` is where the body cuts text."""
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
        elif kind == "Transformer" and max_tokens and read_json(place / BODY) == PLAIN_BODY:
            _write(place / BODY, {"max_seq_length": max_tokens, "do_lower_case": False})
    _write(folder / "modules.json", modules)


def _write(path: Path, value: Any) -> None:  # noqa: ANN401 - whatever JSON can hold
    """Plain JSON, without a checksum of ours: these files are other programs' own."""
    path.write_text(json_text(value), encoding="utf-8")


def _pooling(config: dict[str, Any]) -> dict[str, Any]:
    mode = config["pooling_mode"]
    modes = {mode} if isinstance(mode, str) else set(mode)
    flags = {flag: name in modes for flag, name in POOLING_FLAGS.items()}
    first = {"word_embedding_dimension": config["embedding_dimension"], **flags}
    return first | {key: value for key, value in config.items() if key != "embedding_dimension"}


def share_modes(folder: Path, like: Path) -> None:
    """Give all files of a folder the permissions of one that was made in the ordinary way."""
    mode = stat.S_IMODE(like.stat().st_mode)
    for path in folder.rglob("*"):
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) != mode:
            path.chmod(mode)
