"""One program that runs an exported model, in a process of its own: `exports.py` starts it with a job in JSON.

Nothing of isogloss is imported, but for its own encoder: two of the programs need other versions of packages.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Embed = Callable[[list[str]], Any]


def sentence_transformers(job: dict[str, Any]) -> Embed:
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(job["threads"])
    model = SentenceTransformer(job["folder"], device="cpu")
    return lambda texts: model.encode(texts, show_progress_bar=False)


def isogloss(job: dict[str, Any]) -> Embed:
    import torch

    from isogloss.models.encoder import load

    torch.set_num_threads(job["threads"])
    return load(job["folder"], device="cpu").encode


def onnx_backend(job: dict[str, Any]) -> Embed:
    import onnxruntime
    from sentence_transformers import SentenceTransformer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = job["threads"]
    files = {"file_name": job["file"], "provider": "CPUExecutionProvider", "session_options": options}
    model = SentenceTransformer(job["folder"], backend="onnx", device="cpu", model_kwargs=files)
    return lambda texts: model.encode(texts, show_progress_bar=False)


def openvino_backend(job: dict[str, Any]) -> Embed:
    from sentence_transformers import SentenceTransformer

    files = {"file_name": job["file"], "ov_config": {"INFERENCE_NUM_THREADS": str(job["threads"])}}
    model = SentenceTransformer(job["folder"], backend="openvino", device="cpu", model_kwargs=files)
    return lambda texts: model.encode(texts, show_progress_bar=False)


def onnxruntime(job: dict[str, Any]) -> Embed:
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = job["threads"]
    session = InferenceSession(f"{job['folder']}/{job['file']}", options, providers=["CPUExecutionProvider"])
    tokenized = _tokenized(Path(job["folder"]))
    return lambda texts: session.run(["sentence_embedding"], tokenized(texts))[0]


def openvino(job: dict[str, Any]) -> Embed:
    from openvino import Core

    settings = {"INFERENCE_NUM_THREADS": str(job["threads"])}
    model = Core().compile_model(f"{job['folder']}/{job['file']}", "CPU", settings)
    tokenized = _tokenized(Path(job["folder"]))
    return lambda texts: np.array(model(tokenized(texts))["sentence_embedding"])


def fastembed(job: dict[str, Any]) -> Embed:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    TextEmbedding.add_custom_model(
        model="exported",
        pooling=PoolingType.DISABLED,
        normalization=False,
        sources=ModelSource(hf="not/used"),
        dim=job["dimension"],
        model_file=job["file"],
        output_name="sentence_embedding",
    )
    model = TextEmbedding("exported", specific_model_path=job["folder"], threads=job["threads"])
    return lambda texts: np.array(list(model.embed(texts, batch_size=len(texts))))


WAYS: dict[str, Callable[[dict[str, Any]], Embed]] = {
    way.__name__: way
    for way in (sentence_transformers, isogloss, onnx_backend, openvino_backend, onnxruntime, openvino, fastembed)
}


def _tokenized(folder: Path) -> Callable[[list[str]], dict[str, Any]]:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"])
    tokenizer.enable_padding(pad_id=json.loads((folder / "config.json").read_text())["pad_token_id"])

    def inputs(texts: list[str]) -> dict[str, Any]:
        rows = tokenizer.encode_batch(texts)
        given = {"input_ids": [row.ids for row in rows], "attention_mask": [row.attention_mask for row in rows]}
        return {name: np.array(one, dtype=np.int64) for name, one in given.items()}

    return inputs


def in_batches(embed: Embed, texts: list[str], size: int) -> Any:  # noqa: ANN401 - an array
    return np.concatenate([np.asarray(embed(texts[start : start + size])) for start in range(0, len(texts), size)])


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    embed = WAYS[job["way"]](job)
    vectors = in_batches(embed, job["texts"], 32)
    seconds: dict[str, list[float]] = {str(size): [] for size in job["batches"]}
    for _ in range(job["rounds"]):
        for size in job["batches"]:
            began = time.perf_counter()
            in_batches(embed, job["timed"], size)
            seconds[str(size)].append(time.perf_counter() - began)
    found = {"vectors": vectors.tolist(), "seconds": seconds}
    Path(job["out"]).write_text(json.dumps(found), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # some runtimes wait for their threads


if __name__ == "__main__":
    main()
