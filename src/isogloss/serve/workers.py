"""Threads that compute what waits in the queue: a batch starts as soon as a thread is free and something waits.

A request gets its vectors when its last sentence is computed. If a batch fails, its sentences are computed one by one, so that
only the request with the sentence that fails has an error.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from isogloss.serve.batching import Batch, Job, JobQueue
from isogloss.serve.engine import Engine
from isogloss.types import FloatArray

logger = logging.getLogger(__name__)

SMOOTHING = 0.1  # weight of the newest batch in the measured speed


class EmbeddingJob(Job):
    """The tokenized sentences of a request. `finished` is called, in a worker thread, when `vectors` or `error` is there."""

    def __init__(self, engine: Engine, rows: Sequence[Sequence[int]], finished: "Callable[[EmbeddingJob], None]") -> None:
        super().__init__([len(row) for row in rows], lane=engine)
        self.engine, self.rows, self.finished = engine, rows, finished
        self.vectors: FloatArray = np.empty((len(rows), engine.dimension), dtype=np.float32)
        self.error: Exception | None = None
        self.unanswered = len(rows)


class Workers:
    """Worker threads over one queue."""

    def __init__(self, count: int, queue_tokens: int, batch_tokens: int) -> None:
        self.queue, self.batch_tokens, self.count = JobQueue(queue_tokens), batch_tokens, count
        self._changed = threading.Condition()
        self._stopped = False
        self._speed = 0.0  # tokens per second, of all workers
        self._threads = [threading.Thread(target=self._work, name=f"isogloss-{place}", daemon=True) for place in range(count)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, each after its current batch. Jobs that still wait get no answer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def submit(self, job: EmbeddingJob) -> None:
        """Queue a job, or raise `QueueFull`."""
        with self._changed:
            self.queue.add(job)
            self._changed.notify(min(len(job.rows), self.count))

    def drop(self, job: EmbeddingJob) -> None:
        """Compute no more of a job: nobody waits for it."""
        with self._changed:
            self.queue.drop(job)

    def seconds_to_wait(self) -> int:
        """How long the queue will take, at the measured speed; at least a second."""
        with self._changed:
            return max(1, math.ceil(self.queue.tokens / self._speed)) if self._speed else 1

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._stopped or self.queue.tokens):
                    self._changed.wait()
                if self._stopped:
                    return
                batch = self.queue.take(self.batch_tokens, self.count)
            began = time.perf_counter()
            self._compute(batch)
            self._measure(batch, time.perf_counter() - began)

    def _measure(self, batch: Batch, seconds: float) -> None:
        speed = self.count * sum(job.lengths[place] for job, place in batch) / max(seconds, 1e-9)
        with self._changed:
            self._speed += (SMOOTHING if self._speed else 1.0) * (speed - self._speed)

    def _compute(self, batch: Batch) -> None:
        """Compute a batch and finish the jobs that are complete."""
        sentences = [(job, place) for job, place in batch if isinstance(job, EmbeddingJob)]
        engine = sentences[0][0].engine
        try:
            vectors = engine.encode_ids([job.rows[place] for job, place in sentences])
        except Exception as error:  # whatever a runtime raises
            if len(sentences) > 1:
                logger.warning("a batch of %d sentences failed, they are computed one by one: %s", len(sentences), error)
                for one in sentences:
                    self._compute([one])
                return
            logger.exception("%s: a sentence of %d tokens failed", engine.name, len(sentences[0][0].rows[sentences[0][1]]))
            self._answer(sentences, None, error)
            return
        self._answer(sentences, vectors, None)

    def _answer(self, sentences: list[tuple[EmbeddingJob, int]], vectors: FloatArray | None, error: Exception | None) -> None:
        finished = []
        with self._changed:
            for number, (job, place) in enumerate(sentences):
                if vectors is not None:
                    job.vectors[place] = vectors[number]
                job.error = job.error or error
                job.unanswered -= 1
                if not job.unanswered:
                    finished.append(job)
        for job in finished:
            job.finished(job)
