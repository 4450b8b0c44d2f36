"""A model in ONNX and services over it, for all tests of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from isogloss.types import FloatArray
from serve.services import Running, onnx_engine, running, save_onnx


@pytest.fixture(scope="session")
def onnx_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FloatArray]:
    """The folder of a model in ONNX, and its table: the embedding of a text is the mean of the rows of its tokens."""
    folder = tmp_path_factory.mktemp("exported")
    return folder, save_onnx(folder, prompts={"query": "the cat ", "passage": "the dog "}, default_prompt_name=None)


@pytest.fixture(scope="session")
def service(onnx_model: tuple[Path, FloatArray]) -> Iterator[Running]:
    """A service that only reads: tests share it."""
    folder, _table = onnx_model
    prompts = {"query": "the cat ", "passage": "the dog "}
    with running(onnx_engine(folder, prompts=prompts, matryoshka=(2, 4)), max_inputs=50, max_body_mb=1) as service:
        yield service
