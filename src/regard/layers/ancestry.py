"""Which of the tokens written about a source belong to which hypothesis, so that a cache of them never has to move."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.attention import Dense, Mask


@dataclass(frozen=True, slots=True, eq=False)
class Ancestry:
    """The pasts of N = R * W hypotheses about R sources, as columns of one memory for each source.

    Keys and values of the tokens written so far are kept once for each source: R rows of C columns, and every step adds a column
    for each of its W hypotheses. A hypothesis attends to its own past among them. When hypotheses branch, change places or
    leave, only this table follows; the memory, which is a thousand times its size, stays.

    Arguments:
        widths: how many columns came with each step, the same for every source.
        seen: (N, C) bool, True = a token of the row's own past; None where every column is.

    >>> ancestry = Ancestry().extended(rows=1, width=1).select(torch.tensor([0, 0])).extended(rows=2, width=2)
    >>> ancestry.select(torch.tensor([1, 1])).seen.tolist()
    [[True, False, True], [True, False, True]]
    """

    widths: tuple[int, ...] = ()
    seen: Tensor | None = None

    @property
    def columns(self) -> int:
        """C."""
        return sum(self.widths)

    def extended(self, *, rows: int, width: int, device: torch.device | str | None = None) -> Ancestry:
        """After one more step, in which each of the rows wrote a token that it alone sees.

        Arguments:
            rows: N.
            width: W, hypotheses about each source.
        """
        widths = (*self.widths, width)
        if width == 1 and self.seen is None:
            return Ancestry(widths)
        seen = torch.ones(rows, self.columns, dtype=torch.bool, device=device) if self.seen is None else self.seen
        own = torch.eye(width, dtype=torch.bool, device=device).repeat(rows // width, 1)
        return Ancestry(widths, torch.cat((seen, own), dim=1))

    def select(self, rows: Tensor) -> Ancestry:
        """Each new row continues the past of row `rows[i]`."""
        return self if self.seen is None else Ancestry(self.widths, self.seen.index_select(0, rows))

    def crop(self, length: int) -> Ancestry:
        """As it was after `length` steps."""
        widths = self.widths[:length]
        return Ancestry(widths, None if self.seen is None else self.seen[:, : sum(widths)])

    def mask(self, width: int) -> Mask | None:
        """Over (R, H, W, C), True = may attend: the W hypotheses about a source are so many queries; None = all to all."""
        return None if self.seen is None else Dense(self.seen.unflatten(0, (-1, width)).unsqueeze(1))

    def places(self, sources: int) -> Tensor | None:
        """The step that each column came with, (R, C) int64, for whoever looks; None where column c came with step c."""
        if self.seen is None:
            return None
        steps = torch.arange(len(self.widths), device=self.seen.device)
        widths = torch.tensor(self.widths, device=self.seen.device)
        return steps.repeat_interleave(widths).expand(sources, -1)
