"""Schemathesis asks what the OpenAPI document allows, and what it does not: answers must be as the document says."""

from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import Phase

from isogloss.types import FloatArray
from serve.services import WIDTH, Running, onnx_engine, running

Model = tuple[Path, FloatArray]
EXAMPLES = 60


@pytest.mark.parametrize(
    "route", ["POST /v1/embeddings", "GET /v1/models", "GET /v1/models/{name}", "GET /readyz", "GET /metrics"]
)
def test_answers_follow_the_document(service: Running, route: str) -> None:
    method, path = route.split(" ")
    schema = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operation = schema[path][method]
    modes = schemathesis.GenerationMode
    refused = []

    @hypothesis.settings(
        max_examples=EXAMPLES if method == "POST" else 5,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(
        case=operation.as_strategy(generation_mode=modes.POSITIVE) | operation.as_strategy(generation_mode=modes.NEGATIVE)
    )
    def ask(case: schemathesis.Case[Any]) -> None:
        response = case.call()
        case.validate_response(response)
        refused.append(response.status_code)

    ask()
    assert 500 not in refused
    if method == "POST":
        assert {200, 422} <= set(refused)


def test_the_document_knows_the_limits_of_the_service(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0]), keys=["key"], max_inputs=7) as service:
        document = service.ask("/openapi.json").json
    body = document["paths"]["/v1/embeddings"]["post"]
    forms = body["requestBody"]["content"]["application/json"]["schema"]["properties"]["input"]["oneOf"]
    assert [form.get("maxItems") for form in forms] == [None, 7, 64, 7]
    assert forms[2]["items"]["maximum"] == forms[3]["items"]["items"]["maximum"] == 147
    assert body["security"] == [{"key": []}] and "security" not in document["paths"]["/readyz"]["get"]
    assert {"400", "401", "404", "408", "413", "422", "429", "503"} <= set(body["responses"])
    dimensions = body["requestBody"]["content"]["application/json"]["schema"]["properties"]["dimensions"]["anyOf"]
    assert dimensions == [{"type": "integer", "enum": [WIDTH]}, {"type": "null"}]
