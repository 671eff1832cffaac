"""Memory for weights that are all read for every token."""

from __future__ import annotations

import contextlib
import mmap

import torch
from torch import Tensor

CHUNK = 32 << 20
"""Bytes that are allocated at a time."""

LARGE_PAGE = 2 << 20
"""Bytes of a large page on x86-64, and on AArch64 with small pages of 4 KiB."""

ALIGNMENT = 64


class LargePages:
    """Memory for tensors for which the system is asked for pages of 2 MiB; tensors are placed one after another.

    A processor caches the addresses of some thousand pages only. Weights that are read at the speed of memory wait at every page
    of 4 KiB for an address, above all in a virtual machine. Where the system has no large pages, or does not offer them (not
    Linux, or `/sys/kernel/mm/transparent_hugepage/enabled` is `never`), the pages are ordinary ones.
    >>> memory = LargePages()
    >>> kept = memory.keep(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T)
    >>> kept.tolist(), kept.is_contiguous(), kept.data_ptr() % ALIGNMENT
    ([[1.0, 3.0], [2.0, 4.0]], True, 0)
    """

    def __init__(self) -> None:
        self._chunk = torch.empty(0, dtype=torch.uint8)
        self._used = 0

    def keep(self, tensor: Tensor) -> Tensor:
        """A contiguous copy of a tensor in this memory, without gradients; a tensor on another device is returned as it is."""
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
    """Memory of at least `size` bytes that begins at the start of a large page."""
    whole = -(-size // LARGE_PAGE) * LARGE_PAGE
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return torch.empty(whole, dtype=torch.uint8)
    place = mmap.mmap(-1, whole + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a system without large pages
        place.madvise(mmap.MADV_HUGEPAGE)
    memory = torch.frombuffer(place, dtype=torch.uint8)  # keeps `place` alive
    start = -memory.data_ptr() % LARGE_PAGE
    return memory[start : start + whole]
