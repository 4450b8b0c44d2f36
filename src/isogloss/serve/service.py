"""The service behind the routes: finds the model, tokenizes, waits for the vectors."""

import asyncio
import time
from collections.abc import Sequence

from starlette.exceptions import HTTPException

from isogloss.config.serving import ServeSettings
from isogloss.serve.batching import QueueFull
from isogloss.serve.engine import BATCH_TOKENS, BATCH_TOKENS_OTHERWISE, Engine
from isogloss.serve.protocol import EmbeddingsRequest, Model, embeddings_response
from isogloss.serve.workers import EmbeddingJob, Workers


class Service:
    """Loaded models with their worker threads."""

    def __init__(self, engines: Sequence[Engine], settings: ServeSettings) -> None:
        self.engines, self.settings = {engine.name: engine for engine in engines}, settings
        self.default = engines[0] if len(engines) == 1 else None
        batch_tokens = settings.batch_tokens or BATCH_TOKENS.get(engines[0].device, BATCH_TOKENS_OTHERWISE)
        self.workers = Workers(settings.threads or 1, settings.queue_tokens, batch_tokens)
        self.created = int(time.time())

    def engine(self, name: str | None) -> Engine:
        """The model of this name, or the only one."""
        if name is None and self.default is not None:
            return self.default
        if name not in self.engines:
            problem = "model is needed" if name is None else f"the model {name!r} does not exist"
            raise HTTPException(404, f"{problem}; served here: {', '.join(self.engines)}")
        return self.engines[name]

    def described(self, engine: Engine) -> Model:
        """A model as /v1/models shows it."""
        return Model(id=engine.name, created=self.created, dimension=engine.dimension, max_tokens=engine.max_tokens)

    async def embed(self, request: EmbeddingsRequest) -> dict[str, object]:
        """The answer to POST /v1/embeddings."""
        engine = self.engine(request.model)
        texts, rows = request.inputs()
        loop = asyncio.get_running_loop()
        if texts:
            rows = await loop.run_in_executor(None, engine.token_ids, texts, request.input_type)
        answered: asyncio.Future[EmbeddingJob] = loop.create_future()

        def finished(job: EmbeddingJob) -> None:
            loop.call_soon_threadsafe(answered.set_result, job)

        job = EmbeddingJob(engine, rows, finished)
        try:
            self.workers.submit(job)
        except QueueFull:
            retry = {"Retry-After": str(self.workers.seconds_to_wait())}
            raise HTTPException(429, "too many requests wait already; try again later", retry) from None
        await answered
        if job.error is not None:
            raise HTTPException(500, "the model failed on this input")
        return embeddings_response(job.vectors, sum(map(len, rows)), engine.name, request.encoding_format)
