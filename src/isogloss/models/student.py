"""The student: a sentence-transformers model that can be trimmed, bridged, trained and saved.

`token_encoder` computes its embeddings. The saved folder gives the same ones in plain `SentenceTransformer(path)`. `static` and
`bilstm` have the students without a transformer.
"""

import copy
import logging
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.amounts import amount
from isogloss.errors import ModelError
from isogloss.models.bridge import Bridge
from isogloss.models.encoder import DOCUMENT_PROMPTS, PROMPT_NAME, QUERY_PROMPT, fingerprint, refuse_broken
from isogloss.models.frozen_layers import SplitBody
from isogloss.models.hub import push_folder
from isogloss.models.loading import choose_device, local_model_folder, open_model, position_count
from isogloss.models.saving import save_model
from isogloss.models.token_encoder import TokenEncoder
from isogloss.models.token_store import TextTokenizer, TokenStore
from isogloss.models.vocabulary.coverage import Survey, Texts, coverage, survey, survey_each
from isogloss.models.vocabulary.grow import Growth, grown_table
from isogloss.models.vocabulary.resize import NewPiece, set_token_table, with_rows
from isogloss.models.vocabulary.trim import Trimming, kept_rows
from isogloss.progress import OnProgress, silent
from isogloss.types import FloatArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast

logger = logging.getLogger(__name__)

MAX_TOKENS = 128
AS_STORED = 0


class Student(TokenEncoder):
    """A multilingual encoder that learns a teacher's embedding space. Start with `Student.from_pretrained(name)`."""

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

        `AS_STORED` stands for the stored limit, whatever it is. To ask for more than the positions is an error; the default of
        recipes, 128, is lowered.
        """
        asked = max_tokens
        if not max_tokens:
            stored = int(self.model.max_seq_length or MAX_TOKENS)
            max_tokens = min(MAX_TOKENS, stored) if max_tokens is None else stored
        body = getattr(self.model[0], "auto_model", None)
        positions = None if body is None else position_count(body)
        if positions is not None and max_tokens > positions:
            if asked not in (None, AS_STORED, MAX_TOKENS):
                raise ModelError(
                    f"{self.name}: student.max_tokens = {max_tokens}, but the model reads at most"
                    f" {amount(positions, 'token')}: it has no more places for them",
                    hint=f"set student.max_tokens = {positions} or less, or choose a student that reads longer text",
                )
            message = "%s: max_tokens = %d, but the model has %s: longer text is truncated there"
            logger.warning(message, self.name, max_tokens, amount(positions, "position"))
            max_tokens = positions
        self.model.max_seq_length = max_tokens

    @classmethod
    def from_pretrained(cls, name: str, prompt: str | None = "", max_tokens: int | None = None, device: str = "auto") -> Self:
        """Load a student: a hub model, a local folder, a finished run, or a bundled model (`multilingual-e5-small`).

        `prompt` goes before every text and is saved with the model, for queries and documents, too (see `set_prompts`); None
        keeps all prompts of the model. Text is truncated at `max_tokens` (default: the model's own limit, at most 128; 0: that
        limit). `Student` loads every kind of student, a subclass only its own.
        """
        origin, model = local_model_folder(name), open_model(name).to(choose_device(device))
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
    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """The tokenizer."""
        tokenizer: PreTrainedTokenizerFast = getattr(self.model.tokenizer, "tokenizer", self.model.tokenizer)
        return tokenizer  # WordEmbeddings wraps it

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
