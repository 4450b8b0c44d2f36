"""The settings of an export."""

from typing import Literal

from isogloss.config.settings import Settings, setting, share

Precision = Literal["fp32", "fp16", "int8"]


class ExportSettings(Settings):
    """What is written, and how close to the original it has to be."""

    precisions: tuple[Precision, ...] = setting(("fp32", "int8"), "Precisions of ONNX files: fp32, fp16, int8.", min_length=1)
    min_cosine: float = share(0.95, "Refuse a file whose embeddings have a lower mean cosine to the original's.")
    max_loss: float = setting(1.0, "Refuse a file that loses more points of retrieval accuracy.", at_least=0.0)
    max_queries: int = setting(500, "Held-out pairs per language to measure on.", at_least=1)
    max_candidates: int = setting(2000, "Sentences to search in measurements.", at_least=1)
