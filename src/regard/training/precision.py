"""Which number format to compute in."""

from __future__ import annotations

from typing import Literal

import torch

Precision = Literal["auto", "float32", "bfloat16"]


def resolve(precision: Precision, device: torch.device) -> tuple[torch.dtype, str]:
    """The dtype of matrix products, and a sentence about the choice.

    `auto` is bfloat16 where the device multiplies it natively: on a processor with AVX512-BF16 or AMX, on a GPU from Ampere
    on. Parameters, optimiser state, losses and norms stay in float32 either way.
    """
    if precision == "bfloat16":
        return torch.bfloat16, "bfloat16, as asked"
    if precision == "float32":
        return torch.float32, "float32, as asked"
    if native_bfloat16(device):
        return torch.bfloat16, f"bfloat16, native on this {_called(device)}"
    return torch.float32, f"float32, this {_called(device)} has no native bfloat16"


def native_bfloat16(device: torch.device) -> bool:
    """Whether the device multiplies bfloat16 matrices in hardware."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type == "cpu":
        capability = torch.backends.cpu.get_cpu_capability()
        supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        return capability.startswith("AVX512") and bool(supported is not None and supported())
    return False


def _called(device: torch.device) -> str:
    return "GPU" if device.type == "cuda" else "processor"
