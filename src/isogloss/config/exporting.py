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

    precisions: tuple[Precision, ...] = setting(("fp32", "int8"), "Files to write: fp32, fp16, int8.", min_length=1)
    cpu: Cpu = setting("avx512_vnni", "CPU the int8 file is for; avx2 works on every x86 CPU.")
    calibration: int = setting(128, "Training sentences to calibrate int8 on; 0: no calibration.", at_least=0)
    min_cosine: float = share(0.95, "Do not write a file whose mean cosine to the original embeddings is lower.")
    max_loss: float = setting(1.0, "Do not write a file that loses more points of retrieval accuracy.", at_least=0.0)
    static_trim: Trim = setting("off", "--to static: keep the vocabulary (off), or trim it to the training text.")
    static_pairs: int = setting(200_000, "--to static: maximum number of pairs to fit.", at_least=100)
    max_queries: int = setting(500, "Maximum number of held-out pairs per language to evaluate on.", at_least=1)
    max_candidates: int = setting(2000, "Number of candidate sentences in retrieval evaluations.", at_least=1)
    suite: str = setting("", "Test sets to evaluate on as well: sts, tatoeba-14, …")
    data: str = setting("", "Location of the test sets of --suite.  [default: $ISOGLOSS_DATA, or hub]")


class BudgetSettings(ExportSettings):
    """What is tried to make a model fit a size budget; `min_cosine` and `max_loss` have no effect here."""

    precisions: tuple[Precision, ...] = setting(("fp32", "fp16", "int8"), "Precisions to try.", min_length=1)
    trims: tuple[Trim, ...] = setting(
        ("off", "alphabet", "corpus"),
        "--budget: vocabularies to try: whole (off), trimmed to the languages' alphabets, or to the run's text (corpus).",
        min_length=1,
    )
    layers: tuple[AtLeastOne, ...] = setting((), "--budget: numbers of layers to try.  [default: all, 2/3, 1/2, 1/3]")
    dimensions: tuple[AtLeastOne, ...] = setting((), "--budget: embedding sizes to try.  [default: the run's]")
    retrain_pairs: int = setting(16_000, "--budget: maximum pairs to retrain models with fewer layers on.", at_least=1)
    retrain_epochs: int = setting(1, "--budget: epochs of retraining; 0: fit the bridge only.", at_least=0)
    retrain_batch: int = setting(32, "--budget: batch size of retraining, in pairs.", at_least=1)
    retrain_rate: float = setting(2e-4, "--budget: peak learning rate of retraining.", at_least=0.0)
    speed_sentences: int = setting(256, "--budget: number of sentences to measure speed with.", at_least=1)
