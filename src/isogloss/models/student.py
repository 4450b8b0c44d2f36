"""The student: a sentence-transformers model that can be trimmed, bridged, trained and saved in the same format.

It takes token ids, without padding wherever its body allows (`encode.packed`); the saved folder gives the same vectors in
plain `SentenceTransformer(path)`.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.errors import ModelError
from isogloss.kernels.packed import Packed, hidden_states, packing, packs_exactly, pooled, runs_of
from isogloss.models.bridge import Bridge
from isogloss.models.encoder import embedding_dimension, fingerprint, refuse_broken
from isogloss.models.fast_encode import Done, FastEncoder, fast_encoder
from isogloss.models.frozen_layers import Activations, SplitBody
from isogloss.models.loading import choose_device, open_model, token_places
from isogloss.models.token_store import TextTokenizer, TokenStore, by_length
from isogloss.models.vocabulary.coverage import Texts, coverage, survey, survey_each
from isogloss.models.vocabulary.grow import Growth, grow
from isogloss.models.vocabulary.resize import NewPiece
from isogloss.models.vocabulary.trim import Trimming, kept_rows, trim
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

PADDED_AT_ONCE, PACKED_AT_ONCE, AT_ONCE_ACCELERATED = 640, 8192, 16_384  # tokens
WORTH_TAKING_APART, SAMPLE = 512, 24  # sentences
PROMPT_NAME = "isogloss"
MAX_TOKENS = 128
POOLINGS = ("mean", "cls", "max")  # what can be pooled without padding


class Student:
    """A multilingual encoder on its way into the teacher's space. Start with `Student.load(name)`."""

    def __init__(self, model: "SentenceTransformer", name: str, prompt: str = "", max_tokens: int | None = None) -> None:
        self.model, self.name = model.float(), name  # some hub models come in half precision; training is in single
        self.trimming: Trimming | None = None
        self._refuse_other_kinds()
        if prompt:  # saved with the model, so that plain sentence-transformers puts it there too
            model.prompts[PROMPT_NAME] = prompt
            model.default_prompt_name = PROMPT_NAME
        self._cut_at(max_tokens)

    def _refuse_other_kinds(self) -> None:
        if getattr(self.model[0], "transformers_model", None) is None and not hasattr(self.model[0], "auto_model"):
            raise ModelError(
                f"{self.name}: its first module is {type(self.model[0]).__name__}, not a transformer body",
                hint="students are encoders such as XLM-R, mBERT or multilingual-e5; for a token table use StaticStudent",
            )

    def _cut_at(self, max_tokens: int | None) -> None:
        """Cut text at `max_tokens`, whatever limit the model was stored with, as far as its body has places for them.

        None keeps the limit that it was stored with, or the paper's, if that is lower.
        """
        if max_tokens is None:
            max_tokens = min(MAX_TOKENS, int(self.model.max_seq_length or MAX_TOKENS))
        body = getattr(self.model[0], "auto_model", None)
        places = None if body is None else token_places(body)
        if places is not None and max_tokens > places:
            told = "%s: max_tokens = %d, but the model has places for %d tokens: longer text is cut there"
            logger.warning(told, self.name, max_tokens, places)
            max_tokens = places
        self.model.max_seq_length = max_tokens

    @classmethod
    def load(cls, name: str, prompt: str = "", max_tokens: int | None = None, device: str = "auto") -> Self:
        """Load a hub model, a local folder, a finished run or a carried model as a student."""
        return cls(open_model(name).to(choose_device(device)), name, prompt, max_tokens)

    @property
    def body(self) -> "PreTrainedModel":
        """The transformer inside."""
        body: PreTrainedModel = self.model[0].auto_model
        return body

    @property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The tokenizer inside."""
        tokenizer: PreTrainedTokenizerFast = self.model.tokenizer
        return tokenizer

    @property
    def pooling(self) -> str:
        """How token states become a sentence vector: "mean", "cls", "max", or another of the library's ways."""
        mode = getattr(self.model[1], "pooling_mode", "") if len(self.model) > 1 else ""
        return mode if isinstance(mode, str) else "+".join(mode)

    @property
    def prompt(self) -> str:
        """What the model puts before every text by default."""
        return self.model.prompts.get(self.model.default_prompt_name or "", "") or ""

    @property
    def dimension(self) -> int:
        """Length of the vectors it gives now."""
        return embedding_dimension(self.model)

    @property
    def fingerprint(self) -> str:
        """Names the weights as they are now."""
        return fingerprint(self.model, self.prompt)

    @property
    def text_tokenizer(self) -> TextTokenizer:
        """What turns text into rows, as the model does it."""
        return TextTokenizer(self.tokenizer, int(self.model.max_seq_length), self.prompt)

    @property
    def is_static(self) -> bool:
        """Whether it is a table of tokens and has no body."""
        return False

    def tokenize(self, texts: Sequence[str]) -> TokenStore:
        """Token ids of `texts`, cut and prompted as the model does it."""
        return TokenStore.of(texts, self.tokenizer, int(self.model.max_seq_length), self.prompt)

    def trim(self, texts_by_language: Texts, how: str = "alphabet", measured_on: Texts | None = None) -> Trimming:
        """Cut the vocabulary to what these languages can spell ("alphabet") or did write ("corpus").

        Text is read once, so blocks of any number of sentences may stream by. How each language fares is counted on the
        same text, which keeps all its pieces, or on other text (held out, say) where `measured_on` gives some.
        """
        before = self.tokenizer
        seen = survey(before, texts_by_language)
        keep = kept_rows(before, seen, how, [prompt for prompt in (self.prompt, *self.model.prompts.values()) if prompt])
        (rows, width), size = self.table.shape, self.table.element_size()
        self._keep_rows(keep)
        surveys = (seen, seen) if measured_on is None else survey_each((before, self.tokenizer), measured_on)
        self.trimming = Trimming(rows, len(keep), width, size, coverage(surveys[0], keep, surveys[1]))
        return self.trimming

    def grow(
        self, new_pieces: Sequence[NewPiece], given: Mapping[str, Tensor] | None = None, old_texts: Texts | None = None
    ) -> Growth:
        """Add pieces for one language more: see `growing`."""
        grown = grow(self.body, self.tokenizer, new_pieces, given, old_texts)
        self.model[0].processor = grown.tokenizer
        return grown.growth

    @property
    def table(self) -> Tensor:
        """The token table: a row for each piece of the vocabulary."""
        weight: Tensor = self.body.get_input_embeddings().weight
        return weight

    def _keep_rows(self, keep: IntArray) -> None:
        self.model[0].processor = trim(self.body, self.tokenizer, keep)

    def add_bridge(self, bridge: Bridge, normalize: bool) -> None:
        """Append the bridge as a Dense layer, and a Normalize layer if the teacher's vectors have unit length."""
        from sentence_transformers.sentence_transformer.modules import Dense, Normalize

        height, width = bridge.weight.shape
        if width != self.dimension:
            raise ModelError(f"the bridge takes {width}-d vectors, the student gives {self.dimension}-d", hint="solve it again")
        dense = Dense(
            width,
            height,
            bias=True,
            activation_function=nn.Identity(),
            init_weight=torch.from_numpy(bridge.weight.copy()),
            init_bias=torch.from_numpy(bridge.bias.copy()),
        )
        self._append(dense)
        if normalize:
            self._append(Normalize())
        self.model.eval()

    def add_normalization(self) -> None:
        """Make its vectors unit length, as the teacher's are, if they are not already."""
        from sentence_transformers.sentence_transformer.modules import Normalize

        if not isinstance(self.model[-1], Normalize):
            self._append(Normalize())

    def _append(self, module: nn.Module) -> None:
        self.model.append(module.to(self.model.device))

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        """Sentence vectors of a padded batch, with gradients where they are on."""
        vectors: Tensor = self.model(dict(features))["sentence_embedding"]
        return vectors

    def vectors_of(
        self,
        tokens: TokenStore,
        rows: IntArray | None = None,
        remembered: tuple[SplitBody, Activations] | None = None,
        on_progress: OnProgress = silent,
        stage: str = "student",
    ) -> FloatArray:
        """Vectors of tokenized sentences (of `rows` only, if given), from remembered activations where there are some."""
        rows = np.arange(len(tokens)) if rows is None else np.asarray(rows)
        done = 0

        def finished(count: int) -> None:
            nonlocal done
            done += count
            on_progress(Step(stage, done, len(rows), "sentences"))

        self.model.eval()
        with torch.inference_mode():
            fast = self._taken_apart(tokens, rows) if remembered is None and len(rows) >= WORTH_TAKING_APART else None
            if fast is not None:
                return fast.vectors(tokens, rows, finished)
            return self._by_own_modules(tokens, rows, remembered, finished)

    def _by_own_modules(
        self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None, done: Done
    ) -> FloatArray:
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        for places in by_length(tokens.lengths_of(rows), self._tokens_at_once):
            vectors[places] = self._chunk(tokens, rows[places], remembered).cpu().numpy()
            done(len(places))
        return vectors

    def _taken_apart(self, tokens: TokenStore, rows: IntArray) -> FastEncoder | None:
        """The faster way to many vectors, with the weights of this moment, if some of the rows come out alike.

        On CUDA in half precision where that is exact enough.
        """
        on_cuda = self.body.device.type == "cuda"
        sample = rows[np.argsort(tokens.lengths_of(rows))[np.linspace(0, len(rows) - 1, SAMPLE).astype(int)]]
        expected = self._by_own_modules(tokens, sample, None, lambda _count: None)
        for dtype in (torch.float16, torch.float32) if on_cuda else (torch.float32,):
            fast = fast_encoder(self.model, self.prompt, dtype)
            if fast is None:
                return None
            if fast.alike(expected, fast.vectors(tokens, sample)):
                return fast
        return None

    def batch(self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None) -> Tensor:
        """Sentence vectors of some rows, from the body's first layer or from what is remembered of its lower ones.

        Rows are taken in order of length, in chunks where there are many. The vectors, and so the gradients, are those of
        the whole batch at once.
        """
        chunks = list(by_length(tokens.lengths_of(rows), self._tokens_at_once))
        vectors = torch.cat([self._chunk(tokens, rows[chunk], remembered) for chunk in chunks])
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(chunks)] = np.arange(len(rows))
        return vectors[torch.from_numpy(back).to(vectors.device)]

    @property
    def _tokens_at_once(self) -> int:
        """Tokens in one forward pass: few where a CPU would compute padding; many on an accelerator."""
        if self.body.device.type != "cpu":
            return AT_ONCE_ACCELERATED
        return PACKED_AT_ONCE if self.packs else PADDED_AT_ONCE

    def tokens_computed(self, lengths: IntArray) -> int:
        """Tokens that go through it for sentences of these lengths, padding included."""
        if self.packs:
            return int(lengths.sum())
        return sum(len(chunk) * int(lengths[chunk].max()) for chunk in by_length(lengths, self._tokens_at_once))

    @cached_property
    def packs(self) -> bool:
        """Whether sentences go through it end to end, without padding: on CUDA or a CPU, if that gives the same vectors."""
        if self.body.device.type not in ("cpu", "cuda") or self.pooling not in POOLINGS or not self._pools_prompts:
            return False

        def run_by_run(packed: Packed) -> Tensor:
            with packing(self.body):
                return hidden_states(self.body, packed)

        way = run_by_run if self.body.device.type == "cpu" else None
        return packs_exactly(self.body, self.table.shape[0], int(self.model.max_seq_length), way)

    @property
    def _pools_prompts(self) -> bool:
        """Whether the prompt's tokens are pooled with the others; a mask that leaves them out needs padded rows."""
        return not self.prompt or bool(getattr(self.model[1], "include_prompt", True))

    def _packed(self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None) -> Tensor:
        """Vectors of rows in order of length."""
        device = self.body.device
        ids, lengths = tokens.gather(rows)
        runs = runs_of(lengths.tolist()) if device.type == "cpu" else ()
        packed = Packed.of(torch.from_numpy(ids).to(device).long(), torch.from_numpy(lengths).to(device).long(), runs)
        with packing(self.body), self._going_on_from(remembered, lambda activations: activations.packed(rows)[None]):
            states = hidden_states(self.body, packed)
        features = {"sentence_embedding": pooled(states, packed.sentence, packed.starts, self.pooling)}
        for module in list(self.model)[2:]:
            features = module(features)
        return features["sentence_embedding"]

    def _chunk(self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None) -> Tensor:
        if self.packs:
            return self._packed(tokens, rows, remembered)
        features = {name: value.to(self.body.device) for name, value in tokens.padded(rows).items()}
        with self._going_on_from(remembered, lambda activations: activations.padded(rows)):
            return self.forward(features)

    def _going_on_from(
        self, remembered: tuple[SplitBody, Activations] | None, of_rows: Callable[[Activations], Tensor]
    ) -> AbstractContextManager[None]:
        """Inside this block the body begins above what is remembered."""
        if remembered is None:
            return nullcontext()
        split, activations = remembered
        return split.upper(of_rows(activations).to(self.body.device))

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One vector a sentence, in the order given."""
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        vectors = self.vectors_of(self.tokenize(texts), on_progress=on_progress, stage=stage)
        refuse_broken(vectors, texts, self.name)
        return vectors

    def trained_parameters(self, split: SplitBody | None) -> Iterable[tuple[str, nn.Parameter]]:
        """Named parameters that training may change: everything, or what is above the cut."""
        if split is None:
            return list(self.model.named_parameters())
        allowed = {id(parameter) for layer in split.layers[split.cut :] for parameter in layer.parameters()}
        allowed |= {id(parameter) for module in list(self.model)[1:] for parameter in module.parameters()}
        return [(name, parameter) for name, parameter in self.model.named_parameters() if id(parameter) in allowed]
