"""Semantic textual similarity: the cosine of two sentences becomes their rating; a cross-encoder can label more pairs."""

import logging

from isogloss.config.stages import StsStage
from isogloss.corpora.reading.labelled import Labelled
from isogloss.evaluation.metrics import spearman
from isogloss.evaluation.sts_dev import SPEARMAN
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.runs.augmenting import label, union
from isogloss.runs.run import StageResult
from isogloss.runs.stages.session import StageSession
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.training.tasks.sentence_pairs import SentencePairs, STSTask

logger = logging.getLogger(__name__)


def train(stage: StsStage, session: StageSession, number: int) -> None:
    """Train on the rated pairs, augmented if the stage says so."""
    rated = session.data.content[stage.name]
    assert isinstance(rated, Labelled)
    if stage.augment:
        rated = _augmented(stage, session, rated)
    task = STSTask(session.student, SentencePairs.of(session.student, rated.first, rated.second), rated.gold)
    session.train_tasks(stage, [task], session.sts_dev(), session.key(rated.hash))


def _augmented(stage: StsStage, session: StageSession, rated: Labelled) -> Labelled:
    """The rated pairs, and near ones rated by a cross-encoder (Augmented SBERT)."""
    recipe, name = session.recipe, stage.cross_encoder or session.recipe.student.model
    scorer = CrossEncoder.open(name, 2 * recipe.student.max_tokens, recipe.device, recipe.seed)
    cross = f"{stage.name} cross-encoder"
    settings = session.task_settings(stage)
    summary = None
    if not scorer.trained:
        settings = settings.replace(epochs=stage.cross_epochs or settings.epochs, steps=0)
        run = session.run
        summary = scorer.train(rated.first, rated.second, rated.gold, settings, run.work, run.on_progress, cross)
    correlation = _correlation(scorer, session)
    if summary is not None:
        session.results.append(StageResult(cross, summary, {"sts": 2 * len(rated)}))
    encoder: Encoder = open_encoder(stage.search_by, device=recipe.device) if stage.search_by else session.student
    silver = label(rated, encoder, scorer, stage.neighbors, session.run.work, recipe.device, session.run.on_progress)
    session.details["augmented"] = {
        "pairs": len(silver),
        "neighbors": stage.neighbors,
        "cross_encoder": name,
        "searched_by": stage.search_by or "the model after the stages before",
        SPEARMAN: correlation,
    }
    return union(rated, silver)


def _correlation(scorer: CrossEncoder, session: StageSession) -> float | None:
    """Spearman's correlation of the cross-encoder on the dev set, with a warning if the student is better already."""
    dev, measured = session.data.sts_dev, session.sts_dev()
    if dev is None or measured is None:
        return None
    reached = spearman(scorer.score(dev.first, dev.second), dev.gold)
    before = measured.score().values()[SPEARMAN]
    if reached <= before:
        logger.warning(
            "the cross-encoder agrees less with the dev set than the student it should teach (%.1f and %.1f): raise "
            "cross_epochs, or name a better cross_encoder",
            100 * reached,
            100 * before,
        )
    return reached
