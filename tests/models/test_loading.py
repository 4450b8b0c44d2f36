"""Models by name: the bundled ones for real, local folders, and a clear error for everything else."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers.sentence_transformer.modules import Pooling
from transformers import PreTrainedModel

from hub import Hub, running_hub
from isogloss.errors import DataError, ModelError
from isogloss.models.cached_encoder import embed
from isogloss.models.encoder import load
from isogloss.models.loading import open_model
from isogloss.training.cross_encoder import CrossEncoder


def test_the_bundled_teacher_is_the_real_one() -> None:
    teacher = load("all-MiniLM-L6-v2")
    vectors = teacher.encode(["A man is eating food.", "A man eats something.", "The stock market fell."])
    assert teacher.dimension == 384
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > 0.75 > 0.3 > vectors[0] @ vectors[2]


def test_the_bundled_student_opens_where_transformers_saves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first of several processes: there `save_pretrained` of a model does nothing."""
    monkeypatch.setattr(PreTrainedModel, "save_pretrained", lambda *_given, **_named: None)
    assert open_model("multilingual-e5-small")[0].auto_model.config.num_hidden_layers == 12


def test_a_local_folder_and_a_finished_run_load(models: Path, tmp_path: Path) -> None:
    direct = load(str(models / "teacher")).encode(["the cat sleeps at night."])
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model").symlink_to(models / "teacher")
    assert np.array_equal(load(str(tmp_path / "run")).encode(["the cat sleeps at night."]), direct)


def test_fingerprint_follows_the_weights_and_the_prompt(models: Path) -> None:
    one, two = load(str(models / "teacher")), load(str(models / "teacher"))
    assert one.fingerprint == two.fingerprint
    assert load(str(models / "teacher"), prompt="query: ").fingerprint != one.fingerprint
    cls = load(str(models / "teacher"))
    cls.model[1] = Pooling(16, "cls")
    assert cls.fingerprint != one.fingerprint, "the pooling is no weight, but it makes the vector"
    changed = load(str(models / "teacher"))
    with torch.no_grad():
        next(changed.model.parameters()).view(-1)[0] += 1
    assert changed.fingerprint != one.fingerprint


def test_prompt_is_put_before_the_text(models: Path) -> None:
    plain, prompted = load(str(models / "teacher")), load(str(models / "teacher"), prompt="the cat ")
    assert np.allclose(prompted.encode(["runs home."]), plain.encode(["the cat runs home."]), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("./nowhere", "no such folder$"),
        ("runs/nowhere/model", "^runs/nowhere/model: no such folder$"),
        ("", "the model's name is empty"),
        ("surely/no-such-model-v1.5", "the model cannot be loaded"),
    ],
)
def test_what_cannot_be_loaded_is_said(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        open_model(name)
    assert caught.value.hint


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with running_hub(monkeypatch, tmp_path / "hub") as running:
        yield running


def test_without_a_connection_the_hub_is_tried_once(hub: Hub) -> None:
    hub.close()
    for opened in (open_model, CrossEncoder.open):
        with pytest.raises(ModelError, match="surely/no-such-model: the model cannot be loaded") as caught:
            opened("surely/no-such-model")
        assert "the hub cannot be reached (" in caught.value.hint and "or a local folder" in caught.value.hint
    assert not hub.pauses, "its library was not left to ask for one file after another"


def test_a_hub_that_answers_is_asked_by_its_library(hub: Hub) -> None:
    with pytest.raises(ModelError, match="the model cannot be loaded") as caught:
        open_model("surely/no-such-model")
    assert "no such hub model" in caught.value.hint
    assert hub.requests[0] == "/" and any(path.endswith("/modules.json") for path in hub.requests)


def test_a_name_beside_folders_is_a_missing_folder_first(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`runs/nope` could be a model on the hub, but where there is a folder `runs` it is a typing error."""
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    for reachable, said in ((True, "no such hub model"), (False, "the hub cannot be reached (")):
        if not reachable:
            hub.close()
        with pytest.raises(
            ModelError, match=r"^runs/nope: no such folder, and as a hub model it cannot be loaded \("
        ) as caught:
            open_model("runs/nope")
        assert caught.value.hint.startswith("name a finished run, or a folder") and said in caught.value.hint
        with pytest.raises(ModelError, match=r"^surely/nope: the model cannot be loaded"):
            open_model("surely/nope")
    assert "/runs/nope/resolve/main/modules.json" in hub.requests, "the hub was asked, too"


def test_a_folder_without_a_model_and_an_unfinished_run(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model in this folder"):
        open_model(str(tmp_path))
    (tmp_path / "work").mkdir()
    with pytest.raises(ModelError, match="the run has not finished"):
        open_model(str(tmp_path))


def test_vectors_that_are_not_finite_are_refused(models: Path, tmp_path: Path) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(models / "teacher", broken)
    weights = load_file(broken / "model.safetensors")
    weights["embeddings.LayerNorm.weight"][0] = float("nan")
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"2 of 2 vectors are not finite, the first for 'the dog sings a song.'"):
        load(str(broken)).encode(["the dog sings a song.", "the cat"])


def test_embed_takes_a_name_and_a_cache(models: Path, tmp_path: Path) -> None:
    texts = ["the cat sleeps at night.", "my friend buys bread."]
    direct = embed(str(models / "teacher"), texts)
    for _ in range(2):
        assert np.allclose(embed(str(models / "teacher"), texts, cache=tmp_path), direct, atol=1e-3)
    with pytest.raises(DataError, match="one text, not a list"):
        embed(str(models / "teacher"), "the cat")
