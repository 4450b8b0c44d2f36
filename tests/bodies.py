"""Small real bodies of every family that tests of encoding go through, with random weights, and sentence models around them."""

import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    ElectraConfig,
    ElectraModel,
    ModernBertConfig,
    ModernBertModel,
    MPNetConfig,
    MPNetModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)

from isogloss.models.loading import quiet_transformers
from tiny import unigram

WIDTH, LAYERS, HEADS, WINDOW = 32, 2, 4, 8
FAMILIES = ("BERT", "XLM-R", "DistilBERT", "Electra", "MPNet")


@cache
def vocabulary() -> int:
    """Rows of every body's token table."""
    return len(unigram())


def body(family: str) -> Any:  # noqa: ANN401 - one of transformers' models
    """A body by the name of its family."""
    size = {
        "vocab_size": vocabulary(),
        "hidden_size": WIDTH,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 2 * WIDTH,
        "max_position_embeddings": 66,
        "initializer_range": 0.2,
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
    }
    special = {"cls_token_id": 0, "sep_token_id": 2, "layer_types": ["sliding_attention", "full_attention"]}
    makers: dict[str, Any] = {
        "BERT": lambda: BertModel(BertConfig(**size)),
        "XLM-R": lambda: XLMRobertaModel(XLMRobertaConfig(**size)),
        "DistilBERT": lambda: DistilBertModel(DistilBertConfig(**_distilled(size))),
        "Electra": lambda: ElectraModel(ElectraConfig(**size, embedding_size=WIDTH // 2)),
        "MPNet": lambda: MPNetModel(MPNetConfig(**size)),
        "DeBERTa": lambda: _deberta(size),
        "windowed": lambda: ModernBertModel(ModernBertConfig(**size, **special, local_attention=WINDOW)),
    }
    torch.manual_seed(0)
    with quiet_transformers():
        return makers[family]().eval()


def _deberta(size: dict[str, Any]) -> Any:  # noqa: ANN401 - a DebertaV2Model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # transformers calls torch.jit.script as it is imported
        from transformers import DebertaV2Config, DebertaV2Model

        return DebertaV2Model(DebertaV2Config(**size, relative_attention=True, pos_att_type=["c2p", "p2c"]))


def _distilled(size: dict[str, Any]) -> dict[str, Any]:
    names = {
        "hidden_size": "dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "intermediate_size": "hidden_dim",
    }
    return {names.get(name, name): value for name, value in size.items()}


def sentence_model(
    family: str, pooling: str = "mean", bridge: int = 0, normalize: bool = False, include_prompt: bool = True
) -> SentenceTransformer:
    """A sentence-transformers model on the CPU around such a body; `bridge` is the width of a Dense layer."""
    with TemporaryDirectory() as folder, quiet_transformers():
        body(family).save_pretrained(folder)
        unigram().save_pretrained(folder)
        modules: list[torch.nn.Module] = [Transformer(str(Path(folder))), Pooling(WIDTH, pooling, include_prompt)]
    if bridge:
        modules.append(Dense(WIDTH, bridge))
    if normalize:
        modules.append(Normalize())
    return SentenceTransformer(modules=modules, device="cpu").eval()
