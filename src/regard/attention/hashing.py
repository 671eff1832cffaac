"""Locality-sensitive hashing: near vectors in one bucket, far ones in different buckets."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def draw_rotations(
    width: int, *, heads: int, rounds: int, buckets: Sequence[int], generator: torch.Generator | None = None
) -> Tensor:
    """The matrices R that decide which vectors fall together, drawn from a standard normal distribution.

    Arguments:
        width: E, of the vectors.
        heads: H, each with rotations of its own.
        rounds: N, how often all are hashed.
        buckets: as in `buckets_by_rotation`.
        generator: where None, torch's own.

    Returns:
        (H, E, N, sum(buckets) / 2) float32, where the generator is.

    >>> draw_rotations(8, heads=2, rounds=3, buckets=(4, 6)).shape
    torch.Size([2, 8, 3, 5])
    """
    device = None if generator is None else generator.device
    return torch.randn(heads, width, rounds, sum(buckets) // 2, generator=generator, device=device)


def buckets_by_rotation(vectors: Tensor, rotations: Tensor, buckets: Sequence[int]) -> Tensor:
    """The bucket of each vector in each round (Kitaev et al. 2020, section 2, "locality-sensitive hashing").

        h(x) = argmax [x R ; -x R],   R (E, b / 2)

    With several numbers b_1, b_2, ... a vector is hashed by each and its bucket is h_1 + b_1 h_2 + ..., one of their product:
    so many buckets for so few columns of R. The length of a vector does not matter.

    Arguments:
        vectors: (B, H, S, E).
        rotations: (B, H, E, N, sum(buckets) / 2), or with a B of 1.
        buckets: even numbers.

    Returns:
        (B, H, N, S) int64.

    >>> axes = torch.eye(2).view(1, 1, 2, 1, 2)
    >>> buckets_by_rotation(torch.tensor([[[[3.0, 1.0], [0.0, 0.1], [-1.0, 0.5]]]]), axes, (4,)).tolist()
    [[[[0, 1, 2]]]]
    """
    rounds = rotations.shape[3]
    with torch.no_grad(), torch.autocast(vectors.device.type, enabled=False):
        turned = vectors.to(rotations.dtype) @ rotations.flatten(3)  # (B, H, S, N * columns)
        turned = turned.unflatten(-1, (rounds, -1)).transpose(2, 3)
        found = torch.zeros(turned.shape[:-1], dtype=torch.int64, device=vectors.device)
        first, product = 0, 1
        for count in buckets:
            part = turned[..., first : first + count // 2]
            found += product * _argmax_both_signs(part)
            first += count // 2
            product *= count
    return found


def _argmax_both_signs(x: Tensor) -> Tensor:
    """Argmax [x ; -x] along the last axis: where x is farthest from zero, and on which side."""
    place = x.abs().max(dim=-1, keepdim=True).indices
    return (place + (x.gather(-1, place) < 0) * x.shape[-1]).squeeze(-1)


def usual_buckets(length: int, chunk: int) -> tuple[int, ...]:
    """How many buckets a length wants: 2 l / m, so that each holds half a chunk, as a power of two.

    So the paper's m = 2 l / b, read the other way round (section 2). Where there would be more than twice a chunk's length, and
    more than two for each square root of l / m, they are two factors.

    Arguments:
        length: l, of the longest text, in tokens.
        chunk: m, in tokens.

    >>> usual_buckets(4096, 64), usual_buckets(65_536, 64), usual_buckets(10, 64)
    ((128,), (32, 64), (2,))
    """
    power = max((2 * (length // chunk)).bit_length() - 1, 1)
    limit = 2 * max(math.isqrt(max(length // chunk, 1)), chunk)
    return (2**power,) if 2**power <= limit else (2 ** (power // 2), 2 ** (power - power // 2))
