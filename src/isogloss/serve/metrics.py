"""What /metrics shows, in a registry of its own: nothing of the process's other metrics, and no text of anybody."""

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SENTENCES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TOKENS = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters and histograms of one service."""

    def __init__(self, queue_tokens: Callable[[], int], ready: Callable[[], bool]) -> None:
        self.registry = registry = CollectorRegistry()
        model = ["model"]
        self.requests = Counter("isogloss_requests", "Requests, by route and status.", ["route", "status"], registry=registry)
        self.sentences = Counter("isogloss_sentences", "Inputs that were embedded.", model, registry=registry)
        self.tokens = Counter("isogloss_tokens", "Tokens that were embedded, without padding.", model, registry=registry)

        def histogram(name: str, help: str, buckets: Sequence[float]) -> Histogram:
            return Histogram(f"isogloss_{name}", help, model, registry=registry, buckets=buckets)

        self.request_seconds = histogram("request_seconds", "Seconds from a request to its vectors.", SECONDS)
        self.batch_seconds = histogram("batch_seconds", "Seconds of a batch.", SECONDS)
        self.batch_sentences = histogram("batch_sentences", "Sentences of a batch.", SENTENCES)
        self.batch_tokens = histogram("batch_tokens", "Tokens of a batch, without padding.", TOKENS)
        Gauge("isogloss_queue_tokens", "Tokens that wait.", registry=registry).set_function(queue_tokens)
        Gauge("isogloss_ready", "Whether the service is ready.", registry=registry).set_function(lambda: float(ready()))

    def batch(self, model: str, sentences: int, tokens: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_seconds.labels(model).observe(seconds)
        self.batch_sentences.labels(model).observe(sentences)
        self.batch_tokens.labels(model).observe(tokens)

    def answered(self, model: str, sentences: int, tokens: int, seconds: float) -> None:
        """Count a request that got its vectors."""
        self.sentences.labels(model).inc(sentences)
        self.tokens.labels(model).inc(tokens)
        self.request_seconds.labels(model).observe(seconds)

    def text(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self.registry)
