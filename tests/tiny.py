"""Small real models and pairs that the tests share: nothing here stands in for the code under test."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from isogloss import recipes
from isogloss.config import Recipe
from isogloss.models.loading import quiet_transformers
from isogloss.progress import OnProgress, silent
from isogloss.types import TEST, TRAIN, FloatArray, Pair

SUBJECTS = {
    "the cat": ("die Katze", "кошка"),
    "the dog": ("der Hund", "собака"),
    "a child": ("ein Kind", "ребёнок"),
    "my friend": ("mein Freund", "мой друг"),
    "the teacher": ("die Lehrerin", "учитель"),
}
VERBS = {
    "sleeps at night": ("schläft nachts", "спит ночью"),
    "eats an apple": ("isst einen Apfel", "ест яблоко"),
    "reads the newspaper": ("liest die Zeitung", "читает газету"),
    "runs home": ("rennt nach Hause", "бежит домой"),
    "drinks cold water": ("trinkt kaltes Wasser", "пьёт холодную воду"),
    "sings a song": ("singt ein Lied", "поёт песню"),
    "buys bread": ("kauft Brot", "покупает хлеб"),
    "waits for the bus": ("wartet auf den Bus", "ждёт автобус"),
}


def _pairs() -> list[Pair]:
    pairs = []
    sentences = [(f"{s} {v}.", f"{a[0]} {b[0]}.", f"{a[1]} {b[1]}.") for s, a in SUBJECTS.items() for v, b in VERBS.items()]
    for number, (english, german, russian) in enumerate(sentences):
        split = TEST if number % 5 == 3 else TRAIN
        pairs += [Pair(english, german, "de", "tiny", split), Pair(english, russian, "ru", "tiny", split)]
    return pairs


PAIRS = _pairs()
TEXTS = [text for pair in PAIRS for text in (pair.source, pair.target)]


class KnownVectors:
    """An encoder whose vectors are given, by text."""

    name, fingerprint = "known", "known"

    def __init__(self, vectors: Mapping[str, Sequence[float] | FloatArray]) -> None:
        self.vectors, self.dimension = vectors, len(next(iter(vectors.values())))

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        return np.array([self.vectors[text] for text in texts], dtype=np.float32)


def unigram(texts: list[str] = TEXTS, extra: tuple[str, ...] = ("▁λόγος", "zzz", "ж")) -> PreTrainedTokenizerFast:
    """A Unigram tokenizer in XLM-R's form over words, characters and a few pieces that no text here uses."""
    words = sorted({f"▁{word.strip('.')}" for text in texts for word in text.split()})
    characters = sorted({character for text in texts for character in text if character != " "} | {"▁"})
    pieces = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(word, -4.0 - 0.01 * place) for place, word in enumerate(words)]
    pieces += [(character, -8.0 - 0.01 * place) for place, character in enumerate(characters) if character not in words]
    pieces += [(piece, -9.5) for piece in extra if piece not in dict(pieces)]
    pieces.append(("▁φιλία", -14.0))  # the lowest score, in a script no language of the tests uses
    backend = Tokenizer(Unigram(pieces, unk_id=3, byte_fallback=False))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        cls_token="<s>",
        sep_token="</s>",
        model_max_length=64,
    )


def save_tiny_model(path: Path, width: int, layers: int, seed: int, normalize: bool) -> None:
    """A sentence-transformers folder with a random BERT body and mean pooling."""
    torch.manual_seed(seed)
    tokenizer = unigram()
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * width,
        max_position_embeddings=64,
        pad_token_id=1,
        initializer_range=0.2,
    )
    with quiet_transformers():
        body = BertModel(config)
        body.save_pretrained(path / "body")
        tokenizer.save_pretrained(path / "body")
        modules: list[torch.nn.Module] = [Transformer(str(path / "body")), Pooling(width, "mean")]
        if normalize:
            modules.append(Normalize())
        SentenceTransformer(modules=modules, device="cpu").save(str(path), create_model_card=False)


SCANNED = ("phrasebook (test)", "questions/paragraphs.tsv", "questions/questions.tsv")  # sets of the leak scan by default

# Overrides for a dual encoder like LaBSE: no teacher, and nothing that follows one.
UNTAUGHT = (
    "teacher.model=",
    "bridge.enabled=false",
    "losses.mse=0",
    "losses.ranking=1",
    "losses.margin=0.3",
    "training.train_layers=0",
    "training.dev_share=0.2",
)

OFTEN = "training.checkpoint_seconds=0"  # a checkpoint at each step, for runs that are stopped


def tiny_recipe(models: Path, tsv: Path, folder: Path, *more: str) -> Recipe:
    """A recipe over the tiny models that takes a second; to stop it on the way, add `OFTEN`."""
    data = {
        "name": "tiny",
        "threads": 1,
        "device": "cpu",
        "pairs": {"files": [str(tsv)]},
        "teacher": {"model": str(models / "teacher")},
        "student": {"model": str(models / "student"), "max_tokens": 32},
        "training": {"train_layers": 2, "epochs": 3, "batch_pairs": 16, "learning_rate": 1e-3},
        "output": {"folder": str(folder), "cache": str(folder / "cache")},
    }
    return recipes.parse(data, more)
