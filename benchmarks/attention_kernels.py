"""Forward and backward of PyTorch's fused attention on a processor: bfloat16, float32, and what `ScoredAttention` chooses.

python benchmarks/attention_kernels.py
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from measured import record
from regard.attention import AttentionInputs, ScaledDot, ScoredAttention

SHAPES = [(160, 4, 16, 64), (40, 4, 64, 64), (10, 4, 256, 64), (2, 8, 512, 64)]
ROOT = Path(__file__).resolve().parent.parent


def milliseconds(tensors: list[torch.Tensor], run: object) -> float:
    times = []
    for _ in range(15):
        began = time.perf_counter()
        torch.autograd.grad(run(*tensors).float().sum(), tensors)  # type: ignore[operator]
        times.append(1e3 * (time.perf_counter() - began))
    return round(statistics.median(times[3:]), 2)


def main() -> None:
    torch.manual_seed(0)
    ours = ScoredAttention(ScaledDot())
    figures = {}
    for batch, heads, length, width in SHAPES:
        made = [torch.randn(batch, length, heads, width).transpose(1, 2) for _ in range(3)]
        exact = [tensor.requires_grad_() for tensor in made]
        short = [tensor.detach().bfloat16().requires_grad_() for tensor in made]
        figures[f"{batch * heads} heads of {length} tokens, ms"] = {
            "float32": milliseconds(exact, F.scaled_dot_product_attention),
            "bfloat16": milliseconds(short, F.scaled_dot_product_attention),
            "regard, bfloat16": milliseconds(short, lambda q, k, v: ours(AttentionInputs(query=q, key=k), v)),
        }
    record(
        ROOT / "docs" / "results" / "attention_kernels.json",
        title="Fused attention on a processor, forward and backward",
        command="python benchmarks/attention_kernels.py",
        precision="float32 and bfloat16",
        seed=0,
        figures=figures,
        note="PyTorch's bfloat16 kernel is slow backwards on short sequences, so up to 256 keys the fused path runs in float32.",
    )


if __name__ == "__main__":
    main()
