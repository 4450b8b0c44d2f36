"""The routes, over HTTP: vectors against the formula, and each reason for a refusal."""

import base64
from pathlib import Path

import numpy as np
import pytest

from isogloss.serve.engine import Facts
from isogloss.types import FloatArray
from serve.services import WIDTH, Held, Running, onnx_engine, running, torch_engine
from tiny import TEXTS, unigram

Model = tuple[Path, FloatArray]


def by_definition(table: FloatArray, text: str) -> FloatArray:
    """The mean of the rows of the text's tokens."""
    ids = unigram()(text, truncation=True, max_length=64)["input_ids"]
    mean: FloatArray = table[ids].mean(axis=0)
    return mean


def test_vectors_are_those_of_the_model(service: Running, onnx_model: Model) -> None:
    texts = [*TEXTS[:40], "x", "the cat " * 100]
    wanted = np.stack([by_definition(onnx_model[1], text) for text in texts])
    assert np.allclose(service.embed(texts), wanted, atol=1e-6)
    assert np.allclose(service.embed(texts[0]), wanted[:1], atol=1e-6)


def test_base64_has_the_same_numbers(service: Running) -> None:
    body = {"input": TEXTS[:3], "encoding_format": "base64", "model": "tiny", "user": "somebody"}
    rows = service.ask("/v1/embeddings", body).json["data"]
    packed = [np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4") for row in rows]
    assert np.array_equal(np.stack(packed), service.embed(TEXTS[:3]))


def test_token_ids_are_taken_as_they_are(service: Running, onnx_model: Model) -> None:
    table = onnx_model[1]
    assert np.allclose(service.embed([5, 6, 7]), table[[5, 6, 7]].mean(axis=0), atol=1e-6)
    wanted = [table[[5, 6, 7]].mean(axis=0), table[9]]
    assert np.allclose(service.embed([[5, 6, 7], [9]]), wanted, atol=1e-6)


def test_usage_counts_the_tokens_that_are_computed(service: Running) -> None:
    answer = service.ask("/v1/embeddings", {"input": ["the cat", "the cat " * 100]}).json
    wanted = len(unigram()("the cat")["input_ids"]) + 64
    assert answer["usage"] == {"prompt_tokens": wanted, "total_tokens": wanted}
    assert [row["index"] for row in answer["data"]] == [0, 1]
    assert answer["model"] == "tiny" and answer["object"] == "list"


def test_each_input_type_has_its_prompt(service: Running, onnx_model: Model) -> None:
    table = onnx_model[1]
    for kind, prompt in (("query", "the cat "), ("document", "the dog ")):
        assert np.allclose(
            service.embed("runs home", input_type=kind)[0], by_definition(table, f"{prompt}runs home"), atol=1e-6
        )
    assert np.allclose(service.embed("runs home")[0], by_definition(table, "runs home"), atol=1e-6)


def test_a_default_prompt_is_used_unless_a_type_is_given(onnx_model: Model) -> None:
    facts = Facts("tiny", "cpu", "fp32", {"query": "q", "usual": "u"}, "u")
    assert [facts.prompt(one) for one in (None, "query", "document")] == ["u", "q", "u"]
    assert facts.input_types == ["query", "document"]
    assert Facts("tiny", "cpu", "fp32", {"query": "", "document": ""}).input_types == []


def test_dimensions_cut_and_normalize(service: Running) -> None:
    whole = service.embed(TEXTS[:4])
    cut = service.embed(TEXTS[:4], dimensions=4)
    assert np.allclose(cut, whole[:, :4] / np.linalg.norm(whole[:, :4], axis=1, keepdims=True), atol=1e-6)
    assert np.array_equal(service.embed(TEXTS[:4], dimensions=WIDTH), whole)


INVALID = {
    "nothing": ({}, "input"),
    "null": ({"input": None}, "input"),
    "a number": ({"input": 3}, "input"),
    "no inputs": ({"input": []}, "input"),
    "empty text": ({"input": ""}, "input"),
    "an empty text among others": ({"input": ["a", "b", ""]}, "input[2]"),
    "mixed": ({"input": ["a", 1]}, "input[1]"),
    "no tokens": ({"input": [[1], []]}, "input[1]"),
    "half a token": ({"input": [1, 1.5]}, "input[1]"),
    "a truth": ({"input": [True]}, "input[0]"),
    "a negative token": ({"input": [[1], [2, -1]]}, "input[1][1]"),
    "a token beyond the vocabulary": ({"input": [[1], [2, 10**6]]}, "input[1]"),
    "a very large token": ({"input": [10**30]}, "input"),
    "more tokens than the model takes": ({"input": [1] * 65}, "input"),
    "too many inputs": ({"input": ["a"] * 51}, "input"),
    "an unknown field": ({"input": "a", "inputs": "b"}, "inputs"),
    "an unknown format": ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
    "an unknown type": ({"input": "a", "input_type": "passage"}, "input_type"),
    "dimensions that it was not trained for": ({"input": "a", "dimensions": 3}, "dimensions"),
    "no dimensions": ({"input": "a", "dimensions": 0}, "dimensions"),
    "a model that is no name": ({"input": "a", "model": 3}, "model"),
    "a list": ([], None),
}


@pytest.mark.parametrize("name", INVALID)
def test_what_is_invalid_is_named(service: Running, name: str) -> None:
    body, param = INVALID[name]
    answer = service.ask("/v1/embeddings", body)
    assert answer.status == 422 and answer.error["type"] == "invalid_request_error"
    assert answer.error["param"] == param
    assert param is None or answer.error["message"].startswith(f"{param}: ")


def test_dimensions_need_a_model_that_was_trained_for_them(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0])) as service:
        answer = service.ask("/v1/embeddings", {"input": "a", "dimensions": 4})
        assert answer.status == 422 and "Matryoshka" in answer.error["message"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"input=a",
        b'{"input": "\\ud800"}',
        b'{"input": "\xff"}',
        b'{"input": "a", "dimensions": 1' + b"0" * 5000 + b"}",
        b"[" * 100_000,
        b'{"input": ' + b"[" * 300,
    ],
)
def test_what_is_not_json_is_refused(service: Running, raw: bytes) -> None:
    answer = service.ask("/v1/embeddings", raw=raw)
    assert answer.status == 400 and answer.error["code"] == "invalid_json"


@pytest.mark.parametrize(
    "raw", [b'{"input": "a", "dimensions": NaN}', b'{"input": "a", "dimensions": 1e999}', b'{"input": [Infinity]}']
)
def test_numbers_that_json_does_not_have_are_refused(service: Running, raw: bytes) -> None:
    assert service.ask("/v1/embeddings", raw=raw).status == 422


def test_of_two_equal_keys_the_last_counts(service: Running) -> None:
    answer = service.ask("/v1/embeddings", raw=b'{"input": "a", "input": ["a", "b"]}')
    assert answer.status == 200 and len(answer.json["data"]) == 2


def test_no_message_has_the_text(service: Running) -> None:
    for body in ({"input": ["a secret", 1]}, {"input": "a secret", "dimensions": 3}, {"input": {"a secret": 1}}):
        assert b"a secret" not in service.ask("/v1/embeddings", body).body


def test_unknown_models_and_routes(service: Running) -> None:
    answer = service.ask("/v1/embeddings", {"input": "a", "model": "gpt"})
    assert answer.status == 404 and answer.error["code"] == "model_not_found" and "tiny" in answer.error["message"]
    assert service.ask("/v1/models/gpt").status == 404
    assert service.ask("/v1/nothing").error["message"] == "Not Found: GET /v1/nothing"
    answer = service.ask("/v1/embeddings")
    assert answer.status == 405 and answer.headers["allow"] == "POST" and answer.error


def test_models_are_described(service: Running) -> None:
    (found,) = service.ask("/v1/models").json["data"]
    assert found == service.ask("/v1/models/tiny").json
    assert (found["id"], found["dimension"], found["max_tokens"]) == ("tiny", WIDTH, 64)
    assert (found["matryoshka_dimensions"], found["input_types"]) == ([2, 4], ["query", "document"])
    assert (found["precision"], found["device"], found["object"], found["owned_by"]) == ("fp32", "cpu", "model", "isogloss")


def test_two_models_are_told_apart(onnx_model: Model, models: Path) -> None:
    with running(onnx_engine(onnx_model[0], "a"), torch_engine(models / "student", "org/b")) as service:
        assert service.embed("the cat", model="a").shape == (1, WIDTH)
        assert service.embed("the cat", model="org/b").shape == (1, 24)
        assert service.ask("/v1/models/org/b").json["dimension"] == 24
        answer = service.ask("/v1/embeddings", {"input": "a"})
        assert answer.status == 422 and answer.error["param"] == "model" and "a, org/b" in answer.error["message"]


def test_health_and_metrics(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0])) as service:
        assert service.ask("/healthz").json == {"status": "ok"} and service.ask("/readyz").json == {"status": "ready"}
        service.embed(["the cat", "x"])
        service.ask("/v1/embeddings", {"input": []})
        text = service.ask("/metrics").body.decode()
    for line in (
        'isogloss_requests_total{route="embeddings",status="200"} 1.0',
        'isogloss_requests_total{route="embeddings",status="422"} 1.0',
        'isogloss_sentences_total{model="tiny"} 2.0',
        f'isogloss_tokens_total{{model="tiny"}} {float(sum(len(unigram()(one)["input_ids"]) for one in ("the cat", "x")))}',
        'isogloss_request_seconds_count{model="tiny"} 1.0',
        "isogloss_queue_tokens 0.0",
        "isogloss_ready 1.0",
    ):
        assert line in text
    assert 'isogloss_batch_sentences_sum{model="tiny"} 2.0' in text and "python_gc" not in text


def test_while_models_load_only_health_answers() -> None:
    with running() as service:
        assert service.ask("/healthz").status == 200
        for path in ("/readyz", "/v1/models"):
            answer = service.ask(path)
            assert answer.status == 503 and answer.headers["retry-after"] == "5" and answer.error["code"] == "starting"
        assert service.ask("/v1/embeddings", {"input": "a"}).status == 503
        assert b"<html" in service.ask("/").body


def test_keys_open_everything_but_health_and_the_page(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0]), keys=["first", "second"]) as service:
        for path in ("/healthz", "/readyz", "/"):
            assert service.ask(path, key="wrong").status == 200
        for path in ("/v1/models", "/v1/nothing", "/metrics", "/openapi.json"):
            answer = service.ask(path, key="wrong")
            assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
            assert answer.error["code"] == "invalid_api_key"
        assert service.ask("/v1/embeddings", {"input": "a"}, key="wrong").status == 401
        for key in ("first", "second"):
            assert service.ask("/v1/embeddings", {"input": "a"}, key=key).status == 200
        assert service.ask("/metrics").status == 200


def test_no_other_origin_is_allowed(service: Running) -> None:
    assert not any(name.startswith("access-control") for name in service.ask("/v1/models").headers)


def test_more_tokens_than_the_queue_holds_are_too_large(onnx_model: Model) -> None:
    with running(onnx_engine(onnx_model[0]), queue_tokens=20) as service:
        answer = service.ask("/v1/embeddings", {"input": [[1] * 21]})
        assert answer.status == 413 and "at most 20" in answer.error["message"]
        assert service.ask("/v1/embeddings", {"input": [[1] * 20]}).status == 200


def test_a_vector_that_is_not_finite_is_an_error_of_its_request_only(onnx_model: Model) -> None:
    class Broken(Held):
        def encode_ids(self, rows):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            vectors = self.engine.encode_ids(rows)
            vectors[[len(row) == 3 for row in rows]] = np.nan
            if any(len(row) == 4 for row in rows):
                raise RuntimeError
            return vectors

    with running(Broken(onnx_engine(onnx_model[0]))) as service:
        answer = service.ask("/v1/embeddings", {"input": [[5], [5, 6, 7]]})
        assert answer.status == 422 and answer.error["param"] == "input[1]" and "finite" in answer.error["message"]
        answer = service.ask("/v1/embeddings", {"input": [[5], [5, 6, 7, 8], [6]]})
        assert answer.status == 500 and answer.error["type"] == "server_error"
        assert service.embed([[5], [6]]).shape == (2, WIDTH)
