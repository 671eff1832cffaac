"""Memory for weights that are read whole with every token."""

from __future__ import annotations

import contextlib
import mmap

import torch
from torch import Tensor

CHUNK = 32 << 20
"""Bytes that are asked for at a time."""

LARGE_PAGE = 2 << 20
"""Bytes of a large page on x86-64, and on AArch64 with small pages of 4 KiB."""

ALIGNMENT = 64


class LargePages:
    """Tensors one after another in memory for which the system is asked to take pages of 2 MiB.

    A processor finds the place of each page anew once it has read some thousand others. Weights that are read at the speed of
    memory wait for that at every page of 4 KiB, above all in a virtual machine. Where the system has no large pages to give,
    or is not asked (not Linux, or `/sys/kernel/mm/transparent_hugepage/enabled` says `never`), the pages are ordinary.

    >>> memory = LargePages()
    >>> kept = memory.keep(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T)
    >>> kept.tolist(), kept.is_contiguous(), kept.data_ptr() % ALIGNMENT
    ([[1.0, 3.0], [2.0, 4.0]], True, 0)
    """

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def keep(self, tensor: Tensor) -> Tensor:
        """The same numbers in this memory, contiguous, without gradients; a tensor that is not on a processor as it is."""
        if tensor.device.type != "cpu":
            return tensor
        size = tensor.numel() * tensor.element_size()
        start = -(-self._used // ALIGNMENT) * ALIGNMENT
        if start + size > len(self._chunk):
            self._chunk, start = _chunk(max(size, CHUNK)), 0
        self._used = start + size
        kept = self._chunk[start : start + size].view(tensor.dtype).view(tensor.shape)
        return kept.copy_(tensor.detach())


def _chunk(size: int) -> Tensor:
    """So many bytes, from the beginning of a large page on."""
    whole = -(-size // LARGE_PAGE) * LARGE_PAGE
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(whole, dtype=torch.uint8)
    place = mmap.mmap(-1, whole + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a system that has none
        place.madvise(mmap.MADV_HUGEPAGE)
    memory = torch.frombuffer(place, dtype=torch.uint8)  # which keeps `place`
    start = -memory.data_ptr() % LARGE_PAGE
    return memory[start : start + whole]
