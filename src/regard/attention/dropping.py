"""Dropout on a processor: cheaper random numbers than PyTorch's, the same with and without the compiled kernel."""

from __future__ import annotations

import ctypes

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx

from regard.kernels import kernels


def dropped(x: Tensor, p: float) -> Tensor:
    """Dropout: entries are set to zero with probability p, and the others divided by 1 - p (Srivastava et al. 2014).

    On a processor PyTorch samples one random number for each entry, which took a fifth of the time of a small Transformer's
    training step. Here one 64-bit number serves four entries, 16 bits each, so p is rounded, by at most 1/131072 (1/65536 close
    to 1), and the scale is that of the rounded p. The compiled kernel generates the numbers while it multiplies, again in the
    backward pass, so that no mask is stored; without it, `kept` makes the same mask. The seed is sampled by PyTorch's generator,
    so `torch.manual_seed` makes dropout reproducible. On other devices, and under `torch.compile`, this is PyTorch's own dropout.

    Arguments:
        x: of any shape.
        p: in [0, 1).
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p, training=True)
    seed = sample_seed()
    library = kernels().library if x.dtype in (torch.float32, torch.bfloat16) else None
    if library is not None:
        return _Dropped.apply(x, p, seed, library)  # type: ignore[no-any-return]
    return x * kept(x, p, seed)


def sample_seed() -> int:
    """A seed for `kept`, sampled by torch's generator."""
    return int(torch.randint(2**63 - 1, ()))


def kept(x: Tensor, p: float, seed: int) -> Tensor:
    """The mask that `dropped` multiplies x with, of its shape, dtype and device; the same for the same seed.

    Entry n is kept if 16 bits of a random number, those from 16 (n mod 4) of number n // 4, are at least 65536 p. The numbers
    are those of SplitMix64 (Steele et al. 2014), a hash of the seed and their index.
    """
    if x.device.type != "cpu":
        uniform = torch.rand(x.shape, generator=torch.Generator(x.device).manual_seed(seed), device=x.device)
        return (uniform >= p).to(x.dtype).mul_(1 / (1 - p))
    share = share_of(p)
    bits = np.arange(1, -(-x.numel() // 4) + 1, dtype=np.uint64)
    bits *= _GOLDEN
    bits += np.uint64(seed)
    for shift, factor in _MIXING:
        bits ^= bits >> shift
        bits *= factor
    bits ^= bits >> np.uint64(31)
    held = torch.from_numpy(bits.astype("<u8", copy=False).view("<u2")[: x.numel()] >= share).view(x.shape)
    return held.to(x.dtype).mul_(65536 / (65536 - share))


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIXING = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)

SMALL = 32768
"""The number of entries that are not shared out among threads."""


def share_of(p: float) -> int:
    """How many of 65536 entries are dropped; one in 65536 is kept even if p is nearer to 1."""
    return min(round(p * 65536), 65535)


def scale_of(share: int, dtype: torch.dtype) -> float:
    """What the entries that are kept are multiplied by, as a mask of this dtype holds it."""
    return float(torch.tensor(65536 / (65536 - share), dtype=dtype))


class _Dropped(torch.autograd.Function):
    """x times the mask of a seed, by the kernel; the gradient is multiplied with the same mask."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, p: float, seed: int, library: ctypes.CDLL) -> Tensor:
        ctx.settings = (p, seed, library)  # type: ignore[attr-defined]
        x = x.contiguous()
        y, share = torch.empty_like(x), share_of(p)
        threads = 1 if x.numel() <= SMALL else torch.get_num_threads()
        library.regard_dropout(
            *(
                x.data_ptr(),
                x.numel(),
                x.element_size() * 8,
                seed,
                share,
                scale_of(share, x.dtype),
                y.data_ptr(),
                threads,
            )
        )
        return y

    @staticmethod
    def backward(ctx: FunctionCtx, *upstreams: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Dropped.apply(upstreams[0], *ctx.settings), None, None, None  # type: ignore[attr-defined, return-value]
