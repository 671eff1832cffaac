"""What decides how fast a program is."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Processor, cores and memory of this machine, its graphics card, and whether bfloat16 is computed natively."""
    import torch

    from regard.training.precision import native_bfloat16

    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else name
    return {
        "processor": name,
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "system": platform.platform(),
        "native_bfloat16": native_bfloat16(torch.device("cpu")),
    }


def versions() -> dict[str, str]:
    """Of Regard and of what it runs on."""
    import torch

    import regard

    return {"regard": regard.__version__, "torch": torch.__version__, "python": platform.python_version()}


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, OSError, ValueError):  # not on this system
        return None
