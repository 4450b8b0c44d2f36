"""Uploads to the hub, against a stand-in of its API on this machine: what arrives is the model, with its name in the card."""

from pathlib import Path

import pytest

from hub import running_hub
from isogloss.errors import ModelError
from isogloss.models.hub import push_folder
from isogloss.models.student import Student


@pytest.fixture
def folder(models: Path, tmp_path: Path) -> Path:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    student.save_pretrained(tmp_path / "model", 'SentenceTransformer("sentence_transformers_model_id")')
    (tmp_path / "model" / "frontier.json").write_text("{}")
    (tmp_path / "model" / "onnx").mkdir()
    (tmp_path / "model" / "onnx" / "model.onnx").write_bytes(b"graph")
    return tmp_path / "model"


def test_every_file_of_the_model_arrives(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        url = push_folder(folder, "me/mine", token="hf_x", private=True)
        sent = hub.files["me/mine"]
        assert url == f"{hub.url}/me/mine/commit/{'0' * 40}"
    assert sent["README.md"] == b'SentenceTransformer("me/mine")' and sent["onnx/model.onnx"] == b"graph"
    names = {path.relative_to(folder).as_posix(): content for path, content in before.items()}
    del names["frontier.json"]
    assert set(sent) == set(names)
    assert all(sent[name] == content for name, content in names.items() if name != "README.md")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before, "the folder is not changed"


def test_a_hub_that_refuses(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="the hub refused the upload") as refused:
        push_folder(folder, "not a name", token="hf_x")
    assert "user/name" in str(refused.value.hint)
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        hub.files["me/taken"] = {"config.json": b"{}"}
        with pytest.raises(ModelError, match="me/taken: the hub refused the upload") as refused:
            push_folder(folder, "me/taken", token="hf_secret")
        assert "--add-to-repository" in str(refused.value.hint) and "hf_secret" not in str(refused.value)
        assert hub.files["me/taken"] == {"config.json": b"{}"}
        push_folder(folder, "me/taken", token="hf_secret", exist_ok=True)
        assert {"config.json", "model.safetensors"} <= set(hub.files["me/taken"]), "nothing is deleted"
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        hub.close()
        with pytest.raises(ModelError, match="the upload failed") as refused:
            push_folder(folder, "me/mine", token="hf_x")
    assert "try again" in str(refused.value.hint)
