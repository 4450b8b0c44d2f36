"""Requests and responses as the OpenAI API has them, and what isogloss adds: `input_type`."""

import base64
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from isogloss.serve.engine import InputType
from isogloss.types import FloatArray


class EmbeddingsRequest(BaseModel):
    """The body of POST /v1/embeddings."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: str | list[str] | list[int] | list[list[int]] = Field(
        description="A text, texts, the token ids of a text, or those of several texts. Token ids are taken as they are."
    )
    model: str | None = Field(None, description="A name of /v1/models; not needed if there is one model.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="Numbers (the default), or little-endian float32 bytes in base64."
    )
    dimensions: int | None = Field(None, ge=1, description="Length of the vectors, for models trained with several lengths.")
    user: str | None = Field(None, description="Accepted and not used.")
    input_type: InputType | None = Field(None, description="Which of the model's prompts goes before texts.")

    def inputs(self) -> tuple[list[str], list[list[int]]]:
        """Texts, or token ids; one of the two lists is empty."""
        given: list[Any] = [self.input] if isinstance(self.input, str) else list(self.input)
        if given and isinstance(given[0], int):
            return [], [given]
        return ([], given) if given and isinstance(given[0], list) else (given, [])


class Model(BaseModel):
    """An entry of /v1/models."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "isogloss"
    dimension: int
    max_tokens: int


def embeddings_response(vectors: FloatArray, tokens: int, model: str, encoding: str | None) -> dict[str, Any]:
    """The answer to a request, as plain data."""
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in enumerate(_encoded(vectors, encoding))
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _encoded(vectors: FloatArray, encoding: str | None) -> Sequence[str | list[float]]:
    if encoding == "base64":
        return [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in vectors]
    rows: list[list[float]] = vectors.tolist()
    return rows


def error_body(message: str, kind: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    """An error as the OpenAI API has it."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}
