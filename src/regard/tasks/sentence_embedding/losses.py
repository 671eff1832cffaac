"""What a sentence encoder is trained to make of the vectors of a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def ranking_loss(first: Tensor, others: Tensor, *, scale: float, same: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """How hard it is to tell each text's partner from all others in the batch (Henderson et al. 2017, section 4.4).

        loss = - sum_i log softmax_j(scale cos(u_i, v_j))_i

    What a row is compared with is the batch it is in: with larger batches it is harder, and learns more.

    Arguments:
        first: u, (B, D).
        others: v, (C, D), the first B of them the partners, the others texts that belong to none.
        scale: of the cosines.
        same: (B, C) bool, True = not to be told from the partner, because it is the same text, or the first itself.

    Returns:
        The sum over rows; in how many the partner is the nearest.

    >>> loss, right = ranking_loss(torch.eye(2), torch.eye(2), scale=1.0)
    >>> round(loss.item(), 4), right.item()  # 2 log(1 + 1/e)
    (0.6265, 2)
    """
    scores = scale * (F.normalize(first, dim=-1) @ F.normalize(others, dim=-1).T)
    labels = torch.arange(len(first), device=first.device)
    if same is not None:
        partner = F.one_hot(labels, scores.shape[1]).bool()
        scores = scores.masked_fill(same & ~partner, float("-inf"))
    right = (scores.argmax(dim=1) == labels).sum()
    return F.cross_entropy(scores, labels, reduction="sum"), right


def cosine_loss(first: Tensor, second: Tensor, wanted: Tensor) -> Tensor:
    """The squared difference of each pair's cosine from the one wanted, summed (Reimers, Gurevych 2019, section 3).

    Arguments:
        first, second: (B, D).
        wanted: (B,).

    >>> cosine_loss(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]), torch.tensor([0.5])).item()
    0.25
    """
    return (F.cosine_similarity(first, second, dim=-1) - wanted).square().sum()


def triplet_loss(first: Tensor, second: Tensor, third: Tensor, *, margin: float) -> tuple[Tensor, Tensor]:
    """By how much the third text is not farther than the second by a margin, summed (Reimers, Gurevych 2019, section 3).

        loss = sum_i max(0, |u_i - v_i| - |u_i - w_i| + margin)

    Arguments:
        first, second, third: u, v and w, (B, D).

    Returns:
        The sum over rows; in how many the second is nearer than the third.

    >>> u, v, w = torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    >>> [value.item() for value in triplet_loss(u, v, w, margin=1.0)]
    [4.0, 0]
    """
    near, far = (first - second).norm(dim=-1), (first - third).norm(dim=-1)
    return (near - far + margin).clamp_min(0.0).sum(), (near < far).sum()
