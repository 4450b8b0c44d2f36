"""The settings of the service."""

from typing import Literal

from isogloss.config.settings import Settings, setting

ServedPrecision = Literal["auto", "int8", "fp32"]


class ServeSettings(Settings):
    """Where the service listens, what it computes with, and how much it accepts."""

    host: str = setting("127.0.0.1", "Address to listen on; 0.0.0.0 for all.", min_length=1)
    port: int = setting(8000, "Port to listen on; 0: a free one.", at_least=0, at_most=65_535)
    device: str = setting("auto", "Where to compute: auto, cuda, mps or cpu.")
    precision: ServedPrecision = setting("auto", "int8: ONNX on a CPU; fp32: torch; auto: int8 without a GPU.")
    threads: int = setting(0, "CPU cores to compute with; 0: all.", at_least=0)
    batch_tokens: int = setting(0, "Most tokens of a batch, with padding; 0: 1024, on CUDA 16384.", at_least=0)
    queue_tokens: int = setting(131_072, "Most tokens that wait; then requests are refused (429).", at_least=1)
    max_inputs: int = setting(2048, "Most inputs of a request.", at_least=1)
    max_body_mb: int = setting(8, "Most megabytes of a request.", at_least=1)
    body_seconds: float = setting(10.0, "Seconds that a client has to send a request.", above=0.0)
    send_seconds: float = setting(30.0, "Seconds that a client has to read a part of a response.", above=0.0)
    api_keys: str = setting("", "File with API keys, one per line; $ISOGLOSS_SERVE_KEYS has more.")
    log_requests: bool = setting(False, "Log each request: address, path, status and time; never text.")
    drain_seconds: float = setting(30.0, "Seconds to answer what was accepted, after SIGTERM.", at_least=0.0)
