"""The loss over a large vocabulary against some of its words: for training; what is measured is measured against all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def drawn_words(vocabulary: int, tries: int, *, key: tuple[int, int]) -> np.ndarray:
    """Different words, drawn so often, the commonest most often; those drawn twice count once.

        P(word v) = log((v + 2) / (v + 1)) / log(V + 1)            v = 0 the commonest (Zipf's law)

    Arguments:
        vocabulary: V; words are numbered from the commonest to the rarest.
        tries: T, how often to draw.
        key: what decides the draw.

    Returns:
        (S,) int64, ascending, S at most T.
    """
    uniform = np.random.Generator(np.random.Philox(key=list(key))).random(tries)
    drawn = np.exp(uniform * np.log(vocabulary + 1)).astype(np.int64) - 1
    return np.unique(drawn.clip(0, vocabulary - 1))


def chance_of_being_drawn(words: Tensor, vocabulary: int, tries: int) -> Tensor:
    """1 - (1 - P(v))^T, of each word v in any shape, float32."""
    v = words.double()
    once = torch.log((v + 2) / (v + 1)) / np.log(vocabulary + 1)
    return -torch.expm1(tries * torch.log1p(-once)).float()


def sampled_cross_entropy(
    labels: Tensor, words: Tensor, *, valid: Tensor, tries: int
) -> Callable[[Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]:
    """Cross-entropy over the right word and some that were drawn, as a function of h, W and b (Jean et al. 2015, section 3).

        z_v = w_v h + b_v - log Q(v),   loss = - log( exp z_y / (exp z_y + sum over drawn v other than y of exp z_v) )

    Q(v) is the chance that v is among the words drawn, which takes the preference for common words out again.

    Arguments:
        labels: (...) int64, y.
        words: (S,) int64, as `drawn_words` gives them.
        valid: (...) bool, True = the label counts.
        tries: T of the draw.

    Returns:
        A function of h (..., D), W (V, D) and b (V,) or None, as `projected_cross_entropy`: the sum over labels, and in how many
        of them the right word's logit is larger than every other.
    """

    def loss(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
        kept = valid.flatten()
        h, y = hidden.flatten(0, -2)[kept], labels.flatten()[kept]
        size = weight.shape[0]
        offset = weight.new_zeros(size) if bias is None else bias
        others = F.linear(h, weight[words], offset[words]).float()
        others = others - chance_of_being_drawn(words, size, tries).log()
        others = others.masked_fill(words == y.unsqueeze(1), -torch.inf)
        right = ((h * weight[y]).sum(dim=-1) + offset[y]).float() - chance_of_being_drawn(y, size, tries).log()
        both = torch.cat((right.unsqueeze(1), others), dim=1)
        total = (both.logsumexp(dim=1) - right).sum()
        return total, (right > others.amax(dim=1)).sum() if len(words) else torch.tensor(len(y))

    return loss
