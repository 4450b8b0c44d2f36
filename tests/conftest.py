"""Tiny real models, made here: a BERT body with a Unigram vocabulary, a teacher, and pairs in two languages.

Property tests draw the same examples each time, on every machine. `make explore` draws new ones, from seeds it prints;
what it finds is pinned with @example. Tests marked `gpu` are skipped where there is no CUDA device.
"""

import ctypes
import gc
import os
import signal

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["ISOGLOSS_CPU_PRECISION"] = "float32"  # whatever the CPU can: tests of bf16 set it, or ask for bf16
try:
    ctypes.CDLL("libcuda.so.1")
except OSError:  # no driver: triton interprets our kernels in Python, if it is told before torch imports it
    os.environ.setdefault("TRITON_INTERPRET", "1")

from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from isogloss.corpora.prepare import prepare
from isogloss.types import Bitext
from tiny import PAIRS, save_tiny_model

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # under nohup, or in the background of a shell, they may be ignored:
for number in (signal.SIGTERM, signal.SIGHUP):  # what tests start inherits that, and would wait for ever to be stopped
    signal.signal(number, signal.SIG_DFL)
hypothesis.settings.register_profile("steady", deadline=None, derandomize=True, database=None, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("ISOGLOSS_HYPOTHESIS", "steady"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a CUDA device where there is none."""
    if torch.cuda.is_available():
        return
    for item in items:
        marker = item.get_closest_marker("gpu")
        if marker is not None and not marker.kwargs.get("interpreted"):
            item.add_marker(pytest.mark.skip("needs a CUDA device: make test-gpu"))


@pytest.fixture(autouse=True, scope="module")
def _only_own_garbage() -> None:
    """Stages of a run collect garbage: they need not look through all that pytest and earlier modules have loaded."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk() -> Iterator[None]:
    """What a test writes need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the user's cache or another test's."""
    monkeypatch.setenv("ISOGLOSS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `teacher` (16-d, unit norm) and `student` (24-d, four layers, two scripts)."""
    folder = tmp_path_factory.mktemp("models")
    save_tiny_model(folder / "teacher", width=16, layers=1, seed=1, normalize=True)
    save_tiny_model(folder / "student", width=24, layers=4, seed=2, normalize=False)
    return folder


@pytest.fixture(scope="session")
def bitext() -> Bitext:
    """Forty sentences in two languages, eight of them held out."""
    return prepare(Bitext.of(PAIRS)).bitext


@pytest.fixture
def tsv(tmp_path: Path) -> Path:
    """The same pairs as an N-way file with a split column."""
    path = tmp_path / "pairs.tsv"
    rows: dict[str, dict[str, str]] = {}
    for pair in PAIRS:
        rows.setdefault(pair.source, {"split": pair.split})[pair.language] = pair.target
    lines = ["split\ten\tde\tru"] + [f"{row['split']}\t{en}\t{row['de']}\t{row['ru']}" for en, row in rows.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
