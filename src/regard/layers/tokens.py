"""Token ids and which of them are real: what models read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from regard.attention import positions_of

Padded = Literal["nowhere", "right", "somewhere"]
"""Where padding stands in a batch, as far as its maker knows."""


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """A padded batch of token sequences.

    Arguments:
        ids: (B, L) int64; what stands at padding is never looked at.
        valid: (B, L) bool, True = a real token, False = padding. Padding may stand on either side.
        padded: what is known of where padding stands without looking at `valid`, which on a graphics card would mean to wait.
            What reads from the left needs no mask where padding only follows.
        documents: (B, L) integers that never fall, the document that each token is of, where several stand in one row and none is
            to see another; None where a row is one. For models whose `parts_documents` is true.

    Raises:
        ValueError: where the two shapes differ or a dtype is wrong.
    """

    ids: Tensor
    valid: Tensor
    padded: Padded = "somewhere"
    documents: Tensor | None = None

    def __post_init__(self) -> None:
        if self.ids.shape != self.valid.shape or self.ids.dim() != 2 or self.valid.dtype != torch.bool:
            raise ValueError(
                "Tokens takes ids (B, L) and valid (B, L) bool, True = real token, not "
                f"{tuple(self.ids.shape)} and {self.valid.dtype} {tuple(self.valid.shape)}"
            )

    @classmethod
    def pad(
        cls,
        sequences: Sequence[Sequence[int]],
        *,
        padding_id: int = 0,
        side: Literal["left", "right"] = "right",
        device: torch.device | str | None = None,
    ) -> Tokens:
        """Sequences of different lengths side by side.

        >>> Tokens.pad([[5, 6], [7]], side="left").ids.tolist()
        [[5, 6], [0, 7]]
        """
        lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int64)
        columns = np.arange(lengths.max(initial=0))
        # In numpy: a tensor operation for each row would take as long as a small model's step.
        valid = columns >= (len(columns) - lengths)[:, None] if side == "left" else columns < lengths[:, None]
        ids = np.full(valid.shape, padding_id, dtype=np.int64)
        if lengths.sum():
            ids[valid] = np.concatenate([np.asarray(sequence, dtype=np.int64) for sequence in sequences])
        padded: Padded = "nowhere" if valid.all() else "right" if side == "right" else "somewhere"
        return cls(torch.from_numpy(ids).to(device), torch.from_numpy(valid).to(device), padded)

    def to(self, device: torch.device | str) -> Tokens:
        """The same tokens on another device."""
        documents = None if self.documents is None else self.documents.to(device)
        return Tokens(self.ids.to(device), self.valid.to(device), self.padded, documents)

    def select(self, rows: Tensor) -> Tokens:
        """The rows of the index tensor `rows`, in that order."""
        documents = None if self.documents is None else self.documents.index_select(0, rows)
        return Tokens(self.ids.index_select(0, rows), self.valid.index_select(0, rows), self.padded, documents)

    def parted(self, end_id: int) -> Tokens:
        """The same tokens, each row parted into documents: one begins at every end token, which stands before its first.

        >>> Tokens.pad([[7, 8, 2, 5, 6, 2, 9]]).parted(2).documents.tolist()
        [[0, 0, 1, 1, 1, 2, 2]]
        """
        return Tokens(self.ids, self.valid, self.padded, (self.ids == end_id).cumsum(dim=1))

    @property
    def places(self) -> Tensor | None:
        """(B, L) int64, where each token stands in its sequence; None where that is known to be its column, or it is padding."""
        return positions_of(self.valid) if self.padded == "somewhere" else None

    @property
    def lengths(self) -> Tensor:
        """(B,) int64, real tokens in each row."""
        return self.valid.sum(dim=1)

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.ids.device

    def __len__(self) -> int:
        return self.ids.shape[0]
