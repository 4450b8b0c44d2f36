"""The settings of an export."""

from typing import Annotated, Literal

from pydantic import Field

from isogloss.config.settings import Settings, setting, share

Precision = Literal["fp32", "fp16", "int8"]
Cpu = Literal["avx512_vnni", "avx2", "arm64"]
Trim = Literal["off", "alphabet", "corpus"]
AtLeastOne = Annotated[int, Field(ge=1)]


class ExportSettings(Settings):
    """What is written, and how close to the original it has to be."""

    precisions: tuple[Precision, ...] = setting(("fp32", "int8"), "Precisions of ONNX files: fp32, fp16, int8.", min_length=1)
    cpu: Cpu = setting("avx512_vnni", "CPU of the int8 file; avx2 has 7 bits and is right on all.")
    calibration: int = setting(128, "Sentences that int8 is calibrated on; 0: none.", at_least=0)
    min_cosine: float = share(0.95, "Refuse a file whose embeddings have a lower mean cosine to the original's.")
    max_loss: float = setting(1.0, "Refuse a file that loses more points of retrieval accuracy.", at_least=0.0)
    static_trim: Trim = setting("off", "Vocabulary of a static model: the model's (off), or trimmed to pairs.")
    static_pairs: int = setting(200_000, "Pairs at most to fit a static model to.", at_least=100)
    max_queries: int = setting(500, "Held-out pairs per language to measure on.", at_least=1)
    max_candidates: int = setting(2000, "Sentences to search in measurements.", at_least=1)
    suite: str = setting("", "Test sets to measure on as well: sts, tatoeba-14, …")
    data: str = setting("", "Location of the test sets of --suite.  [default: $ISOGLOSS_DATA, or hub]")


class BudgetSettings(ExportSettings):
    """What is tried to make a model fit into a number of megabytes; `min_cosine` and `max_loss` refuse nothing here."""

    precisions: tuple[Precision, ...] = setting(("fp32", "fp16", "int8"), "Precisions to try.", min_length=1)
    trims: tuple[Trim, ...] = setting(
        ("off", "alphabet", "corpus"),
        "Vocabularies to try: as it is (off), what the run's alphabets can spell, what its text uses.",
        min_length=1,
    )
    layers: tuple[AtLeastOne, ...] = setting((), "Numbers of layers to try; empty: all, 2/3, 1/2 and 1/3 of them.")
    dimensions: tuple[AtLeastOne, ...] = setting((), "Sizes to cut embeddings to; empty: those of the run's losses.dimensions.")
    retrain_pairs: int = setting(16_000, "Pairs at most to train models again on that lost layers.", at_least=1)
    retrain_epochs: int = setting(1, "Passes over these pairs; 0 keeps the bridge alone.", at_least=0)
    retrain_batch: int = setting(32, "Batch size in pairs of that training.", at_least=1)
    retrain_rate: float = setting(2e-4, "Peak learning rate of that training.", at_least=0.0)
    speed_sentences: int = setting(256, "Sentences to measure the speed with.", at_least=1)
