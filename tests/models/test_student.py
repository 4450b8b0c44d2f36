"""The student: its own encoder, its bridge, and the saved folder give the same vectors as sentence-transformers."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import XLMRobertaConfig, XLMRobertaModel

from isogloss.errors import ModelError
from isogloss.models.bridge import Bridge
from isogloss.models.encoder import load
from isogloss.models.student import AS_STORED, Student
from tiny import TEXTS


def bridge(width: int, height: int) -> Bridge:
    random = np.random.default_rng(0)
    weight = random.normal(size=(height, width)).astype(np.float32)
    return Bridge(weight, random.normal(size=height).astype(np.float32), 0.1, {})


def test_encode_equals_sentence_transformers(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    assert np.allclose(student.encode(TEXTS), SentenceTransformer(str(models / "student")).encode(TEXTS), atol=1e-5)
    assert student.encode([]).shape == (0, 24)


def test_saved_folder_loads_in_plain_sentence_transformers(models: Path, tmp_path: Path) -> None:
    student = Student.from_pretrained(str(models / "student"), prompt="a child ", max_tokens=10)
    student.trim({"en": TEXTS[::2], "de": TEXTS[1::4], "ru": TEXTS[3::4]}, "corpus")
    student.add_bridge(bridge(24, 16), normalize=True)
    student.save_pretrained(tmp_path / "model", card="# tiny")
    loaded = SentenceTransformer(str(tmp_path / "model"))
    assert np.allclose(loaded.encode(TEXTS), student.encode(TEXTS), atol=1e-5)
    assert loaded.max_seq_length == 10
    again = Student.from_pretrained(str(tmp_path / "model"))
    assert np.allclose(again.encode(TEXTS), student.encode(TEXTS), atol=1e-5)
    assert again.prompt == "a child "


@pytest.mark.parametrize("prompt", ["a child ", ""])
def test_the_prompt_is_that_of_queries_and_documents_and_is_put_there_once(models: Path, tmp_path: Path, prompt: str) -> None:
    """Whatever prompts the model came with: it was trained with this one, and whoever reads it again puts no other there."""
    model = SentenceTransformer(str(models / "student"), prompts={"query": "the dog ", "document": "my friend "}, device="cpu")
    model.save(str(tmp_path / "came"), create_model_card=False)
    student = Student.from_pretrained(str(tmp_path / "came"), prompt=prompt, device="cpu")
    expected = SentenceTransformer(str(models / "student"), device="cpu").encode([prompt + text for text in TEXTS])
    student.save_pretrained(tmp_path / "model")
    plain = SentenceTransformer(str(tmp_path / "model"), device="cpu")
    readers = [plain.encode, plain.encode_query, plain.encode_document, load(str(tmp_path / "model"), device="cpu").encode]
    readers += [Student.from_pretrained(str(tmp_path / "model"), device="cpu").encode, student.encode]
    readers += [
        Student.from_pretrained(str(tmp_path / "model"), prompt, device="cpu").encode
    ]  # asked for again, it is no second one
    readers += [load(str(tmp_path / "model"), prompt, device="cpu").encode]
    for encode in readers:
        assert np.allclose(encode(TEXTS), expected, atol=1e-5)


def test_prompts_of_queries_and_documents(models: Path, tmp_path: Path) -> None:
    """A recipe may set them; a folder saved with them keeps them, and so does any model that is only passed on."""
    student = Student.from_pretrained(str(models / "student"), prompt="a child ", device="cpu")
    student.set_prompts(query="the dog ")
    student.save_pretrained(tmp_path / "model")
    Student.from_pretrained(str(tmp_path / "model"), device="cpu").save_pretrained(tmp_path / "again")
    for name in ("model", "again"):
        plain = SentenceTransformer(str(tmp_path / name), device="cpu")
        for encode, prompt in (
            (plain.encode_query, "the dog "),
            (plain.encode_document, "a child "),
            (plain.encode, "a child "),
        ):
            assert np.allclose(encode(TEXTS[:9]), plain.encode([prompt + text for text in TEXTS[:9]], prompt=""), atol=1e-6)
    other = SentenceTransformer(str(models / "student"), prompts={"query": "the dog ", "passage": "my friend "}, device="cpu")
    other.max_seq_length = 60
    other.save(str(tmp_path / "other"), create_model_card=False)
    passed_on = Student.from_pretrained(str(tmp_path / "other"), prompt=None, max_tokens=0, device="cpu")
    assert passed_on.max_tokens == 60 and passed_on.model.prompts == SentenceTransformer(str(tmp_path / "other")).prompts
    passed_on.save_pretrained(tmp_path / "passed on")
    plain = SentenceTransformer(str(tmp_path / "passed on"), device="cpu")
    assert (plain.prompts["query"], plain.prompts["passage"]) == ("the dog ", "my friend ")


def test_more_tokens_than_the_model_was_stored_with(models: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Student.from_pretrained(str(models / "student"), max_tokens=10).save_pretrained(tmp_path / "short")
    assert Student.from_pretrained(str(tmp_path / "short")).model.max_seq_length == 10, "nobody asked for more"
    longer = Student.from_pretrained(str(tmp_path / "short"), max_tokens=48, device="cpu")
    longer.save_pretrained(tmp_path / "longer")
    text = " ".join(TEXTS[:12])
    plain = SentenceTransformer(str(tmp_path / "longer"), device="cpu")
    assert plain.max_seq_length == plain.tokenizer.model_max_length == 48
    assert int(longer.tokenize([text]).lengths[0]) == plain.preprocess([text])["input_ids"].shape[1] == 48
    assert np.allclose(plain.encode([text]), longer.encode([text]), atol=1e-5)
    assert not caplog.messages
    assert Student.from_pretrained(str(tmp_path / "longer"), max_tokens=64, device="cpu").max_tokens == 64
    most = Student.from_pretrained(str(tmp_path / "short"), max_tokens=128, device="cpu")
    assert most.model.max_seq_length == 64 and np.isfinite(most.encode([3 * text])).all()
    assert caplog.messages == [
        f"{tmp_path / 'short'}: max_tokens = 128, but the model has 64 positions: longer text is truncated there"
    ]
    with pytest.raises(ModelError, match=r"short: student.max_tokens = 65, but the model reads at most 64 tokens") as caught:
        Student.from_pretrained(str(tmp_path / "short"), max_tokens=65, device="cpu")
    assert "student.max_tokens = 64 or less" in caught.value.hint


def test_a_stored_limit_beyond_the_positions_is_nobodys_wish(models: Path) -> None:
    for asked in (None, AS_STORED):
        model = SentenceTransformer(str(models / "student"), device="cpu")
        model.max_seq_length = 100
        assert Student(model, "long", max_tokens=asked).max_tokens == 64


def test_text_that_is_cut_at_its_start_is_saved_so(models: Path, tmp_path: Path) -> None:
    student = Student.from_pretrained(str(models / "student"), max_tokens=12, device="cpu")
    student.tokenizer.truncation_side = "left"
    student.save_pretrained(tmp_path / "left")
    alone = Tokenizer.from_file(str(tmp_path / "left" / "tokenizer.json"))
    assert alone.encode(" ".join(TEXTS)).ids == student.tokenize([" ".join(TEXTS)]).row(0).tolist()


@pytest.mark.parametrize("trimmed", [False, True])
def test_the_saved_tokenizer_truncates_at_the_new_limit(models: Path, tmp_path: Path, trimmed: bool) -> None:
    """In tokenizer.json, too, which programs without transformers read, and whatever was encoded last."""
    short = Student.from_pretrained(str(models / "student"), max_tokens=10, device="cpu")
    short.encode(TEXTS[:2])
    short.save_pretrained(tmp_path / "short")
    longer = Student.from_pretrained(str(tmp_path / "short"), max_tokens=48, device="cpu")
    if trimmed:
        longer.trim([("en", TEXTS)])
    longer.save_pretrained(tmp_path / "longer")
    text = " ".join(TEXTS[:12])
    for name, wanted in (("short", 10), ("longer", 48)):
        alone = Tokenizer.from_file(str(tmp_path / name / "tokenizer.json"))
        plain = SentenceTransformer(str(tmp_path / name), device="cpu")
        assert alone.truncation is not None and alone.truncation["max_length"] == wanted
        assert alone.encode(text).ids == plain.preprocess([text])["input_ids"][0].tolist()


def test_roberta_has_fewer_positions_than_its_table_has_rows(models: Path) -> None:
    model = SentenceTransformer(str(models / "student"), device="cpu")
    model[0].model = XLMRobertaModel(
        XLMRobertaConfig(
            vocab_size=len(model.tokenizer),
            hidden_size=24,
            num_hidden_layers=1,
            num_attention_heads=4,
            intermediate_size=24,
            max_position_embeddings=50,
            pad_token_id=1,
        )
    )
    assert np.isfinite(Student(model, "xlm-r", max_tokens=48).encode([" ".join(TEXTS)])).all()
    with pytest.raises(ModelError, match="at most 48 tokens"):
        Student(model, "xlm-r", max_tokens=49)


def test_saving_over_a_model_replaces_it_whole(models: Path, tmp_path: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    student.save_pretrained(str(tmp_path / "model"))
    (tmp_path / "model" / "old.txt").write_text("old")
    student.save_pretrained(tmp_path / "model")
    assert not (tmp_path / "model" / "old.txt").exists()
    assert not list(tmp_path.glob(".*"))


def test_bridge_is_the_last_layer(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"))
    untouched = student.encode(TEXTS[:5])
    solved = bridge(24, 16)
    student.add_bridge(solved, normalize=False)
    assert student.dimension == 16
    assert np.allclose(student.encode(TEXTS[:5]), solved.apply(untouched), atol=1e-5)
    with pytest.raises(ModelError, match="the bridge takes 24-d vectors, the student gives 16-d"):
        student.add_bridge(solved, normalize=False)


def test_only_the_upper_layers_and_the_bridge_are_trained(models: Path) -> None:
    from isogloss.models.frozen_layers import SplitBody

    student = Student.from_pretrained(str(models / "student"))
    student.add_bridge(bridge(24, 16), normalize=True)
    names = [name for name, _ in student.trained_parameters(SplitBody(student.body, 1))]
    assert any("layer.3." in name for name in names) and any("linear" in name for name in names)
    assert not any("layer.2." in name or "embeddings" in name for name in names)
    assert len(list(student.trained_parameters(None))) == len(list(student.model.parameters()))


def test_encode_takes_one_text_or_many_and_normalizes(models: Path) -> None:
    student = Student.from_pretrained(str(models / "student"), device="cpu")
    many = student.encode(TEXTS[:4])
    assert np.allclose(student.encode(TEXTS[0]), many[0], atol=1e-6) and student.encode(TEXTS[0]).shape == (24,)
    unit = student.encode(TEXTS[:4], normalize_embeddings=True)
    assert np.allclose(unit, many / np.linalg.norm(many, axis=1, keepdims=True), atol=1e-6)
