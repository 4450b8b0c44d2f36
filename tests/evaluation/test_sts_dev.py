"""Spearman on a dev set is scipy's, over the cosines of plain sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from isogloss.evaluation.sts_dev import STSDev
from isogloss.models.student import Student
from isogloss.training.tasks.sentence_pairs import SentencePairs
from judged import rated


def test_it_is_the_rank_correlation_of_cosine_and_gold(models: Path) -> None:
    pairs = rated(3, 30)
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    plain = SentenceTransformer(str(models / "student"), device="cpu")
    u, v = plain.encode(pairs.first), plain.encode(pairs.second)
    cosines = (u * v).sum(1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1)
    # pairs of the same sentence tie at 1, but for rounding
    wanted = spearmanr(np.round(cosines, 5), pairs.gold).statistic
    dev = STSDev(student, SentencePairs.of(student, pairs.first, pairs.second), pairs.gold)
    student.model.train()
    score = dev.score()
    assert score.spearman == pytest.approx(wanted, abs=1e-4) and len(dev) == 30
    assert score.selection_score("anything").value == score.spearman == score.values()["dev_spearman"]
    assert f"{100 * score.spearman:.2f}" in score.note()
