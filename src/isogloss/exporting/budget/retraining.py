"""The model with fewer layers, trained again for a moment.

The kept layers are spread evenly (`models.shrinking.layer_dropping`). What followed the pooling is replaced: a bridge maps the
new states to the embeddings of the whole model in closed form, then the layers above the first one are distilled from these
embeddings on the text of the run. A finished one is kept as a model with checksums, an unfinished one continues from its
checkpoint.
"""

import logging
from functools import cached_property
from pathlib import Path
from typing import Any

from isogloss import recipes
from isogloss.amounts import amount
from isogloss.config.exporting import BudgetSettings
from isogloss.errors import ModelError
from isogloss.exporting.source import ExportSource
from isogloss.models.shrinking.layer_dropping import drop_layers, spread_layers
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.runs.replay import draw, held_out_text
from isogloss.storage import canonical_json, content_hash, remove
from isogloss.training.distillation import Distillation
from isogloss.types import TRAIN, PairSource

logger = logging.getLogger(__name__)

SEED = 17
TRAINING = "training"  # in the work folder: tokens, embeddings and checkpoints of unfinished training
AFTER_POOLING = slice(2, None)


class ShortModels:
    """Copies of a model with fewer layers, by their number; trained when they are first asked for."""

    def __init__(self, source: ExportSource, settings: BudgetSettings, work: Path) -> None:
        self.source, self.settings, self.work = source, settings, work

    @cached_property
    def pairs(self) -> PairSource:
        """The pairs to train on: all, or as many of each language as the settings allow."""
        pairs, most = self.source.pairs, self.settings.retrain_pairs
        if pairs.pair_counts().total(split=TRAIN) <= most:
            return pairs
        return draw(pairs, most, held_out_text(pairs), SEED, self.source.on_progress) or pairs

    @cached_property
    def _settings(self) -> dict[str, Any]:
        """How they are trained."""
        settings = self.settings
        return {
            "epochs": settings.retrain_epochs,
            "batch_pairs": settings.retrain_batch,
            "learning_rate": settings.retrain_rate,
            "dev_pairs": 0,
        }

    def folder(self, layers: int) -> Path:
        """Where the model with this many layers is kept: the name depends on all that it depends on."""
        student = self.source.student
        kept = spread_layers(layers, int(student.body.config.num_hidden_layers))
        named = student.fingerprint, self.pairs.hash, canonical_json(self._settings), str(kept)
        return self.work / f"layers-{layers}-{content_hash(*named)[:16]}"

    def __call__(self, layers: int) -> Student:
        """The model with this many layers."""
        folder, stage = self.folder(layers), amount(layers, "layer")
        if (folder / "modules.json").is_file():
            try:
                student = Student.from_pretrained(str(folder), max_tokens=self.source.student.max_tokens, device="cpu")
            except ModelError as error:
                logger.warning("%s; it is trained again", error.message)
                remove(folder)
            else:
                self.source.on_progress(Step(stage, 1, 1, "models", "reused"))
                return student
        student = self.trained(layers, stage)
        student.save_pretrained(folder)
        for path in (self.work / TRAINING).glob("checkpoints-*"):
            remove(path)
        return student

    def cut(self, layers: int) -> Student:
        """A copy with this many layers and nothing after the pooling, untrained."""
        whole = self.source.student
        student = whole.copy()
        drop_layers(student.body, layers)
        del student.model[AFTER_POOLING]
        return student

    def trained(self, layers: int, stage: str) -> Student:
        """The same with a bridge to the embeddings of the whole model, trained."""
        student = self.cut(layers)
        folder, on_progress = self.work / TRAINING, self.source.on_progress
        training = self._settings | {"train_layers": layers - 1}  # with the first layer the token table stays as it is
        recipe = recipes.parse({"seed": SEED, "teacher": {"model": self.source.name}, "training": training})
        session = Distillation(student, self.source.student, self.pairs, recipe, folder, on_progress=on_progress)
        session.build_bridge()
        session.train(stage)
        return student
