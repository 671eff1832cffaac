"""The best passages of a window by the logits of their first and last token."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class BestSpans(NamedTuple):
    """The best passages of each window, the best first.

    Arguments:
        scores: (B, N) float32, the sum of the two logits; -inf where a window has fewer passages.
        starts, ends: (B, N) int64, the places of the first and the last token.
    """

    scores: Tensor
    starts: Tensor
    ends: Tensor


def best_spans(
    start: Tensor, end: Tensor, *, may_start: Tensor, may_end: Tensor, maximum: int, count: int
) -> BestSpans:
    """The passages with the highest scores (Devlin et al. 2019, section 4.2).

        score(i, j) = start_i + end_j,   i <= j < i + maximum

    All pairs that are allowed are compared, as a band beside the diagonal. The authors' code compares those of the best `count`
    starts and the best `count` ends, which may miss the best pair.

    Arguments:
        start, end: (B, L), the logits.
        may_start, may_end: (B, L) bool, True = a passage may begin, or end, with this token.
        maximum: the most tokens of a passage.
        count: the most passages of a window.

    >>> start, end, every = torch.tensor([[0.0, 2.0, 1.0]]), torch.tensor([[3.0, 0.0, 1.0]]), torch.ones(1, 3, dtype=torch.bool)
    >>> found = best_spans(start, end, may_start=every, may_end=every, maximum=2, count=2)
    >>> found.starts.tolist(), found.ends.tolist(), found.scores.tolist()
    ([[0, 1]], [[0, 2]], [[3.0, 3.0]])
    """
    length = start.shape[1]
    width = min(maximum, length)
    first = start.float().masked_fill(~may_start, -torch.inf)
    last = F.pad(end.float().masked_fill(~may_end, -torch.inf), (0, width - 1), value=-torch.inf)
    scores = first.unsqueeze(2) + last.unfold(1, width, 1)  # at [b, i, d] of the passage from i to i + d
    found, places = scores.flatten(1).topk(min(count, length * width))
    starts = places // width
    return BestSpans(found, starts, starts + places % width)
