"""The settings of `isogloss finetune`. The defaults are SBERT's."""

from typing import Self

from pydantic import model_validator

from isogloss.config import Device, Precision, Settings, setting
from isogloss.errors import RecipeError
from isogloss.training.tasks.base import TaskSettings


class FinetuneSettings(Settings):
    """The monolingual stage: which encoder learns from which labelled pairs, and how."""

    model: str = setting(..., "Hub name, folder, finished run or bundled model.")
    nli: tuple[str, ...] = setting((), "Files or folders with premise, hypothesis and label.")
    sts: tuple[str, ...] = setting((), "Files or folders with two sentences and a score from 0 to 5.")
    sts_dev: tuple[str, ...] = setting((), "The same, to choose the best weights by.")
    out: str = setting("runs/finetuned", "Folder of the run.")
    nli_epochs: int = setting(1, "Epochs over the NLI pairs.", at_least=1)
    sts_epochs: int = setting(4, "Epochs over the STS pairs, also of the cross-encoder.", at_least=1)
    cross_epochs: int = setting(0, "Epochs of the cross-encoder; 0: as sts_epochs.", at_least=0)
    steps: int = setting(0, "Steps per stage instead of epochs; 0 counts epochs.", at_least=0)
    batch: int = setting(16, "Pairs per batch.", at_least=1)
    learning_rate: float = setting(2e-5, "Peak learning rate.", at_least=0.0)
    warmup: float = setting(0.1, "Warmup as a share of the steps; 1 or more is a number of steps.", at_least=0.0)
    max_tokens: int = setting(128, "Longer sentences are truncated.", at_least=2, at_most=8192)
    prompt: str = setting("", "Text put before every sentence; saved with the model.")
    augment: bool = setting(False, "Label more STS pairs with a cross-encoder.")
    cross_encoder: str = setting("", "The model to train as cross-encoder, or a trained one; empty: the model itself.")
    neighbours: int = setting(10, "Nearest sentences of each sentence to label.", at_least=1)
    search_by: str = setting("", "The model that finds them; empty: the model after NLI.")
    dev_checks: int = setting(10, "Number of dev measurements per stage.", at_least=1)
    precision: Precision = setting("auto", "Precision of training: auto is bf16 on CUDA, else float32.")
    device: Device = setting("auto", "Where it runs.")
    seed: int = setting(17, "The same seed on the same machine gives the same weights.", at_least=0, at_most=2**32 - 1)
    checkpoint_seconds: float = setting(20.0, "Seconds between checkpoints.", at_least=0.0)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if not self.nli and not self.sts:
            raise RecipeError("there is nothing to train on", hint="name files with --nli, --sts, or both")
        if self.augment and not self.sts:
            raise RecipeError("--augment adds pairs to those of --sts, and there are none", hint="name a file with --sts")
        of_augment = {
            "--cross-encoder": self.cross_encoder,
            "--search-by": self.search_by,
            "--cross-epochs": self.cross_epochs,
        }
        if not self.augment and (unused := next((name for name, given in of_augment.items() if given), "")):
            raise RecipeError(f"{unused} is only asked with --augment", hint="add --augment, or leave it out")
        return self

    def training(self, epochs: int) -> TaskSettings:
        """How a stage of this many epochs is trained."""
        return TaskSettings(
            epochs=epochs,
            steps=self.steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            precision=self.precision,
            seed=self.seed,
            dev_checks=self.dev_checks,
            checkpoint_seconds=self.checkpoint_seconds,
        )
