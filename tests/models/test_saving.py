"""A saved folder is read by plain sentence-transformers without a warning, and has what servers and older versions read."""

import json
import os
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling

from hub import running_hub
from isogloss.checksums import check_sums
from isogloss.errors import IsoglossError
from isogloss.models.bilstm import EncoderSizes, bilstm_student
from isogloss.models.bridge import Bridge
from isogloss.models.static import static_student
from isogloss.models.student import Student
from isogloss.models.vocabulary.learn import learn_vocabulary
from tiny import TEXTS, unigram

FLAGS = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")


def bridged(models: Path) -> Student:
    student = Student.from_pretrained(str(models / "student"), max_tokens=20, device="cpu")
    random = np.random.default_rng(1)
    weight = random.normal(size=(7, student.dimension)).astype(np.float32)
    student.add_bridge(Bridge(weight, random.normal(size=7).astype(np.float32), 0.1, {}), normalize=True)
    return student


def saved_again(student: Student, folder: Path) -> SentenceTransformer:
    """What the plain library reads, with every warning an error; its vectors are the student's."""
    student.save_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SentenceTransformer(str(folder), device="cpu")
    vectors = model.encode(TEXTS[:20])
    assert np.allclose(vectors, student.encode(TEXTS[:20]), atol=1e-6)
    return model


def test_what_servers_read(models: Path, tmp_path: Path) -> None:
    model = saved_again(bridged(models), tmp_path / "model")
    modules = json.loads((tmp_path / "model" / "modules.json").read_text())
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    assert [one["type"] for one in modules] == [f"sentence_transformers.models.{kind}" for kind in kinds]
    pooling = json.loads((tmp_path / "model" / "1_Pooling" / "config.json").read_text())
    assert pooling == {
        "word_embedding_dimension": 24,
        **{f"pooling_mode_{flag}": flag == "mean_tokens" for flag in FLAGS},
        "pooling_mode": "mean",
        "include_prompt": True,
    }
    dense = json.loads((tmp_path / "model" / "2_Dense" / "config.json").read_text())
    assert set(dense) == {"in_features", "out_features", "bias", "activation_function"}
    body = json.loads((tmp_path / "model" / "sentence_bert_config.json").read_text())
    assert body == {"max_seq_length": 20, "do_lower_case": False} and model.max_seq_length == 20
    tokenizer = json.loads((tmp_path / "model" / "tokenizer_config.json").read_text())
    assert tokenizer["tokenizer_class"] == "PreTrainedTokenizerFast", "transformers 4 knows no TokenizersBackend"


@pytest.mark.parametrize("mode", ["cls", "max", "lasttoken", "weightedmean", "mean_sqrt_len_tokens", ("mean", "max")])
def test_every_way_of_pooling_is_read_as_it_was(models: Path, tmp_path: Path, mode: str | tuple[str, ...]) -> None:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    student.model[1] = Pooling(24, mode, include_prompt=False)
    model = saved_again(student, tmp_path / "model")
    assert model[1].pooling_mode == mode and not model[1].include_prompt
    flags = json.loads((tmp_path / "model" / "1_Pooling" / "config.json").read_text())
    named = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "weightedmean": "weightedmean_tokens"}
    on = {named.get(one, one) for one in ((mode,) if isinstance(mode, str) else mode)}
    assert {flag for flag in FLAGS if flags[f"pooling_mode_{flag}"]} == on


def test_students_without_a_body_are_read_as_they_were(tmp_path: Path) -> None:
    static = static_student(unigram(), 6, name="static", max_tokens=16)
    laser = bilstm_student(learn_vocabulary(lambda: [TEXTS], 120, "bpe"), EncoderSizes(embedding=8, hidden=4, layers=1))
    for name, student, kinds in (("s", static, ["StaticEmbedding"]), ("l", laser, ["WordEmbeddings", "LSTM", "Pooling"])):
        saved_again(student, tmp_path / name)
        modules = json.loads((tmp_path / name / "modules.json").read_text())
        assert [one["type"] for one in modules] == [f"sentence_transformers.models.{kind}" for kind in kinds]


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_all_files_have_the_permissions_of_new_files(models: Path, tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        bridged(models).save_pretrained(tmp_path / "model", training={})
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o666 & ~mask}
    assert sum(path.suffix == ".safetensors" for path in files) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "model", tmp_path / "model/2_Dense")} == {0o777 & ~mask}


def test_a_folder_with_other_content_is_left_alone(models: Path, tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "thesis.txt").write_text("years of work")
    with pytest.raises(IsoglossError, match="contains files that are not a model"):
        Student.from_pretrained(str(models / "student")).save_pretrained(tmp_path / "documents")
    assert (tmp_path / "documents" / "thesis.txt").read_text() == "years of work"


def test_the_card_stays_with_the_weights_it_describes(models: Path, tmp_path: Path) -> None:
    bridged(models).save_pretrained(tmp_path / "first", "# measured\n", {"rows": 3})
    again = Student.from_pretrained(str(tmp_path / "first"), device="cpu")
    again.save_pretrained(tmp_path / "same")
    assert (tmp_path / "same" / "README.md").read_text() == "# measured\n"
    assert json.loads((tmp_path / "same" / "isogloss_training.json").read_text())["rows"] == 3
    check_sums(tmp_path / "same", lambda name: IsoglossError(name))
    with torch.no_grad():
        next(again.model.parameters()).mul_(1.5)
    again.save_pretrained(tmp_path / "trained")
    assert "measured" not in (tmp_path / "trained" / "README.md").read_text()
    assert not (tmp_path / "trained" / "isogloss_training.json").exists()
    again.save_pretrained(tmp_path / "given", "# mine\n")
    assert (tmp_path / "given" / "README.md").read_text() == "# mine\n"


def test_what_is_pushed_to_the_hub_is_the_whole_model(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    student = bridged(models)
    with running_hub(monkeypatch, tmp_path / "cache") as hub:
        url = student.push_to_hub(
            "me/mine", token="hf_x", private=True, card='SentenceTransformer("sentence_transformers_model_id")'
        )
        assert url == f"{hub.url}/me/mine/commit/{'0' * 40}"
        assert hub.files["me/mine"]["README.md"] == b'SentenceTransformer("me/mine")'
        assert {"modules.json", "model.safetensors", "2_Dense/model.safetensors", "SHA256SUMS"} <= set(hub.files["me/mine"])
        assert not hub.pauses
        for name, content in hub.files["me/mine"].items():
            (tmp_path / "pulled" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "pulled" / name).write_bytes(content)
    loaded = Student.from_pretrained(str(tmp_path / "pulled"), device="cpu")
    assert np.allclose(loaded.encode(TEXTS[:9]), student.encode(TEXTS[:9]), atol=1e-6)
