"""Changes to logits before a token is chosen.

A transform takes logits and the paths so far and returns logits of the same shape, working on the last axis
only. What it rules out becomes minus infinity. Transforms decide which token comes next; the
log-probabilities of a `Hypothesis` are always the model's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from regard.errors import InputError
from regard.generation.checks import number, whole
from regard.generation.paths import Paths
from regard.layers import DecoderConfig


class LogitTransform(Protocol):
    """Logits in, logits out."""

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The changed logits.

        Arguments:
            logits: (N, V) float32; never changed in place.
            paths: what these N rows have emitted so far.

        Returns:
            (N, V), minus infinity where a token is ruled out.
        """
        ...


@dataclass(frozen=True, slots=True)
class Temperature:
    """Logits divided by a temperature: below 1 sharper, above 1 flatter, 1 changes nothing.

    Arguments:
        value: above 0.

    Raises:
        InputError: for any other value; what 0 would mean is greedy search.

    >>> Temperature(0.5)(torch.tensor([[1.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[2.0, 4.0]]
    """

    value: float

    def __post_init__(self) -> None:
        number("temperature", self.value, above=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """The logits over the temperature."""
        return logits / self.value


@dataclass(frozen=True, slots=True)
class TopK:
    """Only the k most probable tokens; tokens tied with the k-th stay too. k >= V changes nothing.

    Arguments:
        count: k, at least 1.

    Raises:
        InputError: for any other value.

    >>> TopK(1)(torch.tensor([[1.0, 3.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[-inf, 3.0, -inf]]
    """

    count: int

    def __post_init__(self) -> None:
        whole("top_k", self.count, least=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity below the k-th largest logit."""
        if self.count >= logits.shape[-1]:
            return logits
        least = logits.topk(self.count, dim=-1).values[..., -1:]
        return logits.masked_fill(logits < least, -torch.inf)


@dataclass(frozen=True, slots=True)
class TopP:
    """The smallest set of most probable tokens whose probabilities sum to p or more.

    This is nucleus sampling (Holtzman et al. 2020). The most probable token always stays, and so do tokens
    tied with the last one in. p = 1 changes nothing.

    Arguments:
        mass: p, above 0 and at most 1.

    Raises:
        InputError: for any other value.

    >>> TopP(0.6)(torch.tensor([[0.5, 0.3, 0.2]]).log(), Paths.begin(1, "cpu")).isinf().tolist()
    [[False, False, True]]
    """

    mass: float

    def __post_init__(self) -> None:
        number("top_p", self.mass, above=0, most=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity outside the nucleus."""
        if self.mass == 1:
            return logits
        ordered = logits.sort(dim=-1, descending=True).values
        probability = ordered.softmax(dim=-1)
        # A token is in when those ahead of it do not reach p yet; the first has none ahead.
        inside = probability.cumsum(dim=-1) - probability < self.mass
        inside[..., 0] = True
        last = inside.sum(dim=-1, keepdim=True) - 1
        return logits.masked_fill(logits < ordered.gather(-1, last), -torch.inf)


@dataclass(frozen=True, slots=True)
class MinP:
    """Tokens at least `share` times as probable as the most probable one. 0 changes nothing.

    Arguments:
        share: from 0 to 1.

    Raises:
        InputError: for any other value.

    >>> MinP(0.5)(torch.tensor([[0.6, 0.31, 0.09]]).log(), Paths.begin(1, "cpu")).isinf().tolist()
    [[False, False, True]]
    """

    share: float

    def __post_init__(self) -> None:
        number("min_p", self.share, least=0, most=1)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity below the share."""
        if self.share == 0:
            return logits
        # A ratio of probabilities is a difference of logits, so no softmax is needed.
        least = logits.amax(dim=-1, keepdim=True) + math.log(self.share)
        return logits.masked_fill(logits < least, -torch.inf)


@dataclass(frozen=True, slots=True)
class Forbid:
    """These ids never.

    >>> Forbid((0,))(torch.tensor([[1.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[-inf, 2.0]]
    """

    ids: tuple[int, ...]

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity at the ids.

        Raises:
            InputError: for an id that is no token's.
        """
        if self.ids and not 0 <= min(self.ids) <= max(self.ids) < logits.shape[-1]:
            wrong = next(index for index in self.ids if not 0 <= index < logits.shape[-1])
            raise InputError(
                f"token {wrong} is forbidden, and the model has tokens from 0 to {logits.shape[-1] - 1}; forbid none but those"
            )
        return logits.index_fill(-1, torch.tensor(self.ids, dtype=torch.long, device=logits.device), -torch.inf)


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """No end token before `count` other tokens.

    Arguments:
        count: tokens, the end token not among them; at least 0.
        end_id: the end token.

    Raises:
        InputError: for a negative count.

    >>> MinimumLength(1, end_id=1)(torch.tensor([[1.0, 2.0]]), Paths.begin(1, "cpu")).tolist()
    [[1.0, -inf]]
    """

    count: int
    end_id: int

    def __post_init__(self) -> None:
        whole("minimum_length", self.count, least=0)

    def __call__(self, logits: Tensor, paths: Paths) -> Tensor:
        """Minus infinity at the end token while the paths are short."""
        return logits if paths.length >= self.count else Forbid((self.end_id,))(logits, paths)


def forbidden_ids(
    config: DecoderConfig, minimum_length: int, length: int, end_tokens: tuple[int, ...] = ()
) -> tuple[int, ...]:
    """The ids no search emits after `length` tokens: padding, start, and what ends an answer while it is early.

    Where a family uses one id for start or padding and for end, that id is how a sequence ends, and allowed.
    """
    never, ends = {config.padding_id, config.start_id} - {config.end_id}, set(end_tokens or (config.end_id,))
    return tuple(sorted((never | ends) if length < minimum_length else never - ends))


def are_among(tokens: Tensor, ids: tuple[int, ...]) -> Tensor:
    """Which tokens are one of the ids, at least one; bool in the shape of the tokens.

    >>> are_among(torch.tensor([4, 2, 3]), (2, 4)).tolist()
    [True, True, False]
    """
    found = tokens == ids[0]
    for index in ids[1:]:
        found = found | (tokens == index)
    return found
