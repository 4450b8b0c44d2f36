"""The settings of vector indexes."""

from typing import Literal, get_args

from isogloss.config.settings import Settings, setting

Metric = Literal["cosine", "dot", "l2"]
METRICS: tuple[Metric, ...] = get_args(Metric)
IndexPrecision = Literal["float32", "float16"]
Existing = Literal["refuse", "replace", "append"]


class BuildSettings(Settings):
    """How to build an index of documents."""

    metric: Metric = setting("cosine", "How vectors are compared.")
    precision: IndexPrecision = setting("float32", "Precision of the stored vectors.")
    batch_size: int = setting(1024, "Documents to embed and store at a time.", at_least=1)
    prompt: str = setting("", "Text to prepend to every document.")
    existing: Existing = setting("refuse", "What to do with an index that isogloss built before.")
