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
from isogloss.serve.engine import Served
from isogloss.types import FloatArray

logger = logging.getLogger(__name__)

SMOOTHING = 0.1  # weight of the newest batch in the measured speed
LONGEST_WAIT = 60  # the most seconds in a Retry-After header
LAST_BATCH = 1.0  # seconds
OnBatch = Callable[[str, int, int, float], None]  # the model's name, sentences, tokens, seconds


class Failed(Exception):
    """A sentence, given by its place in the request, could not be computed."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


class NotFinite(Failed):
    """The vector of a sentence has NaN or infinity in it."""


class EmbeddingJob(Job):
    """The tokenized sentences of a request. `finished` is called, in a worker thread, when `vectors` or `error` is there."""

    def __init__(self, served: Served, rows: Sequence[Sequence[int]], finished: "Callable[[EmbeddingJob], None]") -> None:
        super().__init__([len(row) for row in rows], served.batch_tokens, lane=served)
        self.engine, self.rows, self.finished = served.engine, rows, finished
        self.vectors: FloatArray = np.empty((len(rows), served.engine.dimension), dtype=np.float32)
        self.error: Failed | None = None
        self.unanswered = len(rows)

    def receive(self, place: int, found: "FloatArray | Failed") -> bool:
        """Take the vector of a sentence, or why there is none; whether the job is complete."""
        if isinstance(found, Failed):
            self.error = self.error or found
        else:
            self.vectors[place] = found
        self.unanswered -= 1
        return not self.unanswered


def unobserved(_model: str, _sentences: int, _tokens: int, _seconds: float) -> None:
    """Count nothing."""


class Workers:
    """Worker threads over one queue. `on_batch` is called after each batch."""

    def __init__(self, count: int, queue_tokens: int, on_batch: OnBatch = unobserved) -> None:
        self.queue, self.count, self._on_batch = JobQueue(queue_tokens), count, on_batch
        self._changed = threading.Condition()
        self._stopped = False
        self._speed = 0.0  # tokens per second, of all workers
        self._threads = [threading.Thread(target=self._work, name=f"isogloss-{place}", daemon=True) for place in range(count)]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads, each after its current batch; a long one is left alone. Jobs that still wait get no answer."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for thread in filter(threading.Thread.is_alive, self._threads):
            thread.join(LAST_BATCH)

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
        """How long the queue will take, at the measured speed; from a second to a minute."""
        with self._changed:
            return min(LONGEST_WAIT, math.ceil(self.queue.tokens / self._speed) or 1) if self._speed else 1

    def _work(self) -> None:
        while True:
            with self._changed:
                while not (self._stopped or self.queue.tokens):
                    self._changed.wait()
                if self._stopped:
                    return
                batch = self.queue.take(self.count)
            began = time.perf_counter()
            self._compute(batch)
            self._measure(batch, time.perf_counter() - began)

    def _measure(self, batch: Batch, seconds: float) -> None:
        tokens = sum(job.lengths[place] for job, place in batch)
        speed = self.count * tokens / max(seconds, 1e-9)
        lane = batch[0][0].lane
        assert isinstance(lane, Served)
        self._on_batch(lane.engine.facts.name, len(batch), tokens, seconds)
        with self._changed:
            self._speed += (SMOOTHING if self._speed else 1.0) * (speed - self._speed)

    def _compute(self, batch: Batch) -> None:
        """Compute a batch and finish the jobs that are complete."""
        sentences = [(job, place) for job, place in batch if isinstance(job, EmbeddingJob)]
        engine = sentences[0][0].engine
        try:
            vectors = engine.encode_ids([job.rows[place] for job, place in sentences])
            places = [place for _job, place in sentences]
            found = [row if np.isfinite(row).all() else NotFinite(place) for row, place in zip(vectors, places, strict=True)]
        except Exception as error:  # noqa: BLE001 - whatever a runtime raises
            if len(sentences) > 1:
                logger.warning("a batch of %d sentences failed, they are computed one by one: %s", len(sentences), error)
                for one in sentences:
                    self._compute([one])
                return
            job, place = sentences[0]
            logger.error("%s: a sentence of %d tokens failed: %s", engine.facts.name, job.lengths[place], error)
            found = [Failed(place)]
        with self._changed:
            finished = [job for (job, place), one in zip(sentences, found, strict=True) if job.receive(place, one)]
        for job in finished:
            job.finished(job)
