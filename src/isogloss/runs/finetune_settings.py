"""What `isogloss finetune` is asked for: a type, a range and a sentence for each value. The defaults are SBERT's."""

from dataclasses import dataclass

from isogloss.config import setting
from isogloss.errors import RecipeError
from isogloss.recipes import refuse_out_of_range
from isogloss.training.tasks.base import TaskSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class FinetuneSettings:
    """The monolingual stage: which encoder learns from which judged pairs, and how."""

    model: str  # hub name, folder, finished run or carried model
    nli: tuple[str, ...] = setting((), "files of premise, hypothesis and label, or folders of such")
    sts: tuple[str, ...] = setting((), "files of two sentences and a score from 0 to 5, or folders of such")
    sts_dev: tuple[str, ...] = setting((), "the same, to choose the best weights by")
    out: str = setting("runs/finetuned", "the run's folder")
    nli_epochs: int = setting(1, "times the NLI pairs are seen", at_least=1)
    sts_epochs: int = setting(4, "times the STS pairs are seen; by the cross-encoder, too", at_least=1)
    cross_epochs: int = setting(0, "times the cross-encoder sees them instead; 0 takes sts_epochs", at_least=0)
    steps: int = setting(0, "steps of each stage instead of epochs; 0 counts epochs", at_least=0)
    batch: int = setting(16, "pairs in a batch", at_least=1)
    learning_rate: float = setting(2e-5, "peak learning rate", at_least=0.0)
    warmup: float = setting(0.1, "share of the steps over which it rises; 1 or more is a number of steps", at_least=0.0)
    max_tokens: int = setting(128, "longer sentences are cut here", at_least=2, at_most=8192)
    prompt: str = setting("", "text put before every sentence; it becomes part of the saved model")
    augment: bool = setting(False, "label more STS pairs with a cross-encoder")
    cross_encoder: str = setting("", "what it is made from, or one that was trained already; empty takes the model")
    neighbours: int = setting(10, "nearest sentences of each that it labels", at_least=1)
    search_by: str = setting("", "the encoder whose vectors say what is near; empty takes the model as it then is")
    dev_checks: int = setting(10, "how often the dev set is measured in each stage", at_least=1)
    precision: str = setting("auto", "bf16 on CUDA and single elsewhere, or one", one_of=("auto", "bf16", "float32"))
    device: str = setting("auto", "where it runs", one_of=("auto", "cpu", "cuda", "mps"))
    seed: int = setting(17, "the same seed on the same machine gives the same weights", at_least=0, at_most=2**32 - 1)
    checkpoint_seconds: float = setting(20.0, "time between checkpoints", at_least=0.0)

    def __post_init__(self) -> None:
        """Refuse what is out of range, or cannot be meant."""
        refuse_out_of_range(self)
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
