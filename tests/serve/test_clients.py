"""The clients that people use: the openai package, and our own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openai
import pytest

from isogloss.errors import ModelError
from isogloss.models.encoders.open import open_encoder
from isogloss.types import FloatArray
from serve.services import PATIENCE, WIDTH, Held, Running, onnx_engine, running, torch_engine, until
from tiny import TEXTS

Model = tuple[Path, FloatArray]


@pytest.fixture
def client(service: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="any", max_retries=0, timeout=PATIENCE) as client:
        yield client


def vectors(response: openai.types.CreateEmbeddingResponse) -> FloatArray:
    return np.array([row.embedding for row in response.data], dtype=np.float32)


def test_openai_embeds_in_both_formats(client: openai.OpenAI, service: Running) -> None:
    wanted = service.embed(TEXTS[:5])
    by_default = client.embeddings.create(model="tiny", input=TEXTS[:5])
    assert np.array_equal(vectors(by_default), wanted)
    assert np.array_equal(vectors(client.embeddings.create(model="tiny", input=TEXTS[:5], encoding_format="float")), wanted)
    assert by_default.usage.total_tokens > 5 and by_default.model == "tiny"
    assert np.allclose(vectors(client.embeddings.create(model="tiny", input=TEXTS[0], user="me")), wanted[:1], atol=1e-6)


def test_openai_sends_token_ids_dimensions_and_our_field(client: openai.OpenAI, service: Running) -> None:
    ids = [[5, 6, 7], [8]]
    assert np.array_equal(vectors(client.embeddings.create(model="tiny", input=ids)), service.embed(ids))
    assert np.array_equal(vectors(client.embeddings.create(model="tiny", input=ids[0])), service.embed(ids[0]))
    short = vectors(client.embeddings.create(model="tiny", input=TEXTS[0], dimensions=2))
    assert short.shape == (1, 2) and np.allclose(np.linalg.norm(short), 1.0)
    query = client.embeddings.create(model="tiny", input="x", extra_body={"input_type": "query"})
    assert np.array_equal(vectors(query), service.embed("x", input_type="query"))


def test_openai_lists_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "isogloss"


def test_openai_raises_its_typed_errors(client: openai.OpenAI, onnx_model: Model) -> None:
    with pytest.raises(openai.NotFoundError, match="does not exist") as missing:
        client.embeddings.create(model="gpt", input="a")
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.UnprocessableEntityError, match="must not be empty") as empty:
        client.embeddings.create(model="tiny", input=["a", ""])
    assert empty.value.param == "input[1]"
    with running(onnx_engine(onnx_model[0]), keys=["right"]) as service:
        with openai.OpenAI(base_url=f"{service.url}/v1", api_key="wrong") as wrong, pytest.raises(openai.AuthenticationError):
            wrong.models.list()
        with openai.OpenAI(base_url=f"{service.url}/v1", api_key="right") as right:
            assert right.embeddings.create(model="tiny", input="a").data
    with running() as starting, openai.OpenAI(base_url=f"{starting.url}/v1", api_key="x", max_retries=0) as early:
        with pytest.raises(openai.InternalServerError) as loading:
            early.embeddings.create(model="tiny", input="a")
        assert loading.value.status_code == 503


def test_openai_waits_and_tries_again_when_the_queue_is_full(onnx_model: Model) -> None:
    held = Held(onnx_engine(onnx_model[0]))
    with running(held, threads=1, queue_tokens=2) as service, ThreadPoolExecutor() as pool:
        first = pool.submit(service.embed, [[5]])
        assert held.entered.acquire(timeout=PATIENCE)
        second = pool.submit(service.embed, [[6, 7]])
        with openai.OpenAI(base_url=f"{service.url}/v1", api_key="x", max_retries=0) as client:
            until(service.waiting)
            with pytest.raises(openai.RateLimitError):
                client.embeddings.create(model="tiny", input=[[8]])
            held.gate.set()
            assert vectors(client.with_options(max_retries=3).embeddings.create(model="tiny", input=[[8]])).shape == (1, WIDTH)
        assert len(first.result()) == len(second.result()) == 1


def test_our_own_client_embeds(onnx_model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOGLOSS_ENDPOINT_KEY", "right")
    with running(onnx_engine(onnx_model[0]), keys=["right"]) as service:
        encoder = open_encoder(f"{service.url}/v1/embeddings#tiny")
        found = encoder.encode([*TEXTS, ""])  # it sends a space for the empty text
        assert np.allclose(found, service.embed([*TEXTS, " "]), atol=1e-6)
        with pytest.raises(ModelError, match=r"404.*does not exist"):
            open_encoder(f"{service.url}/v1/embeddings#gpt").encode(["a"])
        monkeypatch.setenv("ISOGLOSS_ENDPOINT_KEY", "wrong")
        with pytest.raises(ModelError, match=r"401.*the API key is wrong"):
            encoder.encode(["a"])


def test_vectors_do_not_depend_on_who_else_asks(models: Path, onnx_model: Model) -> None:
    """Sixteen clients at once, requests of one text to forty, in torch and in ONNX: the same as each text alone."""
    torch_one, onnx_one = torch_engine(models / "student", "torch"), onnx_engine(onnx_model[0], "onnx")
    alone = {
        engine.facts.name: np.concatenate([engine.encode_ids([row]) for row in engine.token_ids(TEXTS)])
        for engine in (torch_one, onnx_one)
    }
    rng = np.random.default_rng(0)
    requests = [(("torch", "onnx")[number % 2], rng.integers(0, len(TEXTS), rng.integers(1, 41))) for number in range(120)]
    with running(torch_one, onnx_one) as service, ThreadPoolExecutor(16) as pool:
        found = pool.map(lambda one: service.embed([TEXTS[place] for place in one[1]], model=one[0]), requests)
        for (model, places), rows in zip(requests, found, strict=True):
            assert np.allclose(rows, alone[model][places], atol=1e-5)
        batches = service.service.metrics.registry.get_sample_value("isogloss_batch_seconds_count", {"model": "onnx"})
        assert batches is not None and batches < sum(len(places) for model, places in requests if model == "onnx") / 2
