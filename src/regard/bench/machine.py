"""What decides how fast a program is: more than a run's record keeps."""

from __future__ import annotations

import platform
from typing import Any

from regard import machine as root


def machine() -> dict[str, Any]:
    """Processor, cores and memory of this machine, its graphics card, and whether bfloat16 is computed natively."""
    import torch

    from regard.training.precision import native_bfloat16

    return root.machine() | {
        "memory_gb": _memory(),
        "system": platform.platform(),
        "native_bfloat16": native_bfloat16(torch.device("cpu")),
    }


def _memory() -> float | None:
    there = root.memory()
    return None if there is None else round(there / 2**30, 1)
