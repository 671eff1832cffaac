"""All blocks of a decoder in one call of the compiled kernel."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from regard.prepared.block import PreparedBlock
from regard.prepared.homed import Homed
from regard.prepared.interface import BlockStruct, Pointer
from regard.prepared.native import Kernels


@dataclass(frozen=True, slots=True, eq=False)
class SourceRead:
    """What a step attends to besides its own past.

    Arguments:
        held: keys and values of the sources.
        visible: (R, S) bool, True = may be attended to.
        asked: the block whose queries are wanted.
        queries: (N, H, E) float32, where they are written.
    """

    held: Homed
    visible: Tensor
    asked: int
    queries: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class BlocksKernel:
    """One token of each row through blocks of one shape, which hold what the structs point into.

    Arguments:
        library: the compiled kernels.
        structs: the blocks, as the kernel is given them.
    """

    library: ctypes.CDLL
    structs: ctypes.Array[BlockStruct]

    @classmethod
    def of(cls, blocks: Sequence[PreparedBlock], kernels: Kernels) -> Self | None:
        """The kernel for these blocks; None where there is none, or it takes no such block."""
        structs = [block.struct for block in blocks if block.struct is not None]
        if kernels.library is None or not structs or len(structs) < len(blocks):
            return None
        return cls(kernels.library, (BlockStruct * len(structs))(*structs))

    def __call__(
        self,
        x: Tensor,
        past: Homed,
        visible: Sequence[Tensor | None],
        *,
        beside: int = 1,
        source: SourceRead | None = None,
    ) -> Tensor:
        """(N, D) float32 to the same; the keys and values of these tokens are written into the last columns of `past`.

        Arguments:
            past: of the tokens before and these, `beside` columns for these.
            visible: of each block (N, C) bool, contiguous, True = may be attended to; None = all.
            beside: how many rows there are about each text, next to one another.
            source: what is attended to besides.
        """
        y = x.clone(memory_format=torch.contiguous_format)  # which the kernel changes in place
        own, read = past.struct(), None if source is None else source.held.struct()
        columns = own.columns if read is None else max(own.columns, read.columns)
        scratch = torch.empty(self.library.regard_blocks_scratch(self.structs, len(x), columns), dtype=torch.uint8)
        about: tuple[Any, ...] = (None, None, -1, None)
        if source is not None:
            about = (read, source.visible.data_ptr(), source.asked, source.queries.data_ptr())
        places = [None if seen is None else seen.data_ptr() for seen in visible]
        self.library.regard_blocks(
            self.structs,
            len(self.structs),
            y.data_ptr(),
            len(x),
            beside,
            own,
            (Pointer * len(places))(*places),
            *about,
            scratch.data_ptr(),
        )
        return y
