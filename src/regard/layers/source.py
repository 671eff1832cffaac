"""What a decoder reads as a whole before it writes."""

from __future__ import annotations

from typing import Protocol, Self

import torch
from torch import Tensor


class Source(Protocol):
    """A batch of what answers are about: `Tokens` for most models, `Pictures` for captioners."""

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, how long each is: real tokens, or frames."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it is."""
        ...

    def select(self, rows: Tensor) -> Self:
        """The rows of the index tensor `rows`, in that order."""
        ...

    def __len__(self) -> int:
        """B."""
        ...
