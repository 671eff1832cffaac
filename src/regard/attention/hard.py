"""Hard attention: each query looks at one key, drawn by the probabilities that soft attention would weigh with."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.alignments import Alignment, Soft
from regard.attention.inputs import AttentionInputs

LOT, MEAN = "lot", "mean"
"""What `Hard.draw` leaves in the record: a number in [0, 1) for each query, (B, H, L) float, and whether the query takes the mean
instead, (B, H, L) bool."""


class Hard(Alignment):
    """All of a query's weight on one key (Xu et al. 2015, section 4.1).

        alpha_i = softmax(score)_i,   s ~ Categorical(alpha),   weight_i = [i = s]

    What is drawn is not the key but a number u in [0, 1): s is the first key up to which the alphas sum to more than u. So the
    same draw means the same wherever padding stands. Without a draw s is the most probable key.

    A key that was drawn passes no gradient back to the scores. They learn by REINFORCE from the log-probability of what was drawn
    (`chosen` finds it again), and with `mean_share` above 0 from the queries that are left soft, whose weights are alpha itself:
    the paper puts the mean in place of samples for half of the pictures, because that lowers the variance of the estimate. The
    loss of `ShowAttendAndTell` has the term of REINFORCE. In other models the mean alone teaches the scores: with a share of 0
    they get no gradient.

    Arguments:
        mean_share: the probability that a query takes the mean, in [0, 1].

    >>> from regard.attention import Dot, ScoredAttention
    >>> attention = ScoredAttention(Dot(), Hard())
    >>> inputs = AttentionInputs(query=torch.ones(1, 1, 1, 1), key=torch.tensor([1.0, 3.0, 2.0]).view(1, 1, 3, 1))
    >>> attention.weights(inputs).tolist()
    [[[[0.0, 1.0, 0.0]]]]
    >>> drawn = attention.draw(inputs, torch.Generator().manual_seed(1))
    >>> attention.weights(drawn).sum().item()
    1.0
    """

    drawn = True

    def __init__(self, mean_share: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= mean_share <= 1.0:
            raise ValueError(f"mean_share is {mean_share}; it must lie in [0, 1]")
        self.mean_share = mean_share

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """A lot for each query, and which of them take the mean; by torch's own generator where None is given.

        What the record says already stays: a decoder that asks step by step may want all words of a caption alike.
        """
        shape, device = inputs.shape[:3], inputs.query.device
        # Drawn where the generator is, so that one seed means the same on every device.
        own = device if generator is None else generator.device
        lots, coins = torch.rand((2, *shape), generator=generator, device=own).to(device)
        return {LOT: inputs.record.get(LOT, lots), MEAN: inputs.record.get(MEAN, coins < self.mean_share)}

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S): one 1 in each row, or alpha where the mean is taken."""
        alpha = Soft()(scores, visible, inputs)
        weights = F.one_hot(chosen(alpha, inputs.record), alpha.shape[-1]).to(alpha.dtype)
        if visible is not None:
            weights = weights.masked_fill(~visible, 0.0)
        mean = inputs.record.get(MEAN)
        return weights if mean is None else torch.where(mean.unsqueeze(-1), alpha, weights)

    def extra_repr(self) -> str:
        """The share of queries that take the mean, where there are any."""
        return f"mean_share={self.mean_share}" if self.mean_share else ""


def chosen(alpha: Tensor, record: Mapping[str, Tensor]) -> Tensor:
    """The key s that each query looks at, (B, H, L) int64: by its lot, or the most probable where there is none.

    Arguments:
        alpha: (B, H, L, S), probabilities of keys; all zero for a query that may attend nowhere, whose key means nothing then.
        record: of the attention's inputs.

    >>> chosen(torch.tensor([[[[0.0, 0.25, 0.75, 0.0]]]]), {LOT: torch.tensor([[[0.2]]])}).item()
    1
    >>> chosen(torch.tensor([[[[0.0, 0.25, 0.75, 0.0]]]]), {LOT: torch.tensor([[[0.3]]])}).item()
    2
    """
    lot = record.get(LOT)
    if lot is None:
        return alpha.argmax(dim=-1)
    sums = alpha.detach().cumsum(dim=-1)
    # Of their last sum, which rounding may leave below one: so a key is always found, and never one without probability.
    passed = sums <= lot.to(sums.dtype).unsqueeze(-1) * sums[..., -1:]
    return passed.sum(dim=-1).clamp(max=alpha.shape[-1] - 1)
