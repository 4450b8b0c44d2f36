"""The student: a sentence-transformers model that can be trimmed, bridged, trained and saved.

It works on token ids, without padding if the transformer allows it (`kernels/packed.py`). The saved folder gives the same
embeddings in plain `SentenceTransformer(path)`. `static` and `bilstm` have the students without a transformer.
"""

import copy
import logging
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.errors import ModelError
from isogloss.kernels.packed import Packed, hidden_states, packing, packs_exactly, pooled, runs_of
from isogloss.models.bridge import Bridge
from isogloss.models.encoder import PROMPT_NAME, QUERY_PROMPT, embedding_dimension, fingerprint, refuse_broken
from isogloss.models.fast_encode import POOLINGS, Done, FastEncoder, alike, pooled_runs, trusted_encoder
from isogloss.models.frozen_layers import Activations, Frozen, SplitBody, on_all_cores, pack, split_layers
from isogloss.models.hub import push_folder
from isogloss.models.loading import choose_device, open_model, position_count, refuse_missing
from isogloss.models.saving import save_model
from isogloss.models.token_store import TextTokenizer, TokenStore, by_length, spread_by_length
from isogloss.models.vocabulary.coverage import Survey, Texts, coverage, survey, survey_each
from isogloss.models.vocabulary.grow import Growth, grown_table
from isogloss.models.vocabulary.resize import NewPiece, set_token_table, with_rows
from isogloss.models.vocabulary.trim import Trimming, kept_rows
from isogloss.progress import OnProgress, Step, silent
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

PADDED_AT_ONCE, PACKED_AT_ONCE, AT_ONCE_ACCELERATED = 640, 8192, 16_384  # tokens
FAST_FROM, SAMPLE = 512, 24  # sentences
DOCUMENT_PROMPTS = ("document", "passage", "corpus")  # as sentence-transformers looks for them
MAX_TOKENS = 128
AS_STORED = 0


class Student:
    """A multilingual encoder that learns a teacher's embedding space. Start with `Student.from_pretrained(name)`."""

    kind: ClassVar[str] = "a transformer"
    kind_hint: ClassVar[str] = (
        'name an encoder such as XLM-R or multilingual-e5, or set student.kind = "static" for a token table'
    )
    tokenizer_module: ClassVar[str] = ""  # see TextTokenizer.module

    def __init__(self, model: "SentenceTransformer", name: str, prompt: str | None = "", max_tokens: int | None = None) -> None:
        found = _kind_of(model)
        if found is None or found.kind != self.kind:
            raise ModelError(f"{name}: its first module is {type(model[0]).__name__}, not {self.kind}", hint=self.kind_hint)
        self.model, self.name = model.float(), name  # some hub models are stored in half precision
        self.trimming: Trimming | None = None
        self.trimmed_tokenizer: TextTokenizer | None = None  # as trimming left it
        self.origin: Path | None = None  # the folder it was loaded from
        # Other models have prompts for queries and documents that this one will not be trained with.
        self._keeps_prompts = prompt is None or (PROMPT_NAME in model.prompts and not prompt)
        if prompt:  # saved with the model, so that plain sentence-transformers uses it too
            model.prompts[PROMPT_NAME] = prompt
            model.default_prompt_name = PROMPT_NAME
        self._set_max_tokens(max_tokens)

    def set_prompts(self, query: str = "", document: str = "") -> None:
        """Set the prompts of `encode_query` and `encode_document`; empty: the prompt of `encode`."""
        self._write_prompts(query, document)
        self._keeps_prompts = True

    def _write_prompts(self, query: str, document: str) -> None:
        for name in DOCUMENT_PROMPTS:
            self.model.prompts.pop(name, None)
        self.model.prompts |= {QUERY_PROMPT: query or self.prompt, DOCUMENT_PROMPTS[0]: document or self.prompt}

    def _set_max_tokens(self, max_tokens: int | None) -> None:
        """Truncate text at `max_tokens`, or at the stored limit, at most 128; never beyond the transformer's positions.

        `AS_STORED` stands for the stored limit, whatever it is.
        """
        if not max_tokens:
            stored = int(self.model.max_seq_length or MAX_TOKENS)
            max_tokens = min(MAX_TOKENS, stored) if max_tokens is None else stored
        body = getattr(self.model[0], "auto_model", None)
        positions = None if body is None else position_count(body)
        if positions is not None and max_tokens > positions:
            message = "%s: max_tokens = %d, but the model has %d positions: longer text is truncated there"
            logger.warning(message, self.name, max_tokens, positions)
            max_tokens = positions
        self.model.max_seq_length = max_tokens

    @classmethod
    def from_pretrained(cls, name: str, prompt: str | None = "", max_tokens: int | None = None, device: str = "auto") -> Self:
        """Load a student: a hub model, a local folder, a finished run, or a bundled model (`multilingual-e5-small`).

        `prompt` goes before every text and is saved with the model, for queries and documents, too (see `set_prompts`); None
        keeps all prompts of the model. Text is truncated at `max_tokens` (default: the model's own limit, at most 128; 0: that
        limit). `Student` loads every kind of student, a subclass only its own.
        """
        origin, model = refuse_missing(name), open_model(name).to(choose_device(device))
        kind = cast("type[Self]", _kind_of(model) or Student) if cls is Student else cls
        student = kind(model, name, prompt, max_tokens)
        student.origin = origin
        return student

    def copy(self) -> Self:
        """The same model once more: whoever changes one of them does not change the other."""
        prompt = None if self._keeps_prompts else ""
        return type(self)(copy.deepcopy(self.model), self.name, prompt, self.max_tokens)

    def save_pretrained(self, folder: Path | str, card: str = "", training: dict[str, Any] | None = None) -> None:
        """Save to a folder that plain `SentenceTransformer(folder)` loads, replacing a model in it.

        `card` is the model card (README.md), `training` describes the training data. Without both, those of the folder it was
        loaded from are kept if the weights are the same.
        """
        origin, prompts = None if card else self.origin, dict(self.model.prompts)
        if not self._keeps_prompts:
            self._write_prompts("", "")
        self.model.prompts.setdefault(PROMPT_NAME, self.prompt)  # says that the others are meant
        try:
            save_model(self.model, Path(folder), card or f"# {self.name}\n", training, origin)
        finally:
            self.model.prompts = prompts  # part of the fingerprint

    def push_to_hub(self, repo_id: str, card: str = "", **options: Any) -> str:  # noqa: ANN401 - those of push_folder
        """Upload what `save_pretrained` writes to the Hugging Face Hub, and return the URL of the commit.

        `options` are `token`, `private`, `commit_message`, `revision`, `create_pr` and `exist_ok`, as in sentence-transformers.
        """
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            self.save_pretrained(folder, card)
            return push_folder(folder, repo_id, **options)

    def encode(
        self,
        texts: str | Sequence[str],
        on_progress: OnProgress = silent,
        stage: str = "encode",
        *,
        normalize_embeddings: bool = False,
    ) -> FloatArray:
        """Embeddings of `texts`, one row per text, or one vector for a single string.

        Text is prompted and truncated as in the saved model. Batches are cut by their number of tokens.
        """
        if isinstance(texts, str):
            single: FloatArray = self.encode([texts], on_progress, stage, normalize_embeddings=normalize_embeddings)[0]
            return single
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        vectors = self.vectors_of(self.tokenize(texts), on_progress=on_progress, stage=stage)
        refuse_broken(vectors, texts, self.name)
        if normalize_embeddings:
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return vectors

    @property
    def body(self) -> "PreTrainedModel":
        """The transformer."""
        body: PreTrainedModel | None = getattr(self.model[0], "auto_model", None)
        if body is None:
            raise ModelError(f"{self.name} is {self.kind} and has no transformer layers", hint="set training.train_layers = 0")
        return body

    @property
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The tokenizer."""
        tokenizer: PreTrainedTokenizerFast = getattr(self.model.tokenizer, "tokenizer", self.model.tokenizer)
        return tokenizer  # WordEmbeddings wraps it

    @property
    def pooling(self) -> str:
        """The pooling mode: "mean", "cls", "max", or another of sentence-transformers' modes."""
        mode = next((module.pooling_mode for module in self.model if hasattr(module, "pooling_mode")), "")
        return mode if isinstance(mode, str) else "+".join(mode)

    @property
    def prompt(self) -> str:
        """The text that the model puts before every input by default."""
        return self.model.prompts.get(self.model.default_prompt_name or "", "") or ""

    @property
    def dimension(self) -> int:
        """Embedding dimension."""
        return embedding_dimension(self.model)

    @property
    def fingerprint(self) -> str:
        """Identifies the current weights, tokenizer and prompt."""
        return fingerprint(self.model, self.prompt)

    @property
    def text_tokenizer(self) -> TextTokenizer:
        """The tokenizer with the model's prompt and truncation."""
        current = TextTokenizer(self.tokenizer, self.max_tokens, self.prompt, self.tokenizer_module)
        kept = self.trimmed_tokenizer
        return kept if kept is not None and kept.is_same(current) else current

    @property
    def max_tokens(self) -> int:
        """Where text is truncated."""
        return int(self.model.max_seq_length)

    def tokenize(self, texts: Sequence[str]) -> TokenStore:
        """Token ids of `texts`, prompted and truncated as the model does it."""
        return self.text_tokenizer.store(texts)

    def trim(self, texts_by_language: Texts | Survey, how: str = "alphabet", measured_on: Texts | None = None) -> Trimming:
        """Keep only the vocabulary that these languages can spell ("alphabet") or that the text uses ("corpus").

        Text is read once, so it may be a stream of blocks, or a `Survey` of text that was read. All its pieces are kept;
        `measured_on` is other text on which to measure coverage, such as held-out text.
        """
        before, full = self.tokenizer, self.text_tokenizer.key
        seen = texts_by_language if isinstance(texts_by_language, Survey) else survey(before, texts_by_language)
        keep = kept_rows(before, seen, how, [prompt for prompt in (self.prompt, *self.model.prompts.values()) if prompt])
        rows, size = len(self.table), self.table.numel()
        if keep[-1] >= rows:
            raise ModelError(
                f"the tokenizer has row {keep[-1]} but the model's table ends at {rows - 1}",
                hint="the tokenizer does not belong to this model",
            )
        self._set_vocabulary(with_rows(before, keep), self.table.detach()[torch.from_numpy(keep).to(self.table.device)])
        self.trimmed_tokenizer = replace(self.text_tokenizer, trimmed_from=(full, keep))
        surveys = (seen, seen) if measured_on is None else survey_each((before, self.tokenizer), measured_on)
        saved = size - self.table.numel()
        megabytes = saved * self.table.element_size() / 1e6
        self.trimming = Trimming(rows, len(keep), saved, megabytes, coverage(surveys[0], keep, surveys[1]))
        return self.trimming

    def grow(
        self, new_pieces: Sequence[NewPiece], given: Mapping[str, Tensor] | None = None, old_texts: Texts | None = None
    ) -> Growth:
        """Add vocabulary pieces for a new language; see `vocabulary.grow`."""
        tokenizer, table, growth = grown_table(self.table, self.tokenizer, new_pieces, given, old_texts)
        self._set_vocabulary(tokenizer, table)
        return growth

    @property
    def table(self) -> Tensor:
        """The token embedding matrix: one row per piece of the vocabulary."""
        weight: Tensor = self.body.get_input_embeddings().weight
        return weight

    def _set_vocabulary(self, tokenizer: "PreTrainedTokenizerFast", table: Tensor) -> None:
        set_token_table(self.body, table, tokenizer.pad_token_id)
        self.model[0].processor = tokenizer

    def add_bridge(self, bridge: Bridge, normalize: bool) -> None:
        """Append the bridge as a Dense layer, and a Normalize layer if the teacher's embeddings have unit length."""
        from sentence_transformers.sentence_transformer.modules import Dense

        height, width = bridge.weight.shape
        if width != self.dimension:
            raise ModelError(f"the bridge takes {width}-d vectors, the student gives {self.dimension}-d", hint="solve it again")
        weight, bias = (torch.from_numpy(part.copy()) for part in (bridge.weight, bridge.bias))
        dense = Dense(width, height, True, nn.Identity(), init_weight=weight, init_bias=bias)
        self.model.append(dense.to(self.model.device))
        if normalize:
            self.add_normalization()
        self.model.eval()

    def add_normalization(self) -> None:
        """Append a Normalize layer, unless the last one is."""
        from sentence_transformers.sentence_transformer.modules import Normalize

        if not isinstance(self.model[-1], Normalize):
            self.model.append(Normalize())

    def forward(self, features: dict[str, Tensor]) -> Tensor:
        """Embeddings of a padded batch, with gradients if they are enabled."""
        vectors: Tensor = self.model(dict(features))["sentence_embedding"]
        return vectors

    def vectors_of(
        self,
        tokens: TokenStore,
        rows: IntArray | None = None,
        frozen: Frozen | None = None,
        on_progress: OnProgress = silent,
        stage: str = "student",
        dtype: torch.dtype = torch.float32,
    ) -> FloatArray:
        """Embeddings of tokenized sentences (of `rows`, if given), from the outputs of `frozen` layers if given.

        On a CPU many are computed in `dtype`, if a sample is the same up to rounding; on CUDA in half precision.
        """
        rows = np.arange(len(tokens)) if rows is None else np.asarray(rows)
        done = 0

        def finished(count: int) -> None:
            nonlocal done
            done += count
            on_progress(Step(stage, done, len(rows), "sentences"))

        self.model.eval()
        with torch.inference_mode():
            quickly = self._with_fast_encoder if frozen is None else self._from_outputs
            found = quickly(tokens, rows, frozen, finished, dtype) if len(rows) >= FAST_FROM else None
            return self._by_own_modules(tokens, rows, frozen, finished) if found is None else found

    def _from_outputs(
        self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None, done: Done, dtype: torch.dtype
    ) -> FloatArray | None:
        """Embeddings from the outputs of frozen layers without padding, on all cores; None if a sample would differ."""
        if frozen is None or not self.packs:
            return None
        split, activations = frozen
        layers = split_layers(self.body, slice(split.cut, None), tokens, dtype)
        if layers is None:
            return None

        def embed(chosen: IntArray) -> FloatArray:
            with torch.inference_mode():
                packed = pack(tokens, chosen, activations.packed(chosen))
                return np.asarray(self._after_pooling(pooled_runs(layers(packed), packed.runs, self.pooling)).numpy())

        sample = rows[spread_by_length(tokens.lengths_of(rows), SAMPLE)]
        if not alike(embed(sample), self._by_own_modules(tokens, sample, frozen, lambda _count: None), dtype):
            return None if dtype == torch.float32 else self._from_outputs(tokens, rows, frozen, done, torch.float32)
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        for places, embeddings in on_all_cores(embed, tokens, rows):
            vectors[places] = embeddings
            done(len(places))
        return vectors

    def _by_own_modules(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None, done: Done) -> FloatArray:
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        for places in by_length(tokens.lengths_of(rows), self._tokens_at_once):
            vectors[places] = self._chunk(tokens, rows[places], frozen).cpu().numpy()
            done(len(places))
        return vectors

    def _with_fast_encoder(
        self, tokens: TokenStore, rows: IntArray, _frozen: Frozen | None, done: Done, dtype: torch.dtype
    ) -> FloatArray | None:
        """Embeddings by a fast encoder, in half precision if that is exact enough; None if a sample would differ."""
        sample = rows[spread_by_length(tokens.lengths_of(rows), SAMPLE)]

        def agrees(fast: FastEncoder) -> bool:
            return fast.alike(self._by_own_modules(tokens, sample, None, lambda _count: None), fast.vectors(tokens, sample))

        dtype = torch.float16 if self.model.device.type == "cuda" else dtype
        fast = trusted_encoder(self.model, self.name, self.prompt, dtype, agrees)
        return None if fast is None else fast.vectors(tokens, rows, done)

    def batch(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None) -> Tensor:
        """Embeddings of some rows, with gradients if they are enabled; from the outputs of `frozen` layers if given.

        Rows are computed in chunks of similar length, which changes neither embeddings nor gradients.
        """
        chunks = list(by_length(tokens.lengths_of(rows), self._tokens_at_once))
        vectors = torch.cat([self._chunk(tokens, rows[chunk], frozen) for chunk in chunks])
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(chunks)] = np.arange(len(rows))
        return vectors[torch.from_numpy(back).to(vectors.device)]

    @property
    def _tokens_at_once(self) -> int:
        """Tokens in one forward pass: fewer if a CPU computes padding, more on an accelerator."""
        if self.body.device.type != "cpu":
            return AT_ONCE_ACCELERATED
        return PACKED_AT_ONCE if self.packs else PADDED_AT_ONCE

    def tokens_computed(self, lengths: IntArray) -> int:
        """Tokens that are computed for sentences of these lengths, including padding."""
        if self.packs:
            return int(lengths.sum())
        return sum(len(chunk) * int(lengths[chunk].max()) for chunk in by_length(lengths, self._tokens_at_once))

    @cached_property
    def packs(self) -> bool:
        """Whether sentences are computed end to end, without padding: on CUDA or a CPU, if the embeddings stay the same."""
        # Leaving the prompt's tokens out of the pooling needs a mask, hence padding.
        pools_prompt = not self.prompt or getattr(self.model[1], "include_prompt", True)
        if self.body.device.type not in ("cpu", "cuda") or self.pooling not in POOLINGS or not pools_prompt:
            return False
        return packs_exactly(self.body, self.table.shape[0], int(self.model.max_seq_length))

    def _chunk(self, tokens: TokenStore, rows: IntArray, frozen: Frozen | None) -> Tensor:
        """Embeddings of rows in order of length."""
        device = self.body.device
        if not self.packs:
            features = {name: value.to(device) for name, value in tokens.padded(rows).items()}
            with self._above(frozen, lambda activations: activations.padded(rows)):
                return self.forward(features)
        ids, lengths = tokens.gather(rows)
        runs = runs_of(lengths.tolist()) if device.type == "cpu" else ()
        packed = Packed.of(torch.from_numpy(ids).to(device).long(), torch.from_numpy(lengths).to(device).long(), runs)
        with packing(self.body), self._above(frozen, lambda activations: activations.packed(rows)[None]):
            states = hidden_states(self.body, packed)
        return self._after_pooling(pooled(states, packed.sentence, packed.starts, self.pooling))

    def _after_pooling(self, embeddings: Tensor) -> Tensor:
        for module in list(self.model)[2:]:
            embeddings = module({"sentence_embedding": embeddings})["sentence_embedding"]
        return embeddings

    def _above(self, frozen: Frozen | None, of_rows: Callable[[Activations], Tensor]) -> AbstractContextManager[None]:
        """Inside this block the transformer skips its frozen layers."""
        if frozen is None:
            return nullcontext()
        split, activations = frozen
        return split.upper(of_rows(activations).to(self.body.device))

    def trained_parameters(self, split: SplitBody | None) -> Iterable[tuple[str, nn.Parameter]]:
        """Named parameters that are trained: all, or those above the frozen layers."""
        if split is None:
            return list(self.model.named_parameters())
        allowed = {id(parameter) for layer in split.layers[split.cut :] for parameter in layer.parameters()}
        allowed |= {id(parameter) for module in list(self.model)[1:] for parameter in module.parameters()}
        return [(name, parameter) for name, parameter in self.model.named_parameters() if id(parameter) in allowed]


def _kind_of(model: "SentenceTransformer") -> type[Student] | None:
    """The class of student for a model, by its first module; None if it is not supported."""
    from isogloss.models.bilstm import BiLstmStudent
    from isogloss.models.static import StaticStudent

    is_transformer = getattr(model[0], "transformers_model", None) is not None or hasattr(model[0], "auto_model")
    kinds: dict[str, type[Student]] = {"StaticEmbedding": StaticStudent, "WordEmbeddings": BiLstmStudent}
    return kinds.get(type(model[0]).__name__, Student if is_transformer else None)
