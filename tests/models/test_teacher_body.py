"""The teacher's body under a new vocabulary: where both read a text alike, the vector is exactly the teacher's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, StaticEmbedding, Transformer
from transformers import (
    BertConfig,
    BertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedTokenizerFast,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from isogloss.errors import ModelError
from isogloss.models.loading import quiet_transformers
from isogloss.models.student import Student
from isogloss.models.teacher_body import with_vocabulary
from isogloss.models.vocabulary.resize import with_rows
from tiny import TEXTS, unigram
from vocabularies import byte_level, wordpiece

FAMILIES = {"bert": (BertModel, BertConfig), "xlm-r": (XLMRobertaModel, XLMRobertaConfig), "mpnet": (MPNetModel, MPNetConfig)}


def pad_at_one(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    order = np.arange(len(tokenizer))
    order[[0, 1]] = order[[1, 0]]
    return with_rows(tokenizer, order)


def make_teacher(folder: Path, family: str, tokenizer: PreTrainedTokenizerFast) -> SentenceTransformer:
    torch.manual_seed(4)
    body, config = FAMILIES[family]
    settings = config(
        vocab_size=len(tokenizer) + 3,  # padded, as many tables are
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        max_position_embeddings=70,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.3,
    )
    with quiet_transformers():
        body(settings).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        modules = [Transformer(str(folder), max_seq_length=24), Pooling(24, "mean"), Normalize()]
        return SentenceTransformer(modules=modules, device="cpu").eval()


def table_of(model: SentenceTransformer) -> torch.Tensor:
    weight: torch.Tensor = model[0].auto_model.get_input_embeddings().weight
    return weight.detach()


def padding_last() -> PreTrainedTokenizerFast:
    """XLM-R's kind of tokenizer with padding at row 5, where no body expects it."""
    order = np.arange(len(unigram()))
    order[[1, 5]] = order[[5, 1]]
    return with_rows(unigram(), order)


# Lower-cased, every word of these texts is one piece on both sides.
ALIKE = [text for text in TEXTS if text.startswith(("the", "a ", "my"))]


@pytest.mark.parametrize("family", ["bert", "xlm-r", "mpnet"])
@pytest.mark.parametrize("new", [unigram(), padding_last()], ids=["pad 1", "pad 5"])
def test_text_read_alike_gets_exactly_the_teachers_vector(family: str, new: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    teacher = make_teacher(tmp_path / "teacher", family, pad_at_one(wordpiece()) if family != "bert" else wordpiece())
    assert len(ALIKE) == 80 and len({len(text.split()) for text in ALIKE}) > 2
    wanted = teacher.encode(ALIKE)
    vocabulary = new.get_vocab()
    made, new_rows = with_vocabulary(teacher, new)
    assert np.array_equal(made.encode(ALIKE), wanted)
    assert made.max_seq_length == 24
    with quiet_transformers():
        made.save(str(tmp_path / "student"), create_model_card=False)
    loaded = SentenceTransformer(str(tmp_path / "student"), device="cpu")
    assert np.array_equal(loaded.encode(TEXTS), made.encode(TEXTS))
    packed = Student.from_pretrained(str(tmp_path / "student")).encode(ALIKE[:4])  # the same sums in another order
    assert np.allclose(packed, made.encode(ALIKE[:4]), atol=1e-6)
    body, tokenizer = loaded[0].auto_model, loaded.tokenizer
    table = body.get_input_embeddings()
    assert body.config.vocab_size == len(table.weight) == len(tokenizer) == sum(new_rows.values())
    assert body.config.pad_token_id == tokenizer.pad_token_id == table.padding_idx
    assert np.array_equal(teacher.encode(ALIKE), wanted), "the teacher is as it was"
    assert len(table_of(teacher)) == len(teacher.tokenizer) + 3
    assert new.model_max_length == 64 and new.get_vocab() == vocabulary, "so is the tokenizer"


def test_rows_are_copied_averaged_or_drawn(tmp_path: Path) -> None:
    teacher = make_teacher(tmp_path, "bert", wordpiece(inside=("er",)))
    old, theirs = table_of(teacher), teacher.tokenizer.get_vocab()
    made, new_rows = with_vocabulary(teacher, unigram(extra=("▁Katzer", "katzer", "▁λόγος")), seed=3)
    new, ours = table_of(made), made.tokenizer.get_vocab()

    def mean(*pieces: str) -> torch.Tensor:
        return old[[theirs[piece] for piece in pieces]].mean(0)

    assert torch.equal(new[ours["▁cat"]], old[theirs["cat"]])
    assert torch.equal(new[ours["▁Katze"]], old[theirs["katze"]]), "an uncased teacher reads the lower-cased piece"
    assert torch.equal(new[ours["."]], old[theirs["."]])
    assert torch.allclose(new[ours["▁Katzer"]], mean("katze", "##r"))
    assert torch.allclose(new[ours["katzer"]], mean("##k", "##a", "##t", "##z", "##er"))
    roles = {"<s>": "[CLS]", "</s>": "[SEP]", "<pad>": "[PAD]", "<unk>": "[UNK]"}
    assert all(torch.equal(new[ours[mine]], old[theirs[yours]]) for mine, yours in roles.items())
    drawn = new[[ours["▁λόγος"], ours["▁φιλία"]]]
    assert not torch.equal(drawn[0], drawn[1])
    used = old[: len(teacher.tokenizer)]
    assert float(((drawn - used.mean(0)) / used.std(0)).abs().max()) < 5
    assert new_rows["unknown"] == 3, "two Greek words, and the mark of a space alone"
    assert sum(new_rows.values()) == len(new) and new_rows["averaged"] >= 2
    assert new_rows["copied"] > 60
    again, _ = with_vocabulary(teacher, unigram(extra=("▁Katzer", "katzer", "▁λόγος")), seed=3)
    assert torch.equal(table_of(again), new)


def test_a_byte_level_teacher_and_a_byte_level_vocabulary(tmp_path: Path) -> None:
    teacher = make_teacher(tmp_path, "xlm-r", pad_at_one(byte_level()))
    made, new_rows = with_vocabulary(teacher, byte_level(size=330))
    alike = [text for text in TEXTS if teacher.tokenizer.tokenize(text) == made.tokenizer.tokenize(text)]
    assert new_rows["averaged"] == 0 < new_rows["copied"] and alike
    assert np.array_equal(made.encode(alike), teacher.encode(alike))


def test_what_has_no_body_or_no_padding_is_refused(tmp_path: Path) -> None:
    static = SentenceTransformer(modules=[StaticEmbedding(unigram(), embedding_dim=8)], device="cpu")
    with pytest.raises(ModelError, match="mine: its first module is StaticEmbedding, not a transformer"):
        with_vocabulary(static, unigram(), "mine")
    bare = PreTrainedTokenizerFast(tokenizer_object=unigram().backend_tokenizer, unk_token="<unk>")
    with pytest.raises(ModelError, match="the new tokenizer has no padding token"):
        with_vocabulary(make_teacher(tmp_path, "bert", wordpiece()), bare)
