"""When a row ends, apart from its end token: length limits and stop rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.checks import number, whole
from regard.generation.hypothesis import Paths
from regard.layers import Decoder, Source


class LengthLimit(Protocol):
    """How long the answer to each source may become."""

    def __call__(self, source: Source) -> Tensor:
        """(B,) int64: the most tokens each answer may have, its end token among them."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLength:
    """The same limit for every source.

    Arguments:
        count: tokens, the end token among them; at least 1.

    Raises:
        InputError: for any other value.

    >>> from regard.layers import Tokens
    >>> FixedLength(20)(Tokens.pad([[5, 6], [7]])).tolist()
    [20, 20]
    """

    count: int

    def __post_init__(self) -> None:
        whole("maximum_length", self.count, least=1)

    def __call__(self, source: Source) -> Tensor:
        """The number, once per row."""
        return torch.full((len(source),), self.count, dtype=torch.long, device=source.device)


@dataclass(frozen=True, slots=True)
class RelativeLength:
    """A limit that grows with the source: floor(factor * source length) + extra, padding not counted.

    The default is input length + 50 (Vaswani et al. 2017, section 6.1).

    Arguments:
        factor: at least 0.
        extra: tokens; at least 0.

    Raises:
        InputError: for any other value.

    >>> from regard.layers import Tokens
    >>> RelativeLength(factor=2, extra=3)(Tokens.pad([[5, 6], [7]])).tolist()
    [7, 5]
    """

    factor: float = 1.0
    extra: int = 50

    def __post_init__(self) -> None:
        number("maximum_ratio", self.factor, least=0)
        whole("maximum_extra", self.extra, least=0)

    def __call__(self, source: Source) -> Tensor:
        """The line, per row."""
        return (source.lengths * self.factor).floor().long() + self.extra


def row_limits(decoder: Decoder[Any], source: Source, limit: LengthLimit) -> list[int]:
    """The most steps for each source row: the limit, within what the decoder can reach, and at least one."""
    return limit(source).clamp(min=1, max=decoder.maximum_target_length).tolist()


class StopRule(Protocol):
    """Says which rows are complete without an end token."""

    def __call__(self, paths: Paths) -> Tensor:
        """(N,) bool: True = this row ends here, with its newest token."""
        ...


class StopSequence:
    """A row ends when its last tokens equal a given sequence; the sequence stays in the hypothesis.

    Arguments:
        ids: at least one token id.

    Raises:
        InputError: for an empty sequence, which would end every row at once.

    >>> paths = Paths.begin(2, "cpu")
    >>> for tokens in ([5, 5], [6, 7]):
    ...     paths = paths.advanced(torch.arange(2), torch.tensor(tokens), torch.zeros(2))
    >>> StopSequence([5, 6])(paths).tolist()
    [True, False]
    """

    def __init__(self, ids: Sequence[int]) -> None:
        if not ids:
            raise InputError("stop sequence: it has no tokens; give at least one, or leave it out")
        self.ids = tuple(ids)

    def __call__(self, paths: Paths) -> Tensor:
        """Whether the tail of each row is the sequence."""
        if paths.length < len(self.ids):
            return torch.zeros(len(paths), dtype=torch.bool, device=paths.tokens.device)
        wanted = torch.tensor(self.ids, device=paths.tokens.device)
        return (paths.tokens[:, -len(self.ids) :] == wanted).all(dim=1)
