"""Settings of a search that depend on length: length and coverage penalties, limits, stop rules; and checks of numbers.

A beam search compares hypotheses of different lengths by s(Y, X) = log P(Y|X) / lp(Y) + cp(X; Y) (Wu et al. 2016, equation 14).
|Y| counts the end token.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.hypothesis import Paths
from regard.layers import Decoder, Source


def whole(field: str, value: object, *, least: int, most: int | None = None) -> None:
    """Raise unless `value` is a whole number of at least `least`, and at most `most` where that is given.

    >>> whole("beam", 4, least=1)
    >>> whole("beam", 0, least=1)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: beam: 0 will not do; give a whole number of at least 1
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{field}: {value!r} will not do; give a whole number of at least {least}")
    if most is not None and value > most:
        raise InputError(f"{field}: {value} will not do; give a whole number of at most {most}")


def number(
    field: str, value: object, *, above: float = -math.inf, least: float = -math.inf, most: float = math.inf
) -> None:
    """Raise unless `value` is a finite number, greater than `above`, at least `least` and at most `most`.

    >>> number("top_p", 0, above=0, most=1)
    Traceback (most recent call last):
        ...
    regard.errors.InputError: top_p: 0 will not do; give a finite number above 0 and at most 1
    """
    proper = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if proper and above < value and least <= value <= most:  # type: ignore[operator]
        return
    bounds = [
        f"{words} {bound:g}"
        for words, bound in (("above", above), ("at least", least), ("at most", most))
        if math.isfinite(bound)
    ]
    raise InputError(f"{field}: {value!r} will not do; give a finite number " + " and ".join(bounds))


def one_of(field: str, value: object, choices: Collection[str]) -> None:
    """Raise unless `value` is one of the choices.

    >>> one_of("search_end", "proof", ("proof", "estimate"))
    """
    if value not in choices:
        raise InputError(f"{field}: {value!r} will not do; give one of {', '.join(choices)}")


def truth(field: str, value: object) -> None:
    """Raise unless `value` is true or false.

    >>> truth("sample", True)
    """
    if not isinstance(value, bool):
        raise InputError(f"{field}: {value!r} will not do; give true or false")


class LengthPenalty(Protocol):
    """A divisor of log-probability. It must be positive and must not decrease with the length."""

    def __call__(self, length: int) -> float:
        """The divisor for |Y| = `length`, which counts the end token."""
        ...


@dataclass(frozen=True, slots=True)
class GnmtLength:
    """lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha (Wu et al. 2016, equation 14).

    Log-probability is negative, so a larger alpha favours longer outputs; with 0 the score is the log-probability.

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
    """lp(Y) = |Y|^alpha, as in `transformers`: with 0 the score is the log-probability, with 1 its mean per token.

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

    Wu et al. 2016, equation 14. p_ij is the attention weight of target step j, including the end token, on source position
    i. The paper does not define log 0: here the coverage of a position is at least `floor`.

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
    """Refuse a coverage penalty without attention: cp would be the same for every hypothesis.

    Raises:
        InputError: for a decoder whose alignment is always zero.
    """
    if not decoder.has_alignment:
        raise InputError(
            "generation.coverage_penalty: this model has no attention over the source, so there is no coverage to count; "
            "set it to 0"
        )


class LengthLimit(Protocol):
    """The maximum length of the answer to each source."""

    def __call__(self, source: Source) -> Tensor:
        """(B,) int64, the maximum number of tokens of each answer, with the end token."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLength:
    """The same limit for every source.

    Arguments:
        count: tokens, with the end token; at least 1.

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
        """The limit of each row."""
        return (source.lengths * self.factor).floor().long() + self.extra


def row_limits(decoder: Decoder[Any], source: Source, limit: LengthLimit) -> list[int]:
    """The maximum number of steps for each source row: the limit, at most the decoder's positions, and at least 1."""
    return limit(source).clamp(min=1, max=decoder.maximum_target_length).tolist()


class StopRule(Protocol):
    """Decides which rows are complete without an end token."""

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
        """Whether each row ends with the sequence."""
        if paths.length < len(self.ids):
            return torch.zeros(len(paths), dtype=torch.bool, device=paths.tokens.device)
        wanted = torch.tensor(self.ids, device=paths.tokens.device)
        return (paths.tokens[:, -len(self.ids) :] == wanted).all(dim=1)
