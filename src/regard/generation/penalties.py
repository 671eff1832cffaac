"""What a beam search adds to log-probability before it compares hypotheses of different lengths.

Wu et al. 2016, equation 14:  s(Y, X) = log P(Y|X) / lp(Y) + cp(X; Y). |Y| counts the end token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from regard.errors import InputError
from regard.generation.checks import number
from regard.layers import Decoder


class LengthPenalty(Protocol):
    """A divisor of log-probability: positive, and never falling with the length, as the search relies on."""

    def __call__(self, length: int) -> float:
        """The divisor for |Y| = `length`, the end token counted."""
        ...


@dataclass(frozen=True, slots=True)
class GnmtLength:
    """lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha (Wu et al. 2016, equation 14).

    Log-probability is negative, so a larger alpha favours longer outputs; 0 leaves plain log-probability.

    Arguments:
        alpha: at least 0.

    Raises:
        InputError: for a negative alpha.

    >>> GnmtLength(1.0)(7)
    2.0
    """

    alpha: float

    def __post_init__(self) -> None:
        number("length_penalty", self.alpha, least=0)

    def __call__(self, length: int) -> float:
        """The divisor."""
        return ((5 + length) / 6) ** self.alpha


@dataclass(frozen=True, slots=True)
class PowerLength:
    """lp(Y) = |Y|^alpha, as in `transformers`: 0 leaves plain log-probability, 1 is the mean of a token's.

    Arguments:
        alpha: at least 0.

    Raises:
        InputError: for a negative alpha.

    >>> PowerLength(2.0)(3)
    9.0
    """

    alpha: float

    def __post_init__(self) -> None:
        number("length_penalty", self.alpha, least=0)

    def __call__(self, length: int) -> float:
        """The divisor."""
        return float(length) ** self.alpha


@dataclass(frozen=True, slots=True)
class AverageLength:
    """lp(Y) = |Y|: the score is the mean log-probability of a token.

    >>> AverageLength()(7)
    7.0
    """

    def __call__(self, length: int) -> float:
        """The divisor."""
        return float(length)


@dataclass(frozen=True, slots=True)
class CoveragePenalty:
    """cp(X; Y) = beta * sum_i log(min(sum_j p_ij, 1)) over real source positions i.

    Wu et al. 2016, equation 14. p_ij is the weight of target step j, the end token's among them, on source
    position i. The paper leaves log 0 open: here a position's coverage counts as at least `floor`.

    Arguments:
        beta: at least 0.
        floor: above 0 and at most 1.

    Raises:
        InputError: for any other value.

    >>> import torch
    >>> coverage, valid = torch.tensor([[0.5, 1.5, 0.0]]), torch.tensor([[True, True, False]])
    >>> CoveragePenalty(1.0)(coverage, valid).tolist()
    [-0.6931471824645996]
    """

    beta: float
    floor: float = 1e-6

    def __post_init__(self) -> None:
        number("coverage_penalty", self.beta, least=0)
        number("coverage floor", self.floor, above=0, most=1)

    def __call__(self, coverage: Tensor, valid: Tensor) -> Tensor:
        """The penalty, never above 0.

        Arguments:
            coverage: (N, S) float32, weights summed over target steps.
            valid: (N, S) bool, True = a real source token.

        Returns:
            (N,) float32.
        """
        covered = coverage.clamp(self.floor, 1.0).log()
        return self.beta * covered.masked_fill(~valid, 0.0).sum(dim=1)


def check_coverage(decoder: Decoder[Any]) -> None:
    """Refuse to rank by coverage where nothing is covered: without attention cp is the same for every hypothesis.

    Raises:
        InputError: for a decoder whose alignment is always zero.
    """
    if not decoder.has_alignment:
        raise InputError(
            "generation.coverage_penalty: this model has no attention over the source, so there is no coverage to count; "
            "set it to 0"
        )
