"""The prompts of a retrieval model: one for queries, one for documents.

`in_role` gives an encoder for one of the two. Its prompt is, in this order: the one that it was opened with for this role
(`role_prompts`), the one prompt for everything that it was opened with, the one that the model was saved with for this role.
Without any of these it is the encoder itself.
"""

from copy import copy

from isogloss.models.cached_encoder import CachedEncoder
from isogloss.models.encoder import DOCUMENT_PROMPTS, QUERY_PROMPT, Encoder, SentenceEncoder
from isogloss.models.encoders.external import ExternalEncoder
from isogloss.models.student import Student
from isogloss.models.vector_cache import VectorCache

QUERY, DOCUMENT = "query", "document"
NAMES = {QUERY: (QUERY_PROMPT,), DOCUMENT: DOCUMENT_PROMPTS}  # of a model's own prompts, the first that is there


def in_role(encoder: Encoder, role: str) -> Encoder:
    """The model for "query" or "document"; the same object if that makes no difference.

    A cache keeps the embeddings of each prompt apart.
    """
    if isinstance(encoder, CachedEncoder):
        inner, cache = in_role(encoder.encoder, role), encoder.cache
        if inner is encoder.encoder:
            return encoder
        return CachedEncoder(inner, None if cache is None else VectorCache(cache.root, inner.fingerprint, inner.dimension))
    prompt = _prompt_of(encoder, role)
    other = None if prompt in ("", _default_prompt(encoder)) else with_prompt(encoder, prompt)
    return encoder if other is None else other


def with_prompt(encoder: Encoder, prompt: str) -> Encoder | None:
    """The same model with another prompt; None if it takes none."""
    if isinstance(encoder, SentenceEncoder):
        return SentenceEncoder(encoder.model, encoder.name, prompt, encoder.batch_size, encoder.precision)
    if isinstance(encoder, Student):
        return SentenceEncoder(encoder.model, encoder.name, prompt)
    if isinstance(encoder, ExternalEncoder):
        other = copy(encoder)
        vars(other).pop("fingerprint", None)  # kept since it was computed, with the other prompt
        other.prompt = prompt
        return other
    return None


def _prompt_of(encoder: Encoder, role: str) -> str:
    given = getattr(encoder, "role_prompts", {}).get(role, "")
    if not given and not isinstance(encoder, Student):  # the prompt of a student is the model's, not one it was opened with
        given = getattr(encoder, "prompt", "")
    own = getattr(encoder, "prompts", None) or getattr(getattr(encoder, "model", None), "prompts", None) or {}
    return given or next((own[name] for name in NAMES.get(role, ()) if own.get(name)), "")


def _default_prompt(encoder: Encoder) -> str:
    """What is put before every text as it is."""
    model = getattr(encoder, "model", None)
    own = (getattr(model, "prompts", None) or {}).get(getattr(model, "default_prompt_name", None) or "", "")
    return str(getattr(encoder, "prompt", "") or getattr(encoder, "default_prompt", "") or own or "")
