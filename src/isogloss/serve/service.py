"""The service behind the routes: finds the model, tokenizes, waits for the vectors."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from starlette.types import Receive, Scope

from isogloss.config.serving import ServeSettings
from isogloss.serve.batching import QueueFull
from isogloss.serve.bodies import Bodies, Disconnected
from isogloss.serve.engine import Served
from isogloss.serve.metrics import Metrics
from isogloss.serve.protocol import EmbeddingsRequest, Model, embeddings_json, parse_request
from isogloss.serve.refusals import CLOSE, Refused
from isogloss.serve.workers import EmbeddingJob, Failed, NotFinite, Workers
from isogloss.types import FloatArray

T = TypeVar("T")
State = Literal["starting", "ready", "stopping"]
NOT_READY: dict[State, tuple[str, int, dict[str, str]]] = {  # reason, seconds of Retry-After, headers
    "starting": ("the models are loading", 5, {}),
    "stopping": ("the service is shutting down", 1, CLOSE),
}
SMALL_BODY = 2048  # bytes that are parsed and tokenized in the event loop; more would hold up others
SMALL_ANSWER = 32  # vectors that are written as JSON in the event loop


@dataclass(frozen=True)
class PreparedRequest:
    """A request that can be computed."""

    request: EmbeddingsRequest
    served: Served
    rows: list[list[int]]

    @property
    def tokens(self) -> int:
        """Tokens of all inputs."""
        return sum(map(len, self.rows))


class Service:
    """Models with their worker threads. It starts without models, which may take long to load: see `open`."""

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.state: State = "starting"
        self.models: dict[str, Served] = {}
        self.created = int(time.time())
        self.bodies = Bodies(settings.max_body_mb * 2**20, settings.body_seconds)
        self.metrics = Metrics(self._queue_tokens, lambda: self.state == "ready")
        cores = settings.threads or os.cpu_count() or 1
        # An engine that computes several batches at once has a thread for each core, the others one for all.
        self._workers = {
            shared: Workers(cores if shared else 1, settings.queue_tokens, self.metrics.batch) for shared in (True, False)
        }

    def open(self, models: Sequence[Served]) -> None:
        """Serve these models from now on; called once, from any thread."""
        self.models = {served.engine.facts.name: served for served in models}
        for shared in {served.engine.shared for served in models}:
            self._workers[shared].start()
        if self.state == "starting":
            self.state = "ready"

    def stop(self) -> None:
        """Accept no more requests."""
        self.state = "stopping"

    def close(self) -> None:
        """End the worker threads."""
        self.stop()
        for workers in self._workers.values():
            workers.stop()

    def refuse_unless_ready(self) -> None:
        """Raise `Refused` while the service starts or stops."""
        if self.state != "ready":
            reason, seconds, headers = NOT_READY[self.state]
            raise Refused(503, f"{reason}; try again later", self.state, None, seconds, headers)

    def model(self, name: str | None) -> Served:
        """The model of this name, or the only one."""
        if name is None and len(self.models) == 1:
            return next(iter(self.models.values()))
        if name is None:
            raise Refused(422, f"model: is missing; served here: {', '.join(self.models)}", None, "model")
        if name not in self.models:
            problem = f"the model {name[:100]!r} does not exist; served here: {', '.join(self.models)}"
            raise Refused(404, problem, "model_not_found", "model")
        return self.models[name]

    def described(self, served: Served) -> Model:
        """A model as /v1/models shows it."""
        engine, facts = served.engine, served.engine.facts
        return Model(
            id=facts.name,
            created=self.created,
            dimension=engine.dimension,
            max_tokens=engine.max_tokens,
            precision=facts.precision,
            device=facts.device,
            matryoshka_dimensions=list(facts.matryoshka),
            input_types=facts.input_types,
        )

    async def embed(self, scope: Scope, receive: Receive) -> bytes:
        """The answer to POST /v1/embeddings; raises `Refused` or `Disconnected`."""
        began = time.perf_counter()
        async with self.bodies.body(scope, receive) as body:
            prepared = await _result(lambda: self.prepare(body), len(body) <= SMALL_BODY)
        job = await self._computed(prepared, receive)
        if job.error is not None:
            raise _failure(job.error)
        answer = await _result(lambda: self.answer(prepared, job.vectors), len(job.rows) <= SMALL_ANSWER)
        name = prepared.served.engine.facts.name
        self.metrics.answered(name, len(job.rows), prepared.tokens, time.perf_counter() - began)
        return answer

    def prepare(self, body: bytes) -> PreparedRequest:
        """Parse, check and tokenize a request."""
        request = parse_request(body)
        served = self.model(request.model)
        texts, rows = request.inputs()
        if (count := len(texts) or len(rows)) > self.settings.max_inputs:
            raise Refused(422, f"input: {count} inputs, at most {self.settings.max_inputs} are accepted", None, "input")
        _refuse_dimensions(request.dimensions, served)
        if texts:
            rows = served.engine.token_ids(texts, request.input_type)
        else:
            _refuse_token_ids(rows, served)
        prepared = PreparedRequest(request, served, rows)
        if prepared.tokens > self.settings.queue_tokens:
            reason = f"{prepared.tokens} tokens, at most {self.settings.queue_tokens} are accepted"
            raise Refused(413, f"input: {reason}", "request_too_large", "input")
        return prepared

    def answer(self, prepared: PreparedRequest, vectors: FloatArray) -> bytes:
        """The response, with vectors as long as asked for."""
        request, served = prepared.request, prepared.served
        if request.dimensions and request.dimensions < vectors.shape[1]:
            vectors = vectors[:, : request.dimensions]
            if served.unit_length:
                vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return embeddings_json(vectors, prepared.tokens, served.engine.facts.name, request.encoding_format)

    async def _computed(self, prepared: PreparedRequest, receive: Receive) -> EmbeddingJob:
        """The job with its vectors. If the client goes away, what still waits is not computed."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def finished(_job: EmbeddingJob) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(lambda: None if done.done() else done.set_result(None))

        job = EmbeddingJob(prepared.served, prepared.rows, finished)
        workers = self._workers[prepared.served.engine.shared]
        try:
            workers.submit(job)
        except QueueFull:
            wait = workers.seconds_to_wait()
            raise Refused(429, "too many requests wait already; try again later", "queue_full", None, wait) from None
        gone = loop.create_task(_disconnect(receive))
        try:
            await asyncio.wait((done, gone), return_when=asyncio.FIRST_COMPLETED)
            if not done.done():
                raise Disconnected
        finally:
            gone.cancel()
            if not done.done():
                workers.drop(job)
        return job

    def _queue_tokens(self) -> int:
        return sum(workers.queue.tokens for workers in self._workers.values())


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _result(work: Callable[[], T], small: bool) -> T:
    """The result of `work`, done at once if it is small, or else in another thread."""
    return work() if small else await asyncio.to_thread(work)


def _refuse_dimensions(asked: int | None, served: Served) -> None:
    """Raise `Refused` for a length to which the model's vectors cannot be cut."""
    own, sizes = served.engine.dimension, served.engine.facts.matryoshka
    if asked in (None, own, *sizes):
        return
    if sizes:
        reason = f"the model was trained for {', '.join(map(str, sizes))} and {own}"
    else:
        reason = f"the model's vectors have {own} numbers, and it was not trained for shorter ones (Matryoshka)"
    raise Refused(422, f"dimensions: {reason}", "unsupported_dimensions", "dimensions")


def _refuse_token_ids(rows: Sequence[Sequence[int]], served: Served) -> None:
    """Raise `Refused` for token ids that the model does not have, or more of them than it takes."""
    vocabulary, most = served.engine.vocabulary, served.engine.max_tokens
    for place, row in enumerate(rows):
        where = f"input[{place}]" if len(rows) > 1 else "input"
        if len(row) > most:
            raise Refused(422, f"{where}: {len(row)} token ids, the model takes {most}", "too_many_tokens", where)
        if max(row) >= vocabulary:
            raise Refused(422, f"{where}: the model's token ids end at {vocabulary - 1}", "unknown_token", where)


def _failure(error: Failed) -> Refused:
    where = f"input[{error.place}]"
    if isinstance(error, NotFinite):
        return Refused(422, f"{where}: the model's vector for this input is not finite", "not_finite", where)
    return Refused(500, f"{where}: the model failed on this input; the log of the service has the details", None, where)
