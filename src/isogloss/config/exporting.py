"""The settings of an export."""

from typing import Literal

from isogloss.config.settings import Settings, setting, share

Precision = Literal["fp32", "fp16", "int8"]
Cpu = Literal["avx512_vnni", "avx2", "arm64"]


class ExportSettings(Settings):
    """What is written, and how close to the original it has to be."""

    precisions: tuple[Precision, ...] = setting(("fp32", "int8"), "Precisions of ONNX files: fp32, fp16, int8.", min_length=1)
    cpu: Cpu = setting("avx512_vnni", "CPU of the int8 file; avx2 has 7 bits and is right on all.")
    calibration: int = setting(128, "Sentences that int8 is calibrated on; 0: none.", at_least=0)
    min_cosine: float = share(0.95, "Refuse a file whose embeddings have a lower mean cosine to the original's.")
    max_loss: float = setting(1.0, "Refuse a file that loses more points of retrieval accuracy.", at_least=0.0)
    max_queries: int = setting(500, "Held-out pairs per language to measure on.", at_least=1)
    max_candidates: int = setting(2000, "Sentences to search in measurements.", at_least=1)
    suite: str = setting("", "Test sets to measure on as well: sts, tatoeba-14, …")
    data: str = setting("", "Location of the test sets of --suite.  [default: $ISOGLOSS_DATA, or hub]")
