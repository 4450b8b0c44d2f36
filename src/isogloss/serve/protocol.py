"""Requests and responses as the OpenAI API has them, and what isogloss adds: `input_type`."""

import base64
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import to_json

from isogloss.serve.engine import InputType
from isogloss.serve.refusals import Refused
from isogloss.types import FloatArray


def _whole(given: object) -> object:
    """1.0 is a whole number in JSON."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Text = Annotated[str, Field(min_length=1)]
TokenId = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
TokenIds = Annotated[list[TokenId], Field(min_length=1)]
FORMS = ("text", "texts", "token ids", "token ids of several texts")
PLAINER = {
    "extra_forbidden": "there is no such field",
    "int_type": "must be a whole number",
    "list_type": "must be a list",
    "missing": "is missing",
    "model_type": "the body must be a JSON object",
    "string_type": "must be text",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
}


def _form(given: object) -> str:
    """Which form an input has, by its first element."""
    if isinstance(given, str):
        return FORMS[0]
    if not isinstance(given, list):
        return ""
    first = given[0] if given else ""
    return FORMS[3] if isinstance(first, list) else FORMS[2] if isinstance(first, int | float) else FORMS[1]


Input = Annotated[
    Annotated[Text, Tag(FORMS[0])]
    | Annotated[list[Text], Field(min_length=1), Tag(FORMS[1])]
    | Annotated[TokenIds, Tag(FORMS[2])]
    | Annotated[list[TokenIds], Field(min_length=1), Tag(FORMS[3])],
    Discriminator(
        _form, custom_error_type="input", custom_error_message="must be a text, a list of texts, or token ids, and not empty"
    ),
]


class EmbeddingsRequest(BaseModel):
    """The body of POST /v1/embeddings."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: Input = Field(
        description="A text, texts, the token ids of a text, or those of several texts. Token ids are taken as they are."
    )
    model: str | None = Field(None, description="A name of /v1/models; not needed if there is one model.")
    encoding_format: Literal["float", "base64"] | None = Field(
        None, description="Numbers (the default), or little-endian float32 bytes in base64."
    )
    dimensions: Annotated[int, Field(ge=1), BeforeValidator(_whole)] | None = Field(
        None, description="Length of the vectors, for models that were trained to be cut (Matryoshka)."
    )
    user: str | None = Field(None, description="Accepted and not used.")
    input_type: InputType | None = Field(
        None, description="Which of the model's prompts goes before texts; by default the model's default prompt."
    )

    def inputs(self) -> tuple[list[str], list[list[int]]]:
        """Texts, or token ids; one of the two lists is empty."""
        given: list[Any] = [self.input] if isinstance(self.input, str) else list(self.input)
        if isinstance(given[0], int):
            return [], [given]
        return ([], given) if isinstance(given[0], list) else (given, [])


def parse_request(body: bytes) -> EmbeddingsRequest:
    """The request in a body; `Refused` says what is wrong with it, without quoting its text."""
    try:
        return EmbeddingsRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        raise Refused(400, f"the body is not JSON ({first['ctx']['error']})", "invalid_json")
    param = _named(first["loc"])
    raise Refused(422, f"{param}: {PLAINER.get(first['type'], first['msg'])}" if param else PLAINER["model_type"], None, param)


def _named(location: Sequence[str | int]) -> str | None:
    """`input[3]` for ("input", "texts", 3)."""
    parts = [f"[{part}]" if isinstance(part, int) else str(part)[:60] for part in location if part not in FORMS]
    return "".join(parts) or None


class Model(BaseModel):
    """An entry of /v1/models."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "isogloss"
    dimension: int
    max_tokens: int
    precision: str
    device: str
    matryoshka_dimensions: list[int] = Field(description="What `dimensions` may be, besides the whole vector.")
    input_types: list[InputType] = Field(description="For which of these the model has a prompt.")


class ModelList(BaseModel):
    """The response to GET /v1/models."""

    object: Literal["list"] = "list"
    data: list[Model]


class Embedding(BaseModel):
    """The vector of one input: numbers, or base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """How many tokens were computed."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(BaseModel):
    """The response to POST /v1/embeddings, in the order of the inputs."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


class ErrorDetails(BaseModel):
    """What is wrong, and with which field of the request."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(BaseModel):
    """The response to a request that is refused."""

    error: ErrorDetails


class State(BaseModel):
    """The response of /healthz and /readyz."""

    status: str


def embeddings_json(vectors: FloatArray, tokens: int, model: str, encoding: str | None) -> bytes:
    """The answer to a request, in the form of `EmbeddingsResponse`."""
    data = [
        {"object": "embedding", "index": index, "embedding": embedding}
        for index, embedding in enumerate(_encoded(vectors, encoding))
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return to_json({"object": "list", "data": data, "model": model, "usage": usage})


def _encoded(vectors: FloatArray, encoding: str | None) -> Sequence[str | list[float]]:
    if encoding == "base64":
        return [base64.b64encode(row.astype("<f4").tobytes()).decode("ascii") for row in vectors]
    rows: list[list[float]] = vectors.tolist()
    return rows
