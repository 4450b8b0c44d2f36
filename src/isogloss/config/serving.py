"""The settings of the service."""

from typing import Literal

from isogloss.config.settings import Settings, setting

ServedPrecision = Literal["auto", "int8", "fp32"]


class ServeSettings(Settings):
    """Where the service listens, what it computes with, and how much it accepts."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for all.", min_length=1)
    port: int = setting(8000, "Port to listen on; 0: a free one.", at_least=0, at_most=65_535)
    device: str = setting("auto", "Where to compute: auto, cuda, mps or cpu.")
    precision: ServedPrecision = setting("auto", "int8 (ONNX, CPU) or fp32 (torch); auto: int8 without a GPU.")
    threads: int = setting(0, "CPU cores to compute with; 0: all.", at_least=0)
    batch_tokens: int = setting(0, "Maximum tokens per batch, with padding; 0: 1024, on CUDA 16384.", at_least=0)
    queue_tokens: int = setting(131_072, "Maximum tokens in the queue; more are refused with 429.", at_least=1)
    max_inputs: int = setting(2048, "Maximum number of inputs per request.", at_least=1)
    max_body_mb: int = setting(8, "Maximum size of a request body in MB.", at_least=1)
    body_seconds: float = setting(10.0, "Timeout for receiving a request body.", above=0.0)
    send_seconds: float = setting(30.0, "Timeout for a client that does not read its response.", above=0.0)
    api_keys: str = setting("", "File with API keys, one per line; or set $ISOGLOSS_SERVE_KEYS.")
    log_requests: bool = setting(False, "Log address, path, status and time of requests; never text.")
    drain_seconds: float = setting(30.0, "On SIGTERM, how long to finish accepted requests.", at_least=0.0)
