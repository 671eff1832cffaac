"""Alignments: how scores become weights.

The softmax over all that is seen (`Soft`), inside a window around one place in the source (`Local`), on one key that is sampled
(`Hard`), or, for memories, with steps to either side of where a head was (`Addressed`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.inputs import AttentionInputs, Reads


class Alignment(nn.Module, ABC):
    """Scores to weights.

    `distribution` declares whether the weights of a query that sees a key are non-negative and sum to one;
    `plain_softmax` whether they are exactly the softmax that PyTorch's fused kernel computes; `drawn` whether `draw` fills the
    record with random numbers; `reads` what it looks for in the record.
    """

    distribution: bool = True
    plain_softmax: bool = False
    drawn: bool = False
    reads: Reads = MappingProxyType({})

    def draw(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """What is random in the weights of these inputs, by name, to be in their record; nothing is by default."""
        return {}

    @abstractmethod
    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Arguments:
            scores: (B, H, L, S).
            visible: bool, broadcastable to (B, H, L, S), True = may attend; None = all.
            inputs: what the scores came from, for alignments that need positions or the record.
        """


class Soft(Alignment):
    """The softmax over the keys a query may see (Bahdanau et al. 2015, equation 6).

        weights_ij = exp(score_ij) / sum_k exp(score_ik),   k over the visible keys

    A query that may attend nowhere gets weights of exactly zero, and passes back a gradient of exactly zero.
    """

    plain_softmax = True

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S)."""
        if visible is None:
            return scores.softmax(dim=-1)
        # The lowest finite number instead of minus infinity: a row with nothing visible stays finite (uniform) here, in
        # the value and in the gradient, and the second fill makes it the zeros it has to be.
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~visible, lowest).softmax(dim=-1).masked_fill(~visible, 0.0)


class Local(Alignment):
    """The softmax inside a window around a centre p (Luong et al. 2015, section 3.2).

        weights(s) = softmax(score)(s),                                    s in [p - D, p + D] and visible
        weights(s) = softmax(score)(s) * exp(-(s - p)^2 / (2 (D/2)^2))     with `gaussian`

    The centre of each query is `inputs.record["centre"]` (B, H, L), real numbers (*local-p*), or where there is none
    `inputs.query_positions`, so that query t looks around place t (*local-m*). Places count from 0 at the first real token.

    With the Gaussian the product is not normalised again, so the weights sum to less than one; and a window may lie wholly
    beyond the source, where they are zero. So neither form is declared a distribution. The window's bounds pass no
    gradient to the centre, only the Gaussian does.

    Arguments:
        window: D, tokens on either side of the centre.
        gaussian: whether weights fall off with the distance from the centre; the deviation is D/2.

    Raises:
        ValueError: for a window below 1.

    >>> record = {"centre": torch.tensor([[[1.5]]])}
    >>> inputs = AttentionInputs(query=torch.zeros(1, 1, 1, 2), key=torch.zeros(1, 1, 5, 2), record=record)
    >>> Local(window=1)(torch.zeros(1, 1, 1, 5), None, inputs).flatten().tolist()
    [0.0, 0.5, 0.5, 0.0, 0.0]
    """

    distribution = False
    reads: Reads = MappingProxyType({"centre": "BHL"})

    def __init__(self, window: int = 10, *, gaussian: bool = False) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window is {window}; it reaches at least 1 token to either side")
        self.window = window
        self.gaussian = gaussian
        self.inside = Soft()

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Raises:
            ValueError: where the shape of the centres is not the queries'.
        """
        distance = inputs.key_positions[:, None, None, :].to(scores.dtype) - self._centres(inputs, scores)
        within = distance.detach().abs() <= self.window
        weights = self.inside(scores, within if visible is None else within & visible, inputs)
        if not self.gaussian:
            return weights
        deviation = self.window / 2
        return weights * torch.exp(-distance.square() / (2 * deviation**2))

    def extra_repr(self) -> str:
        """Window and Gaussian."""
        return f"window={self.window}, gaussian={self.gaussian}"

    def _centres(self, inputs: AttentionInputs, scores: Tensor) -> Tensor:
        """(B, H or 1, L, 1) in the dtype of the scores."""
        centre = inputs.part("centre", self.reads)
        if centre is None:
            return inputs.query_positions[:, None, :, None].to(scores.dtype)
        return centre.unsqueeze(-1).to(scores.dtype)


LOT, MEAN = "lot", "mean"
"""What `Hard.draw` leaves in the record: a number in [0, 1) for each query, (B, H, L) float, and whether the query takes the mean
instead, (B, H, L) bool."""


class Hard(Alignment):
    """All of a query's weight on one key (Xu et al. 2015, section 4.1).

        alpha_i = softmax(score)_i,   s ~ Categorical(alpha),   weight_i = [i = s]

    What is sampled is not the key but a number u in [0, 1): s is the first key up to which the alphas sum to more than u. So
    the same sample means the same wherever padding stands. Without a sample s is the most probable key.

    A key that was sampled passes no gradient back to the scores. They learn by REINFORCE from the log-probability of what was
    sampled (`chosen` finds it again), and with `mean_share` above 0 from the queries that are left soft, whose weights are
    alpha itself: the paper puts the mean in place of samples for half of the images, because that lowers the variance of the
    estimate. The loss of `ShowAttendAndTell` has the term of REINFORCE. In other models the mean alone teaches the scores:
    with a share of 0 they get no gradient.

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
    reads: Reads = MappingProxyType({LOT: "BHL", MEAN: "BHL"})

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
        # Sampled where the generator is, so that one seed means the same on every device.
        own = device if generator is None else generator.device
        lots, coins = torch.rand((2, *shape), generator=generator, device=own).to(device)
        return {LOT: inputs.record.get(LOT, lots), MEAN: inputs.record.get(MEAN, coins < self.mean_share)}

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S): one 1 in each row, or alpha where the mean is taken."""
        alpha = Soft()(scores, visible, inputs)
        weights = F.one_hot(_chosen_by(alpha, inputs.part(LOT, self.reads)), alpha.shape[-1]).to(alpha.dtype)
        if visible is not None:
            weights = weights.masked_fill(~visible, 0.0)
        mean = inputs.part(MEAN, self.reads)
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
    return _chosen_by(alpha, record.get(LOT))


def _chosen_by(alpha: Tensor, lot: Tensor | None) -> Tensor:
    if lot is None:
        return alpha.argmax(dim=-1)
    sums = alpha.detach().cumsum(dim=-1)
    # Of their last sum, which rounding may leave below one: so a key is always found, and never one without probability.
    passed = sums <= lot.to(sums.dtype).unsqueeze(-1) * sums[..., -1:]
    return passed.sum(dim=-1).clamp(max=alpha.shape[-1] - 1)


LEAST = 1e-16
"""Added to a weight before it is raised to a power, so that its logarithm is finite."""


class Addressed(Alignment):
    """How a head of a neural Turing machine moves over its memory (Graves, Wayne, Danihelka 2014, section 3.3, equations 7 to 9).

        wc    = softmax(score)                                       where the content points
        wg    = g wc + (1 - g) w_previous                            interpolation with the weights of the step before
        ws(i) = sum_j wg(i - j) s(j),   j = -r .. r                  a shift, round the ring of all slots
        w(i)  = ws(i)^gamma / sum_k ws(k)^gamma                      sharpening

    With a score of `Cosine`, whose strength is the paper's beta, this is the whole of the paper's figure 2. A shift of s(1) = 1
    moves every weight to the slot after. The ring is of the slots that a query sees, in the order of
    `inputs.key_positions`: so slots that are masked are not there at all. What `w_previous` has on them is dropped, and the
    sharpening makes one of the sum.

    Each query brings, in `inputs.record`: `previous` (B, H, L, S), which need not sum to one; `gate` (B, H, L) in [0, 1]; `shift`
    (B, H, L, 2r + 1), non-negative, from the step -r to the step r; `sharpness` (B, H, L), 1 or more.

    >>> still, nothing = torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
    >>> record = {"previous": torch.tensor([[[[0.0, 0.0, 1.0]]]]), "gate": nothing, "sharpness": still}
    >>> onwards = {"shift": torch.tensor([[[[0.0, 0.0, 1.0]]]])}
    >>> inputs = AttentionInputs(query=torch.zeros(1, 1, 1, 2), key=torch.zeros(1, 1, 3, 2), record=record | onwards)
    >>> Addressed()(torch.zeros(1, 1, 1, 3), None, inputs).round().flatten().tolist()
    [1.0, 0.0, 0.0]
    """

    reads: Reads = MappingProxyType({"previous": "BHLS", "gate": "BHL", "shift": "BHLr", "sharpness": "BHL"})

    def __init__(self) -> None:
        super().__init__()
        self.content = Soft()

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Raises:
            ValueError: where a part of the record is missing, or its shape is not the queries'.
        """
        return self.parts(scores, visible, inputs)[-1]

    def parts(
        self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What the four lines above give one after another: wc, wg, ws and w, each (B, H, L, S).

        Raises:
            ValueError: as `forward`.
        """
        previous, gate, shift, sharpness = (self._part(name, inputs).to(scores.dtype) for name in self.reads)
        gate = gate.unsqueeze(-1)
        content = self.content(scores, visible, inputs)
        gated = torch.lerp(previous, content, gate)
        if visible is None and inputs.positions.keys_in_order:
            moved = _shifted(gated, shift)
        else:
            moved = _shifted_among(gated, shift, visible, inputs.key_positions)
        # The softmax of gamma log w is w^gamma over its sum, and no power of a small number is lost in it.
        weights = self.content(sharpness.unsqueeze(-1) * (moved + LEAST).log(), visible, inputs)
        return content, gated, moved, weights

    def _part(self, name: str, inputs: AttentionInputs) -> Tensor:
        part = inputs.part(name, self.reads)
        if part is None:
            raise ValueError(f"addressing wants record[{name!r}]; give {', '.join(self.reads)}")
        if name == "shift" and part.shape[-1] % 2 == 0:
            raise ValueError(f"the record's shift has shape {tuple(part.shape)}; its steps are an odd number")
        return part


def _shifted(weights: Tensor, shift: Tensor) -> Tensor:
    """Circular convolution along the last axis: (..., S) and (..., 2r + 1) to (..., S)."""
    reach = shift.shape[-1] // 2
    slots = weights.shape[-1]
    if reach >= slots:  # a step longer than the ring
        places = torch.arange(slots, device=weights.device)
        steps = torch.arange(-reach, reach + 1, device=weights.device)
        from_where = (places[:, None] - steps) % max(slots, 1)
        return (weights[..., from_where] * shift.unsqueeze(-2)).sum(dim=-1)
    ring = torch.cat((weights[..., slots - reach :], weights, weights[..., :reach]), dim=-1)
    # Window i holds the slots i - r .. i + r; what arrives at i by a step j comes from i - j.
    return (ring.unfold(-1, 2 * reach + 1, 1) * shift.flip(-1).unsqueeze(-2)).sum(dim=-1)


def _shifted_among(weights: Tensor, shift: Tensor, visible: Tensor | None, positions: Tensor) -> Tensor:
    """The same round the ring of the visible slots alone, in the order of their places."""
    slots = weights.shape[-1]
    places = positions[:, None, None, :].expand(weights.shape)
    seen = torch.ones_like(weights, dtype=torch.bool) if visible is None else visible.expand(weights.shape)
    order = places.masked_fill(~seen, torch.iinfo(places.dtype).max).argsort(dim=-1, stable=True)
    ring = weights.masked_fill(~seen, 0.0).gather(-1, order)
    size = seen.sum(dim=-1, keepdim=True)
    reach = shift.shape[-1] // 2
    moved = torch.zeros_like(ring)
    place = torch.arange(slots, device=weights.device)
    for step in range(-reach, reach + 1):
        from_where = torch.remainder(place - step, size.clamp_min(1))  # beyond the ring: of no meaning, and masked
        moved = moved + shift[..., step + reach, None] * ring.gather(-1, from_where)
    return torch.zeros_like(moved).scatter(-1, order, moved)
