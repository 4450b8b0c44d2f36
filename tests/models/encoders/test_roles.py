"""Prompts for queries and documents: of real tiny models, of a program, and in the cache."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import Encoder
from isogloss.models.encoders.open import open_encoder
from isogloss.models.encoders.roles import DOCUMENT, QUERY, in_role, with_prompt
from isogloss.models.student import Student
from tiny import TEXTS, KnownVectors

SOME = TEXTS[:5]


def saved(models: Path, folder: Path, prompts: Mapping[str, str], default: str | None = None) -> str:
    """The teacher with prompts of its own."""
    model = SentenceTransformer(str(models / "teacher"), prompts=dict(prompts), default_prompt_name=default, device="cpu")
    model.save(str(folder), create_model_card=False)
    return str(folder)


def prompt_of(encoder: Encoder, models: Path) -> str:
    """Which prompt an encoder uses, by its vectors."""
    plain = open_encoder(str(models / "teacher"), "cpu")
    tried = ("", "the dog ", "my friend ", "a child ", "the cat ")
    own = encoder.encode(SOME)
    (found,) = (one for one in tried if np.allclose(own, plain.encode([one + text for text in SOME]), atol=1e-6))
    return found


def test_the_prompt_of_a_role(models: Path, tmp_path: Path) -> None:
    own = saved(models, tmp_path / "own", {"query": "the dog ", "passage": "my friend "})
    given = {QUERY: "a child "}
    expected = {
        (own, "", ()): ("the dog ", "my friend "),
        (own, "the cat ", ()): ("the cat ", "the cat "),
        (own, "", (QUERY,)): ("a child ", "my friend "),
        (own, "the cat ", (QUERY,)): ("a child ", "the cat "),
        (str(models / "teacher"), "", ()): ("", ""),
    }
    for (name, prompt, roles), wanted in expected.items():
        encoder = open_encoder(name, "cpu", prompt, role_prompts={role: given[role] for role in roles})
        found = tuple(prompt_of(in_role(encoder, role), models) for role in (QUERY, DOCUMENT))
        assert found == wanted, (name, prompt, roles)
        assert prompt_of(encoder, models) == prompt, "the encoder itself is not changed"
        assert in_role(encoder, "") is encoder


def test_a_role_that_makes_no_difference_is_the_encoder_itself(models: Path, tmp_path: Path) -> None:
    known = KnownVectors({"a": [1.0]})
    assert in_role(known, QUERY) is known and with_prompt(known, "x") is None
    default = saved(models, tmp_path / "default", {"q": "the dog ", "query": "the dog ", "document": ""}, "q")
    encoder = open_encoder(default, "cpu")
    assert in_role(encoder, QUERY) is encoder and in_role(encoder, DOCUMENT) is encoder
    cached = CachedEncoder(encoder, tmp_path / "cache")
    assert in_role(cached, QUERY) is cached
    export = open_encoder("cmd:cat")
    vars(export).update(prompts={"query": "q ", "document": "d "}, default_prompt="q ")  # as an ONNX export has them
    assert in_role(export, QUERY) is export and in_role(export, DOCUMENT) is not export


def test_the_prompts_of_a_student(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"), prompt="the cat ", device="cpu")
    student.set_prompts(query="the dog ")
    assert in_role(student, DOCUMENT) is student
    asked = in_role(student, QUERY)
    other = Student.from_pretrained(str(models / "student"), prompt="the dog ", device="cpu")
    assert np.allclose(asked.encode(SOME), other.encode(SOME), atol=1e-6)
    assert asked.fingerprint != student.fingerprint


def test_a_program(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("import sys\nfor line in sys.stdin: print(len(line.rstrip()), 1)\n")
    encoder = open_encoder(f"cmd:{sys.executable} {script}", role_prompts={QUERY: "abc ", DOCUMENT: "z "})
    plain = encoder.fingerprint
    asked, indexed = (in_role(encoder, role) for role in (QUERY, DOCUMENT))
    assert [one.encode(["de"])[0, 0] for one in (encoder, asked, indexed)] == [2, 6, 4]
    assert len({plain, asked.fingerprint, indexed.fingerprint}) == 3 and encoder.fingerprint == plain


@pytest.mark.parametrize("kept", [True, False])
def test_the_cache_keeps_prompts_apart(models: Path, tmp_path: Path, kept: bool) -> None:
    own = saved(models, tmp_path / "own", {"query": "the dog ", "passage": "my friend "})
    for _ in range(2):
        cached = CachedEncoder(open_encoder(own, "cpu"), tmp_path / "cache" if kept else None)
        found = [in_role(cached, role).encode(SOME) for role in ("", QUERY, DOCUMENT)]
        plain = open_encoder(str(models / "teacher"), "cpu")
        for vectors, prompt in zip(found, ("", "the dog ", "my friend "), strict=True):
            assert np.allclose(vectors, plain.encode([prompt + text for text in SOME]), atol=2e-3)
    again = in_role(cached, QUERY)
    assert isinstance(again, CachedEncoder)
    again.encode(SOME)
    assert again.reused == (len(SOME) if kept else 0)
