"""Forward and backward of PyTorch's fused attention on a processor: bfloat16, float32, and what `ScoredAttention` chooses.

python benchmarks/attention_kernels.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from measured import record
from regard.attention import AttentionInputs, ScaledDot, ScoredAttention
from regard.machine import keep_freed_memory

SHAPES = [
    (160, 4, 16, 64),
    (64, 4, 32, 64),
    (40, 4, 64, 64),
    (20, 4, 128, 64),
    (16, 12, 128, 64),
    (10, 4, 256, 64),
    (2, 8, 512, 64),
]
ROOT = Path(__file__).resolve().parent.parent


def milliseconds(runs: dict[str, tuple[list[torch.Tensor], Callable[..., torch.Tensor]]]) -> dict[str, float]:
    """The medians; each run in turn, so that a busy moment of the machine meets them all."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(33):
        for name, (tensors, run) in runs.items():
            began = time.perf_counter()
            torch.autograd.grad(run(*tensors).float().sum(), tensors)
            times[name].append(1e3 * (time.perf_counter() - began))
    return {name: round(statistics.median(found[3:]), 2) for name, found in times.items()}


def main() -> None:
    keep_freed_memory()
    torch.manual_seed(0)
    ours = ScoredAttention(ScaledDot())
    figures = {}
    for batch, heads, length, width in SHAPES:
        made = [torch.randn(batch, length, heads, width).transpose(1, 2) for _ in range(3)]
        exact = [tensor.requires_grad_() for tensor in made]
        short = [tensor.detach().bfloat16().requires_grad_() for tensor in made]
        figures[f"{batch * heads} heads of {length} tokens, ms"] = milliseconds(
            {
                "float32": (exact, F.scaled_dot_product_attention),
                "bfloat16": (short, F.scaled_dot_product_attention),
                "regard, bfloat16": (short, lambda q, k, v: ours(AttentionInputs(query=q, key=k), v)),
            }
        )
    record(
        ROOT / "docs" / "results" / "attention_kernels.json",
        title="Fused attention on a processor, forward and backward",
        command="python benchmarks/attention_kernels.py",
        precision="float32 and bfloat16",
        seed=0,
        figures=figures,
        note="PyTorch's bfloat16 kernel for processors is slow backwards on short sequences: in training the fused path runs in "
        "float32 below 24 keys, and from there to 256 the weights are laid out in bfloat16.",
    )


if __name__ == "__main__":
    main()
