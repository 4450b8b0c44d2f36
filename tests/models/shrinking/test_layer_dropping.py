"""Dropped layers: what is left computes exactly what those layers compute one after another, saved and loaded again too."""

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import (
    AlbertConfig,
    AlbertModel,
    AutoModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    PreTrainedModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from isogloss.errors import ModelError
from isogloss.models.frozen_layers import layers_of
from isogloss.models.loading import quiet_transformers
from isogloss.models.shrinking.layer_dropping import drop_layers, spread_layers
from isogloss.models.student import Student
from isogloss.models.token_store import TextTokenizer
from tiny import TEXTS, unigram

LAYERS = 5
SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "intermediate_size": 32,
    "max_position_embeddings": 80,
    "pad_token_id": 1,
}
DISTILBERT = {"dim": 24, "n_layers": LAYERS, "n_heads": 4, "hidden_dim": 32, "max_position_embeddings": 80, "pad_token_id": 1}


def make(family: str) -> PreTrainedModel:
    torch.manual_seed(3)
    rows = len(unigram())
    made = {
        "bert": lambda: BertModel(BertConfig(vocab_size=rows, **SIZES)),
        "xlm-r": lambda: XLMRobertaModel(XLMRobertaConfig(vocab_size=rows, **SIZES)),
        "mpnet": lambda: MPNetModel(MPNetConfig(vocab_size=rows, **SIZES)),
        "distilbert": lambda: DistilBertModel(DistilBertConfig(vocab_size=rows, **DISTILBERT)),
        "modernbert": lambda: ModernBertModel(
            ModernBertConfig(vocab_size=rows, **SIZES, local_attention=4, global_attn_every_n_layers=2, cls_token_id=0)
        ),
    }
    body: PreTrainedModel = made[family]()
    return body.eval()


def step_over(hidden_states: torch.Tensor, *_: object, **__: object) -> torch.Tensor:
    return hidden_states


def step_over_as_tuple(hidden_states: torch.Tensor, *_: object, **__: object) -> tuple[torch.Tensor]:
    return (hidden_states,)


@pytest.fixture
def features() -> dict[str, torch.Tensor]:
    return TextTokenizer(unigram(), max_tokens=64).store(TEXTS[:40]).padded([5, 0, 17, 33])


@given(st.integers(1, 40), st.integers(1, 40))
@example(29, 35)
def test_kept_layers_lie_evenly(keep: int, count: int) -> None:
    if keep > count:
        with pytest.raises(ModelError, match=f"{keep} layers cannot be kept of {count}"):
            spread_layers(keep, count)
        return
    kept = spread_layers(keep, count)
    assert len(set(kept)) == keep and list(kept) == sorted(kept) and kept[0] >= 0 and kept[-1] < count
    if keep > 1:
        assert (kept[0], kept[-1]) == (0, count - 1)
        gaps = [after - before for before, after in pairwise(kept)]
        assert max(gaps) - min(gaps) <= 1
        # |number − place · (count − 1) / (keep − 1)| ≤ 1/2, in whole numbers: halves are exact.
        assert all(2 * abs(number * (keep - 1) - place * (count - 1)) <= keep - 1 for place, number in enumerate(kept))


def test_half_of_twelve_is_what_distilbert_took() -> None:
    assert spread_layers(6, 12) == (0, 2, 4, 7, 9, 11)
    assert spread_layers(1, 12) == (0,)


@pytest.mark.parametrize("family", ["bert", "xlm-r", "mpnet", "distilbert", "modernbert"])
@pytest.mark.parametrize("keep", [2, (0, 3, 4)])
def test_what_is_left_is_those_layers_in_a_row(
    family: str, keep: int | tuple[int, ...], features: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    whole, body = make(family), make(family)
    numbers = (0, 4) if keep == 2 else (0, 3, 4)
    done = drop_layers(body, keep)
    assert done["kept"] == list(numbers) and done["layers_before"] == LAYERS
    # The oracle keeps the whole stack and steps over the layers that were dropped.
    for place, layer in enumerate(layers_of(whole)):
        if place not in numbers:
            layer.forward = step_over_as_tuple if family == "mpnet" else step_over
    with torch.inference_mode():
        wanted = whole(**features).last_hidden_state
        found = body(**features).last_hidden_state
    mask = features["attention_mask"][..., None].bool()
    assert torch.allclose(found.masked_fill(~mask, 0), wanted.masked_fill(~mask, 0), atol=1e-6)
    with quiet_transformers():
        body.save_pretrained(tmp_path)
        loaded = AutoModel.from_pretrained(tmp_path).eval()
    assert loaded.config.num_hidden_layers == len(layers_of(loaded)) == len(numbers)
    with torch.inference_mode():
        assert torch.allclose(loaded(**features).last_hidden_state, found, atol=1e-6)
    assert done["parameters_saved"] == sum(
        parameter.numel()
        for place, layer in enumerate(layers_of(whole))
        if place not in numbers
        for parameter in layer.parameters()
    )


def test_layers_that_know_their_number_get_the_new_one() -> None:
    body = make("bert")
    drop_layers(body, (1, 3))
    numbers = [module.layer_idx for layer in layers_of(body) for module in layer.modules() if hasattr(module, "layer_idx")]
    assert numbers[0] == 0 and numbers[-1] == 1 and set(numbers) == {0, 1}


def test_a_shortened_student_is_saved_and_loaded(models: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    student = Student.from_pretrained(str(models / "student"))
    drop_layers(student.body, 2)
    wanted = student.encode(TEXTS[:10])
    with quiet_transformers():
        student.model.save(str(tmp_path / "short"), create_model_card=False)
    found = SentenceTransformer(str(tmp_path / "short"), device="cpu").encode(TEXTS[:10])
    assert abs(found - wanted).max() < 1e-5
    assert abs(Student.from_pretrained(str(models / "student")).encode(TEXTS[:10]) - wanted).max() > 1e-3


@pytest.mark.parametrize("keep", [0, -1, 6, (), (0, 5), (2, 1), (1, 1), (-1, 2)])
def test_nonsense_is_refused(keep: int | tuple[int, ...]) -> None:
    body = make("bert")
    with pytest.raises(ModelError, match="cannot be kept of 5"):
        drop_layers(body, keep)
    assert len(layers_of(body)) == body.config.num_hidden_layers == LAYERS


def test_a_body_that_repeats_one_layer_is_refused() -> None:
    albert = AlbertModel(AlbertConfig(vocab_size=64, embedding_size=16, **SIZES))
    with pytest.raises(ModelError, match="AlbertModel has 5 layers in its config, but 1 in fact"):
        drop_layers(albert, 1)


def test_a_first_layer_unlike_the_others_stays_and_nothing_is_changed_by_a_refusal() -> None:
    body = make("modernbert")
    with pytest.raises(ModelError, match=r"ModernBertModel with only the layers \[1, 2\] cannot be described by a config"):
        drop_layers(body, (1, 2))
    assert len(layers_of(body)) == body.config.num_hidden_layers == len(body.config.layer_types) == LAYERS


@pytest.mark.parametrize(("count", "hint"), [(1, "it has one: set student.layers = 0"), (4, "choose 1 to 4, or 0 to keep all")])
def test_more_layers_than_there_are(count: int, hint: str) -> None:
    with pytest.raises(ModelError) as caught:
        spread_layers(9, count)
    assert hint in caught.value.hint
