"""A service to ask, and patience that does not take any time."""

from collections.abc import Iterator

import pytest

from corpora.catalogue.service import Service
from isogloss.corpora.catalogue.retries import Patience


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    server = Service()
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("ISOGLOSS_OPUS_API", f"{server.url}/opusapi/")
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("ISOGLOSS_MIRROR", "")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield server
    server.close()


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def patience(waits: list[float]) -> Patience:
    return Patience(wait=waits.append)
