"""Tokenizers that are missing, as transformers makes them up, and real ones of every kind, however small."""

from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoModel, PreTrainedTokenizerFast

from isogloss import recipes
from isogloss.config import BridgeSettings, LossSettings, Recipe
from isogloss.errors import ModelError
from isogloss.models.encoder import load
from isogloss.models.encoders.onnx import _tokenizer
from isogloss.models.loading import open_model, quiet_transformers
from isogloss.models.student import Student
from isogloss.models.token_store import TextTokenizer
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer, unknown_share
from isogloss.runs.pipeline import run
from isogloss.runs.presets import dual_recipe
from isogloss.training.cross_encoder import CrossEncoder
from isogloss.training.distillation import distill
from isogloss.training.tasks.sentence_pairs import SentencePairs
from isogloss.types import Bitext, Pair
from tiny import unigram

SIZES = {"vocab_size": 90, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
AMHARIC = ["ጣቢያው የት ነው", "ባቡሩ ሄደ", "መጽሐፍ አነበብኩ", "ውሃ ጠጣሁ"]


@pytest.mark.parametrize("kind", ["Bert", "XLMRoberta", "Roberta", "MPNet", "Electra", "Albert"])
def test_a_model_without_a_tokenizer_is_refused(kind: str, tmp_path: Path) -> None:
    """Transformers makes a tokenizer up where there are no files: all words unknown, no tokens at all, or an error later."""
    config = getattr(transformers, f"{kind}Config")(**SIZES, pad_token_id=1)
    with quiet_transformers():
        AutoModel.from_config(config).save_pretrained(tmp_path)
    for opened in (open_model, load, Student.from_pretrained):
        with pytest.raises(ModelError, match="its tokenizer is missing or empty") as caught:
            opened(str(tmp_path))
    assert "tokenizer.json" in caught.value.hint


def test_a_cross_encoder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    config = transformers.BertConfig(**SIZES, num_labels=1)
    with quiet_transformers():
        transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="its tokenizer is missing or empty"):
            CrossEncoder.open(str(tmp_path))


def word_piece(alphabet: str) -> Tokenizer:
    pieces = ["[UNK]", "[PAD]", *alphabet, *(f"##{one}" for one in alphabet)]
    made = Tokenizer(models.WordPiece({piece: row for row, piece in enumerate(pieces)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    return made


def byte_level() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({piece: row for row, piece in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel()
    return made


def byte_fallback() -> Tokenizer:
    pieces = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -5.0) for byte in range(256))]
    return Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=True))


def padded() -> Tokenizer:
    made = word_piece("abcdefghijklmnopqrstuvwxyz?.")
    made.enable_padding(pad_id=1, pad_token="[PAD]", length=128)
    return made


@pytest.mark.parametrize(
    "real",
    [
        unigram(),
        unigram().backend_tokenizer,
        word_piece("abcdefghijklmnopqrstuvwxyz?."),
        word_piece("абвгдежзийклмнопрстуфхцчшщъыьэюя?"),  # of one language, without a Latin letter
        word_piece("".join(sorted(set("".join(AMHARIC))))),
        byte_level(),
        byte_fallback(),
        padded(),
        PreTrainedTokenizerFast(tokenizer_object=byte_level()),
        transformers.CanineTokenizer(),
        transformers.ByT5Tokenizer(),
        None,  # of a model that reads no text with one
    ],
)
def test_a_real_one_is_not(real: object) -> None:
    refuse_empty_tokenizer(real, "a model")


@pytest.mark.parametrize("empty", [word_piece(""), word_piece("~"), Tokenizer(models.BPE()), Tokenizer(models.Unigram())])
def test_one_that_spells_nothing_is(empty: Tokenizer) -> None:
    with pytest.raises(ModelError, match="a model: its tokenizer is missing or empty"):
        refuse_empty_tokenizer(empty, "a model")


def test_the_share_of_unknown_tokens_counts_neither_special_ones_nor_white_space() -> None:
    tokenizer = unigram()
    for text, share in (("the cat", 0.0), ("ጣ", 1.0), ("the cat ጣ", 1 / 3), ("", 0.0)):
        assert unknown_share(TextTokenizer(tokenizer, 32)([text])[0], tokenizer) == pytest.approx(share)
    without = PreTrainedTokenizerFast(tokenizer_object=byte_level())
    assert unknown_share(TextTokenizer(without, 32)(AMHARIC)[0], without) == 0.0


def test_text_that_is_mostly_unknown_is_not_trained_on(models: Path) -> None:
    student, teacher = Student.from_pretrained(str(models / "student"), device="cpu"), load(str(models / "teacher"))
    english = ["the cat sleeps.", "the dog runs home.", "a child reads.", "my friend sings a song."]
    ranked = Recipe(bridge=BridgeSettings(enabled=False), losses=LossSettings(mse=0.0, ranking=1.0))

    def pairs(sources: list[str]) -> Bitext:
        return Bitext.of(Pair(one, other, "am", "x", "train") for one, other in zip(sources, AMHARIC, strict=True))

    for name, train in (
        ("student", lambda: distill(student, None, pairs(AMHARIC[::-1]), ranked)),
        ("student", lambda: SentencePairs.of(student, AMHARIC, AMHARIC)),
        (
            "teacher",
            lambda: distill(Spelling.from_pretrained(str(models / "student"), device="cpu"), teacher, pairs(AMHARIC[::-1])),
        ),
    ):
        with pytest.raises(ModelError, match=f"{name}: 100% of the tokens in the training text are unknown"):
            train()
    SentencePairs.of(student, english, AMHARIC)  # half of it is known


def test_a_dual_encoder_is_not_trained_on_it_either(models: Path, tmp_path: Path) -> None:
    (tmp_path / "en-am.tsv").write_text("".join(f"{one}\t{one[::-1]}\n" for one in AMHARIC), encoding="utf-8")
    plain = ["cleaning.min_language=0", "cleaning.min_script=0", "pairs.held_out=0", "device=cpu"]
    data = dual_recipe([str(tmp_path / "en-am.tsv")], tmp_path / "run", str(models / "student"))
    with pytest.raises(ModelError, match="100% of the tokens in the training text are unknown"):
        run(recipes.parse(data, plain))


def test_an_onnx_export_without_pieces_is_refused(tmp_path: Path) -> None:
    word_piece("").save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(ModelError, match=f"onnx:{tmp_path}: its tokenizer is missing or empty"):
        _tokenizer(tmp_path)


class Spelling(Student):
    """A student that knows all letters."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerFast:
        return PreTrainedTokenizerFast(tokenizer_object=byte_level(), pad_token="!")


def test_text_that_is_mostly_unknown_is_said_once(models: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Vectors of a script that the model does not know are computed: a table may have a column of it."""
    encoder = load(str(models / "teacher"))
    encoder.encode(["the cat sleeps.", ""])
    assert not caplog.messages
    for _ in range(2):
        encoder.encode(AMHARIC)
    assert caplog.messages == [
        f"{models / 'teacher'}: 100 % of the tokens are unknown to its tokenizer, so its embeddings say little about the text"
    ]
