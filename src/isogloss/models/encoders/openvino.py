"""An OpenVINO export of a sentence-transformers model, run by openvino on the CPU.

A folder has `openvino/openvino_model.xml` and `.bin`, and `tokenizer.json`; `openvino:FOLDER/openvino/openvino_model_qint8.xml`
names another graph of the folder. Everything else is as with ONNX. Products are computed in single precision, so results are
the same on every CPU; OpenVINO by itself takes bf16 where the CPU has it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from isogloss.errors import ModelError, optional_package
from isogloss.models.encoders.onnx import OnnxEncoder
from isogloss.types import FloatArray, IntArray

MISSING = ModelError("openvino is not installed here", hint='pip install "isogloss[openvino]"')


class OpenVinoEncoder(OnnxEncoder):
    """An exported graph with its tokenizer; `name` is a folder, or a graph in it."""

    kind: ClassVar[str] = "openvino"
    graphs: ClassVar[tuple[str, ...]] = ("openvino_model.xml", "openvino/openvino_model.xml")

    def _package(self) -> Any:  # noqa: ANN401 - an untyped module
        return optional_package("openvino", MISSING)

    def _open(self, threads: int) -> tuple[set[str], list[str]]:
        settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)}
        self._compiled = self._runtime.Core().compile_model(str(self.graph), "CPU", settings)
        inputs, outputs = self._compiled.inputs, self._compiled.outputs
        return {field.any_name for field in inputs}, [field.any_name for field in outputs]

    def _run(self, fields: dict[str, IntArray], outputs: Sequence[str]) -> list[FloatArray]:
        found = self._compiled(fields)
        return [np.array(found[name]) for name in outputs]  # copies: the next call writes over them

    def _weights(self) -> set[Path]:
        return {self.graph.with_suffix(".bin")}
