"""Where "auto" means bf16, whatever the CPU that the tests run on can do."""

from typing import Any

import pytest
import torch

from isogloss.kernels import native_bf16
from isogloss.kernels.native_bf16 import VARIABLE, computes_bf16


@pytest.fixture(autouse=True)
def _any_cpu(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401 - a fixture
    monkeypatch.delenv(VARIABLE)
    native_bf16._cpu_has_instructions.cache_clear()
    yield
    native_bf16._cpu_has_instructions.cache_clear()


def a_cpu(monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], onednn: bool = True) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: onednn, raising=False)


@pytest.mark.parametrize(
    ("capabilities", "onednn", "expected"),
    [
        ({"avx512_bf16": True}, True, True),
        ({"amx_bf16": True, "avx512_bf16": False}, True, True),
        ({"avx512_bf16": True}, False, False),
        ({"avx512_f": True}, True, False),
        ({}, True, False),
    ],
)
def test_a_cpu_needs_the_instructions_and_onednn(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, bool], onednn: bool, expected: bool
) -> None:
    a_cpu(monkeypatch, capabilities, onednn)
    assert computes_bf16("cpu") is expected


def test_a_torch_that_cannot_say_means_no(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert not computes_bf16("cpu")


def test_the_environment_decides_for_cpus_only(monkeypatch: pytest.MonkeyPatch) -> None:
    a_cpu(monkeypatch, {"avx512_bf16": True})
    monkeypatch.setenv(VARIABLE, "float32")
    assert not computes_bf16("cpu") and computes_bf16("cuda")
    a_cpu(monkeypatch, {})
    monkeypatch.setenv(VARIABLE, "bf16")
    assert computes_bf16("cpu") and not computes_bf16("mps")


def test_torch_here_can_be_asked() -> None:
    """The functions that are asked exist in this version: without them every CPU would be taken for an old one."""
    assert "architecture" in torch.cpu.get_capabilities()
    assert isinstance(torch.ops.mkldnn._is_mkldnn_bf16_supported(), bool)
