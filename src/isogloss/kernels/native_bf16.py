"""Which devices multiply matrices in bf16 faster than in single precision.

CUDA devices do. Of CPUs, those with instructions for it do (AVX512-BF16, AMX): AMD's since Zen 4, Intel's since Sapphire
Rapids. Others compute bf16 too, but convert every number, which is slower than single precision.

`ISOGLOSS_CPU_PRECISION=float32` keeps every "auto" on a CPU in single precision, so that different machines give the same
results; `bf16` takes bf16 on any CPU.
"""

import os
from functools import cache

import torch

VARIABLE = "ISOGLOSS_CPU_PRECISION"
INSTRUCTIONS = ("avx512_bf16", "amx_bf16")


def computes_bf16(device: torch.device | str) -> bool:
    """Whether "auto" should mean bf16 on a device."""
    kind = torch.device(device).type
    if kind != "cpu":
        return kind == "cuda"
    chosen = os.environ.get(VARIABLE, "auto")
    return chosen == "bf16" or (chosen != "float32" and _cpu_has_instructions())


@cache
def _cpu_has_instructions() -> bool:
    """By torch's list of the CPU's capabilities, and by oneDNN, which may be limited to older ones (ONEDNN_MAX_CPU_ISA)."""
    try:
        found = torch.cpu.get_capabilities()
        return any(found.get(name, False) for name in INSTRUCTIONS) and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):  # other versions of torch, or built without oneDNN
        return False
