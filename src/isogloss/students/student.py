"""The student: a sentence-transformers model that can be trimmed, bridged, trained and saved in the same format.

Its own `encode` works on token ids in batches of similar length; the saved folder gives the same vectors in plain
`SentenceTransformer(path)`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from torch import Tensor, nn

from isogloss.encode.encoder import embedding_dimension, fingerprint, refuse_broken
from isogloss.encode.models import choose_device, open_model
from isogloss.encode.tokens import TokenStore, by_length
from isogloss.errors import ModelError
from isogloss.progress import OnProgress, Step, silent
from isogloss.students.bridge import Bridge
from isogloss.students.frozen import Activations, SplitBody
from isogloss.students.trimming import Trimming, coverage, kept_rows, trim
from isogloss.types import FloatArray, IntArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

TOKENS_AT_ONCE, TOKENS_AT_ONCE_ACCELERATED = 640, 16_384
PROMPT_NAME = "isogloss"


class Student:
    """A multilingual encoder on its way into the teacher's space. Start with `Student.load(name)`."""

    def __init__(self, model: "SentenceTransformer", name: str, prompt: str = "", max_tokens: int = 128) -> None:
        self.model, self.name = model.float(), name  # some hub models come in half precision; training is in single
        self.trimming: Trimming | None = None
        if getattr(model[0], "transformers_model", None) is None and not hasattr(model[0], "auto_model"):
            raise ModelError(
                f"{name}: its first module is {type(model[0]).__name__}, not a transformer body",
                hint="students are encoders such as XLM-R, mBERT or multilingual-e5",
            )
        if prompt:  # saved with the model, so that plain sentence-transformers puts it there too
            model.prompts[PROMPT_NAME] = prompt
            model.default_prompt_name = PROMPT_NAME
        model.max_seq_length = min(max_tokens, int(model.max_seq_length or max_tokens))

    @classmethod
    def load(cls, name: str, prompt: str = "", max_tokens: int = 128, device: str = "auto") -> Self:
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

    def tokenise(self, texts: Sequence[str]) -> TokenStore:
        """Token ids of `texts`, cut and prompted as the model does it."""
        return TokenStore.of(texts, self.tokenizer, int(self.model.max_seq_length), self.prompt)

    def trim(self, texts_by_language: Mapping[str, Sequence[str]], how: str = "alphabet") -> Trimming:
        """Cut the vocabulary to what these languages can spell ("alphabet") or did write ("corpus")."""
        before = self.tokenizer
        prompts = [prompt for prompt in (self.prompt, *self.model.prompts.values()) if prompt]
        keep = kept_rows(before, {**texts_by_language, "prompts": prompts} if prompts else texts_by_language, how)
        share = coverage(before, keep, [text for texts in texts_by_language.values() for text in texts])
        rows_before = int(self.body.get_input_embeddings().weight.shape[0])
        self.model[0].processor = trim(self.body, before, keep)
        self.trimming = Trimming(rows_before, len(keep), share)
        return self.trimming

    def add_bridge(self, bridge: Bridge, normalise: bool) -> None:
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
        if normalise:
            self._append(Normalize())
        self.model.eval()

    def add_normalisation(self) -> None:
        """Make its vectors unit length, as the teacher's are, if they are not already."""
        from sentence_transformers.sentence_transformer.modules import Normalize

        if not isinstance(self.model[-1], Normalize):
            self._append(Normalize())

    def _append(self, module: nn.Module) -> None:
        self.model.append(module.to(self.body.device))

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
        """Vectors of tokenised sentences (of `rows` only, if given), from remembered activations where there are some."""
        rows = np.arange(len(tokens)) if rows is None else np.asarray(rows)
        vectors = np.empty((len(rows), self.dimension), dtype=np.float32)
        done = 0
        self.model.eval()
        with torch.inference_mode():
            for places in by_length(tokens.lengths[rows], self._tokens_at_once):
                vectors[places] = self._chunk(tokens, rows[places], remembered).cpu().numpy()
                done += len(places)
                on_progress(Step(stage, done, len(rows), "sentences"))
        return vectors

    def batch(self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None) -> Tensor:
        """Sentence vectors of some rows, from the body's first layer or from what is remembered of its lower ones.

        Rows are taken in chunks of similar length: one long sentence does not make the others as long. The vectors, and
        so the gradients, are those of the whole batch at once.
        """
        chunks = list(by_length(tokens.lengths[rows], self._tokens_at_once))
        vectors = torch.cat([self._chunk(tokens, rows[chunk], remembered) for chunk in chunks])
        back = np.empty(len(rows), dtype=np.int64)
        back[np.concatenate(chunks)] = np.arange(len(rows))
        return vectors[torch.from_numpy(back).to(vectors.device)]

    @property
    def _tokens_at_once(self) -> int:
        """Padded tokens in one forward pass: few on a CPU, where padding costs time; many on an accelerator."""
        return TOKENS_AT_ONCE if self.body.device.type == "cpu" else TOKENS_AT_ONCE_ACCELERATED

    def _chunk(self, tokens: TokenStore, rows: IntArray, remembered: tuple[SplitBody, Activations] | None) -> Tensor:
        device = self.body.device
        features = {name: value.to(device) for name, value in tokens.padded(rows).items()}
        if remembered is None:
            return self.forward(features)
        split, activations = remembered
        with split.upper(activations.padded(rows).to(device)):
            return self.forward(features)

    def encode(self, texts: Sequence[str], on_progress: OnProgress = silent, stage: str = "encode") -> FloatArray:
        """One vector a sentence, in the order given."""
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        vectors = self.vectors_of(self.tokenise(texts), on_progress=on_progress, stage=stage)
        refuse_broken(vectors, texts, self.name)
        return vectors

    def trained_parameters(self, split: SplitBody | None) -> Iterable[tuple[str, nn.Parameter]]:
        """Named parameters that training may change: everything, or what is above the cut."""
        if split is None:
            return list(self.model.named_parameters())
        allowed = {id(parameter) for layer in split.layers[split.cut :] for parameter in layer.parameters()}
        allowed |= {id(parameter) for module in list(self.model)[1:] for parameter in module.parameters()}
        return [(name, parameter) for name, parameter in self.model.named_parameters() if id(parameter) in allowed]
