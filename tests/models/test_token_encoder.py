"""Embeddings of tokenized sentences are the same in chunks, packed or padded, few or many."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isogloss.models import token_encoder as module
from isogloss.models.student import Student
from isogloss.models.token_encoder import FAST_FROM
from isogloss.progress import Step
from tiny import TEXTS


def test_a_batch_in_chunks_is_the_batch_at_once(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = Student.from_pretrained(str(models / "student"))
    tokens, rows = student.tokenize(TEXTS), np.array([7, 3, 44, 3, 20])
    assert student.packs
    whole = student.batch(tokens, rows, None)
    monkeypatch.setattr(module, "PACKED_AT_ONCE", 12)
    assert torch.allclose(student.batch(tokens, rows, None), whole, atol=1e-6)
    student.packs = False
    monkeypatch.setattr(module, "PADDED_AT_ONCE", 12)
    assert torch.allclose(student.batch(tokens, rows, None), whole, atol=1e-6)


def test_many_sentences_have_the_vectors_that_each_has_alone(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    texts = [f"{text} {number}" for number in range(12) for text in TEXTS]
    assert len(texts) >= FAST_FROM
    heard: list[Step] = []
    many = student.encode(texts, heard.append)
    assert np.allclose(many[::40], np.concatenate([student.encode([text]) for text in texts[::40]]), atol=1e-5)
    assert heard[-1].done == len(texts)
    with torch.no_grad():
        for parameter in student.model.parameters():
            parameter.mul_(1.1)
    assert not np.allclose(student.encode(texts), many, atol=1e-3), "weights of another moment"
