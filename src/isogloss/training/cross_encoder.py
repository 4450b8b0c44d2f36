"""The cross-encoder: a body that reads both sentences of a pair together and scores how similar they are.

    p = σ( head( body( [s₁; s₂] ) ) )          L = − 1/|B| · Σ_j [ g_j/5 · log p_j + (1 − g_j/5) · log(1 − p_j) ]

trained on rated pairs in both orders, as Augmented SBERT does (Thakur et al. 2020, §3). It is more accurate than comparing two
vectors and gives none, so it labels new pairs for a model that does: `runs.augmenting`. The head is that of transformers'
sequence classification with one output. `tasks/sentence_pairs.py` trains encoders that see the two sentences separately.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.losses.sts import HIGHEST
from isogloss.models.loading import BUNDLED, choose_device, hub_out_of_reach, open_model, position_count, quiet_transformers
from isogloss.models.token_store import TokenStore, by_length
from isogloss.models.tokenizer_checks import refuse_empty_tokenizer
from isogloss.progress import OnProgress, Step, silent
from isogloss.storage import content_hash
from isogloss.training.engines.base import TokenCount
from isogloss.training.train import TaskSettings, train
from isogloss.training.trainer import TrainingSummary
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

TOKENS_AT_ONCE, TOKENS_AT_ONCE_ACCELERATED = 1024, 16_384
UNLIMITED = 10**6  # tokenizers without a limit report a number far above this
HEADED = "ForSequenceClassification"


class CrossEncoder:
    """A body with a head of one output. Start with `CrossEncoder.open(name)`."""

    def __init__(
        self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerFast", name: str, max_tokens: int = 256
    ) -> None:
        """`max_tokens` is for both sentences together; the longer one is cut first."""
        self.model, self.tokenizer, self.name = model, tokenizer, name
        limits = [max_tokens, position_count(model), tokenizer.model_max_length]
        self.max_tokens = min(int(limit) for limit in limits if limit and limit < UNLIMITED)
        self.trained = False

    @classmethod
    def open(cls, name: str, max_tokens: int = 256, device: str = "auto", seed: int = 17) -> "CrossEncoder":
        """A cross-encoder that was trained before, or any encoder under a new head drawn with `seed`.

        `name` is a hub name, a folder, a finished run or a bundled model.
        """
        place = choose_device(device)
        known = _trained(name)
        if known is not None:
            model, tokenizer = known
            self = cls(model.to(place).eval(), tokenizer, name, max_tokens)
            self.trained = True
            return self
        encoder = open_model(name)
        body = getattr(encoder[0], "auto_model", None)
        if body is None:
            raise ModelError(f"{name}: it has no transformer body to read two sentences with", hint="name an encoder")
        return cls(_with_head(body, name, seed).to(place).eval(), encoder.tokenizer, name, max_tokens)

    def tokenize(self, first: Sequence[str], second: Sequence[str]) -> "TokenizedPairs":
        """Both sentences of each pair in one row, with separators."""
        encoded = self.tokenizer(
            list(first), list(second), truncation="longest_first", max_length=self.max_tokens, return_token_type_ids=True
        )
        lengths = np.array([len(ids) for ids in encoded["input_ids"]], dtype=np.int64)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

        def flat(name: str, padding: int) -> TokenStore:
            values = np.fromiter(chain.from_iterable(encoded[name]), dtype=np.int32, count=int(offsets[-1]))
            return TokenStore(values, offsets, padding)

        has_sides = getattr(self.model.config, "type_vocab_size", 0) > 1
        ids = flat("input_ids", int(self.tokenizer.pad_token_id or 0))
        return TokenizedPairs(ids, flat("token_type_ids", 0) if has_sides else None)

    def logits(self, features: dict[str, Tensor]) -> Tensor:
        """One number per pair, before the sigmoid."""
        device = self.model.device
        result: Tensor = self.model(**{name: value.to(device) for name, value in features.items()}).logits
        return result.float()[:, 0]

    def score(
        self, first: Sequence[str], second: Sequence[str], on_progress: OnProgress = silent, stage: str = "cross-encoder"
    ) -> FloatArray:
        """How similar the sentences of each pair are, from 0 to 5; pairs of similar length go together."""
        scores = np.empty(len(first), dtype=np.float32)
        if not len(first):
            return scores
        pairs = self.tokenize(first, second)
        self.model.eval()
        most, done = TOKENS_AT_ONCE if self.model.device.type == "cpu" else TOKENS_AT_ONCE_ACCELERATED, 0
        with torch.inference_mode():
            for rows in by_length(pairs.tokens.lengths, most):
                scores[rows] = (HIGHEST * torch.sigmoid(self.logits(pairs.padded(rows)))).cpu().numpy()
                done += len(rows)
                on_progress(Step(stage, done, len(scores), "pairs"))
        if not np.isfinite(scores).all():
            raise ModelError(f"{self.name}: the cross-encoder gives scores that are not finite", hint="try another one")
        return scores

    def train(
        self,
        first: Sequence[str],
        second: Sequence[str],
        scores: FloatArray,
        settings: TaskSettings,
        folder: Path | None = None,
        on_progress: OnProgress = silent,
        stage: str = "cross-encoder",
    ) -> TrainingSummary:
        """Train on rated pairs (0 to 5), each in both orders, since similarity is symmetric."""
        both = self.tokenize([*first, *second], [*second, *first])
        task = PairScoring(self, both, np.concatenate([scores, scores]))
        key = content_hash("cross-encoder", self.name, str(self.max_tokens), *first, *second, scores.tobytes())
        summary = train(self.model, [task], settings, None, folder, on_progress, stage, key)
        self.trained = True
        return summary

    def save(self, folder: Path) -> None:
        """Write a folder that transformers (AutoModelForSequenceClassification) and `open` load."""
        with quiet_transformers():
            self.model.save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)


@dataclass(frozen=True, slots=True, eq=False)
class TokenizedPairs:
    """Pairs as rows of ids and, for bodies with token types, which of the two sentences each id is of."""

    tokens: TokenStore
    sides: TokenStore | None

    def padded(self, rows: IntArray) -> dict[str, Tensor]:
        """Some rows as the model's inputs."""
        features = self.tokens.padded(rows)
        return features if self.sides is None else {**features, "token_type_ids": self.sides.padded(rows)["input_ids"]}


class PairScoring:
    """The task that trains a cross-encoder."""

    name, head = "cross-encoder", None  # its head is inside the model

    def __init__(self, encoder: CrossEncoder, pairs: TokenizedPairs, scores: FloatArray) -> None:
        self.encoder, self.pairs, self.scores = encoder, pairs, scores

    def __len__(self) -> int:
        """Number of pairs, both orders counted."""
        return len(self.scores)

    def prepare(self, chosen: IntArray) -> tuple[dict[str, Tensor], Tensor, IntArray]:
        """Padded rows, and the gold scores from 0 to 1."""
        return self.pairs.padded(chosen), torch.from_numpy(self.scores[chosen] / HIGHEST), self.pairs.tokens.lengths_of(chosen)

    def loss(self, prepared: tuple[dict[str, Tensor], Tensor, IntArray]) -> Tensor:
        """Binary cross-entropy with soft labels."""
        features, wanted, _ = prepared
        logits = self.encoder.logits(features)
        return functional.binary_cross_entropy_with_logits(logits, wanted.to(logits.device))

    def weight(self, prepared: tuple[dict[str, Tensor], Tensor, IntArray]) -> float:
        """Pairs."""
        return len(prepared[1])

    def count(self, prepared: tuple[dict[str, Tensor], Tensor, IntArray]) -> TokenCount:
        """Tokens without padding, and with it."""
        return TokenCount(int(prepared[2].sum()), prepared[0]["input_ids"].numel())


def _trained(name: str) -> "tuple[PreTrainedModel, PreTrainedTokenizerFast] | None":
    """Model and tokenizer of a saved model that has a head with one output; None if it has none or does not exist."""
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    if not name.strip() or name in BUNDLED:  # those are encoders and need no request to the hub
        return None
    only_here = not Path(name).is_dir() and bool(hub_out_of_reach())
    with quiet_transformers():
        try:
            config: PretrainedConfig = AutoConfig.from_pretrained(name, local_files_only=only_here)
        except Exception:  # noqa: BLE001 - `open_model` knows more kinds of models, and explains what is wrong
            return None
        if not any(name.endswith(HEADED) for name in config.architectures or ()):
            return None
        if config.num_labels != 1:
            raise ModelError(
                f"{name}: its head has {amount(config.num_labels, 'output')}, and a cross-encoder for similarity has one",
                hint="name an encoder without a head, or one that was trained on rated pairs",
            )
        try:
            model = AutoModelForSequenceClassification.from_pretrained(name, local_files_only=only_here)
            tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=only_here)
        except Exception as error:
            reason = str(error).strip().split("\n")[0][:200]
            raise ModelError(f"{name}: cannot load the cross-encoder ({reason})", hint="is the folder complete?") from error
    refuse_empty_tokenizer(tokenizer, name)
    return model, tokenizer


def _with_head(body: "PreTrainedModel", name: str, seed: int) -> "PreTrainedModel":
    """The body's weights in a model of its kind for sequence classification; a missing pooler is new."""
    from transformers import AutoModelForSequenceClassification

    one_output = {"id2label": {0: "score"}, "label2id": {"score": 0}}
    config = type(body.config).from_dict({**body.config.to_dict(), **one_output})
    try:
        with torch.random.fork_rng(), quiet_transformers():
            torch.manual_seed(seed)
            model: PreTrainedModel = AutoModelForSequenceClassification.from_config(config)
    except ValueError as error:
        raise ModelError(
            f"{name}: transformers has no head over two sentences for a {config.model_type} body",
            hint="name another encoder for the cross-encoder, for example a BERT or RoBERTa",
        ) from error
    missing, _ = model.base_model.load_state_dict(body.float().state_dict(), strict=False)
    lost = [weight for weight in missing if not weight.startswith("pooler.") and not weight.endswith("position_ids")]
    if lost:
        raise ModelError(f"{name}: its body does not fit under a head ({lost[0]} is missing)", hint="name another encoder")
    return model
