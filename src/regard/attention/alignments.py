"""Alignments: how scores become weights.

The softmax over all visible keys (`Soft`), the softmax in a window around one source position (`Local`), all weight on one
sampled key (`Hard`), or, for a neural Turing machine, a shift of the previous weights (`Addressed`).
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
    """Turns scores into attention weights.

    Class attributes declare what an alignment does. `distribution`: the weights of a query with a visible key are non-negative
    and sum to one. `plain_softmax`: they are exactly the softmax that PyTorch's fused kernel computes. `sampled`: `sample`
    samples random numbers into the record. `reads`: the tensors that it reads from the record, and their axes.
    """

    distribution: bool = True
    plain_softmax: bool = False
    sampled: bool = False
    reads: Reads = MappingProxyType({})

    def sample(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """Sample the random tensors that the weights depend on, by name, for the inputs' record. By default there are none."""
        return {}

    @abstractmethod
    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Arguments:
            scores: (B, H, L, S).
            visible: bool, broadcastable to (B, H, L, S), True = may attend; None = all.
            inputs: the inputs that the scores were computed from, for alignments that need positions or the record.
        """


class Soft(Alignment):
    """The softmax over the visible keys (Bahdanau et al. 2015, equation 6).

        weights_ij = exp(score_ij) / sum_k exp(score_ik),   k over the visible keys

    A query without a visible key gets weights of exactly zero, and its gradient is exactly zero.
    """

    plain_softmax = True

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S)."""
        if visible is None:
            return scores.softmax(dim=-1)
        # The lowest finite number instead of minus infinity: for a query without a visible key the softmax and its gradient stay
        # finite (uniform weights), and the second fill sets these weights to zero.
        lowest = torch.finfo(scores.dtype).min
        return scores.masked_fill(~visible, lowest).softmax(dim=-1).masked_fill(~visible, 0.0)


class Local(Alignment):
    """The softmax inside a window around a centre p (Luong et al. 2015, section 3.2).

        weights(s) = softmax(score)(s),                                    s in [p - D, p + D] and visible
        weights(s) = softmax(score)(s) * exp(-(s - p)^2 / (2 (D/2)^2))     with `gaussian`

    The centre of each query is `inputs.record["centre"]`, (B, H, L) float (*local-p*). Without it the centre is
    `inputs.query_positions`: query t looks around source position t (*local-m*). Positions count from 0 at the first real token.

    With the Gaussian the product is not normalised again, so the weights sum to less than one. A window can also lie completely
    outside the source; then all its weights are zero. So neither form is declared a distribution. The gradient reaches the
    centre only through the Gaussian, not through the bounds of the window.

    Arguments:
        window: D, tokens on either side of the centre.
        gaussian: whether weights decrease with the distance from the centre; the standard deviation is D/2.

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
            raise ValueError(f"window is {window}; it must be at least 1 token")
        self.window = window
        self.gaussian = gaussian
        self.inside = Soft()

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Raises:
            ValueError: if the centres do not have the shape (B, H, L).
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
"""What `Hard.sample` adds to the record: a uniform sample in [0, 1) for each query, (B, H, L) float, and whether the query uses
the mean instead, (B, H, L) bool."""


class Hard(Alignment):
    """All of a query's weight on one key (Xu et al. 2015, section 4.1).

        alpha_i = softmax(score)_i,   s ~ Categorical(alpha),   weight_i = [i = s]

    The record holds a uniform sample u in [0, 1) instead of the key: s is the first key at which the cumulative sum of alpha
    exceeds u. So the same u selects the same token wherever the padding is. Without u, s is the most probable key.

    A sampled key gives the scores no gradient. The scores are trained by REINFORCE, with the log-probability of the sampled key
    (`chosen` computes the key again). With `mean_share` above 0 some queries use the weights alpha instead, as in the paper,
    which uses the mean for half of the images because this lowers the variance of the estimate. The loss of `ShowAttendAndTell`
    has the REINFORCE term. Other models have no such term: there only the queries that use the mean train the scores, and with
    `mean_share` 0 the scores get no gradient.

    Arguments:
        mean_share: the probability that a query uses the mean, in [0, 1].

    >>> from regard.attention import Dot, ScoredAttention
    >>> attention = ScoredAttention(Dot(), Hard())
    >>> inputs = AttentionInputs(query=torch.ones(1, 1, 1, 1), key=torch.tensor([1.0, 3.0, 2.0]).view(1, 1, 3, 1))
    >>> attention.weights(inputs).tolist()
    [[[[0.0, 1.0, 0.0]]]]
    >>> sampled = attention.sample(inputs, torch.Generator().manual_seed(1))
    >>> attention.weights(sampled).sum().item()
    1.0
    """

    sampled = True
    reads: Reads = MappingProxyType({LOT: "BHL", MEAN: "BHL"})

    def __init__(self, mean_share: float = 0.0) -> None:
        super().__init__()
        if not 0.0 <= mean_share <= 1.0:
            raise ValueError(f"mean_share is {mean_share}; it must lie in [0, 1]")
        self.mean_share = mean_share

    def sample(self, inputs: AttentionInputs, generator: torch.Generator | None = None) -> Mapping[str, Tensor]:
        """A uniform sample for each query, and which queries use the mean. The default generator is torch's.

        Tensors that the record already holds are kept: a decoder that attends step by step can use one choice for a caption.
        """
        shape, device = inputs.shape[:3], inputs.query.device
        # Sampled where the generator is, so that one seed means the same on every device.
        own = device if generator is None else generator.device
        lots, coins = torch.rand((2, *shape), generator=generator, device=own).to(device)
        return {LOT: inputs.record.get(LOT, lots), MEAN: inputs.record.get(MEAN, coins < self.mean_share)}

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S): a one-hot vector for each query, or alpha if it uses the mean."""
        alpha = Soft()(scores, visible, inputs)
        weights = F.one_hot(_chosen_by(alpha, inputs.part(LOT, self.reads)), alpha.shape[-1]).to(alpha.dtype)
        if visible is not None:
            weights = weights.masked_fill(~visible, 0.0)
        mean = inputs.part(MEAN, self.reads)
        return weights if mean is None else torch.where(mean.unsqueeze(-1), alpha, weights)

    def extra_repr(self) -> str:
        """The share of queries that use the mean, if it is not 0."""
        return f"mean_share={self.mean_share}" if self.mean_share else ""


def chosen(alpha: Tensor, record: Mapping[str, Tensor]) -> Tensor:
    """The key s that each query selects, (B, H, L) int64: by the sample in the record, or the most probable key without one.

    Arguments:
        alpha: (B, H, L, S), probabilities of keys. For a query without a visible key they are all zero, and s has no meaning.
        record: the record of the attention's inputs.

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
    # Compare with u times the last sum, which rounding can make less than one: so s is always a key with a probability above 0.
    passed = sums <= lot.to(sums.dtype).unsqueeze(-1) * sums[..., -1:]
    return passed.sum(dim=-1).clamp(max=alpha.shape[-1] - 1)


LEAST = 1e-16
"""Added to a weight before it is raised to a power, so that its logarithm is finite."""


class Addressed(Alignment):
    """How a head of a neural Turing machine moves over its memory (Graves, Wayne, Danihelka 2014, section 3.3, equations 7 to 9).

        wc    = softmax(score)                                       addressing by content
        wg    = g wc + (1 - g) w_previous                            interpolation with the weights of the step before
        ws(i) = sum_j wg(i - j) s(j),   j = -r .. r                  a circular shift over the slots
        w(i)  = ws(i)^gamma / sum_k ws(k)^gamma                      sharpening

    With the score `Cosine`, whose strength is the paper's beta, this is the complete figure 2 of the paper. s(1) = 1 moves every
    weight to the next slot. The shift is circular over the visible slots, in the order of `inputs.key_positions`; masked slots
    are skipped. Weight that `w_previous` has on masked slots is dropped, and the sharpening normalises the rest to sum to one.

    `inputs.record` holds, for each query: `previous` (B, H, L, S), which need not sum to one; `gate` (B, H, L) in [0, 1]; `shift`
    (B, H, L, 2r + 1), non-negative, from shift -r to shift r; `sharpness` (B, H, L), 1 or more.

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
            ValueError: if a tensor is missing in the record, or its shape does not fit the queries.
        """
        return self.parts(scores, visible, inputs)[-1]

    def parts(
        self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The results of the four equations above: wc, wg, ws and w, each (B, H, L, S).

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
        # The softmax of gamma log w equals w^gamma over its sum, but a power of a small weight does not underflow.
        weights = self.content(sharpness.unsqueeze(-1) * (moved + LEAST).log(), visible, inputs)
        return content, gated, moved, weights

    def _part(self, name: str, inputs: AttentionInputs) -> Tensor:
        part = inputs.part(name, self.reads)
        if part is None:
            raise ValueError(f"record[{name!r}] is missing; this alignment needs {', '.join(self.reads)}")
        if name == "shift" and part.shape[-1] % 2 == 0:
            raise ValueError(f"the record's shift has shape {tuple(part.shape)}; its last axis must have an odd size")
        return part


def _shifted(weights: Tensor, shift: Tensor) -> Tensor:
    """Circular convolution along the last axis: (..., S) and (..., 2r + 1) to (..., S)."""
    reach = shift.shape[-1] // 2
    slots = weights.shape[-1]
    if reach >= slots:  # a shift by more than the number of slots
        places = torch.arange(slots, device=weights.device)
        steps = torch.arange(-reach, reach + 1, device=weights.device)
        from_where = (places[:, None] - steps) % max(slots, 1)
        return (weights[..., from_where] * shift.unsqueeze(-2)).sum(dim=-1)
    ring = torch.cat((weights[..., slots - reach :], weights, weights[..., :reach]), dim=-1)
    # Window i holds the slots i - r .. i + r; a shift by j moves the weight of slot i - j to slot i.
    return (ring.unfold(-1, 2 * reach + 1, 1) * shift.flip(-1).unsqueeze(-2)).sum(dim=-1)


def _shifted_among(weights: Tensor, shift: Tensor, visible: Tensor | None, positions: Tensor) -> Tensor:
    """The same circular convolution over the visible slots only, in the order of their positions."""
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
        from_where = torch.remainder(place - step, size.clamp_min(1))  # undefined for masked slots, and masked later
        moved = moved + shift[..., step + reach, None] * ring.gather(-1, from_where)
    return torch.zeros_like(moved).scatter(-1, order, moved)
