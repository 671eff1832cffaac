"""The addressing of memories: from where the content points, with steps to either side of where a head was."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.alignments import Alignment, Soft
from regard.attention.inputs import AttentionInputs

LEAST = 1e-16
"""Added to a weight before it is raised to a power, so that its logarithm is finite."""

PARTS = ("previous", "gate", "shift", "sharpness")


class Addressed(Alignment):
    """How a head of a neural Turing machine moves over its memory (Graves, Wayne, Danihelka 2014, section 3.3, equations 7 to 9).

        wc    = softmax(score)                                       where the content points
        wg    = g wc + (1 - g) w_previous                            interpolation with the weights of the step before
        ws(i) = sum_j wg(i - j) s(j),   j = -r .. r                  a shift, round the ring of all slots
        w(i)  = ws(i)^gamma / sum_k ws(k)^gamma                      sharpening

    With a score of `Cosine`, whose strength is the paper's beta, this is the whole of the paper's figure 2. A shift of s(1) = 1
    moves every weight to the slot after. The ring is of the slots that a query sees, in the order of `inputs.key_positions` where
    there are any: so slots that are masked are not there at all. What `w_previous` has on them is dropped, and the sharpening
    makes one of the sum.

    Each query brings, in `inputs.record`: `previous` (B, H, L, S), which need not sum to one; `gate` (B, H, L) in [0, 1]; `shift`
    (B, H, L, 2r + 1), non-negative, from the step -r to the step r; `sharpness` (B, H, L), 1 or more.

    >>> still, nothing = torch.ones(1, 1, 1), torch.zeros(1, 1, 1)
    >>> record = {"previous": torch.tensor([[[[0.0, 0.0, 1.0]]]]), "gate": nothing, "sharpness": still}
    >>> onwards = {"shift": torch.tensor([[[[0.0, 0.0, 1.0]]]])}
    >>> inputs = AttentionInputs(query=torch.zeros(1, 1, 1, 2), key=torch.zeros(1, 1, 3, 2), record=record | onwards)
    >>> Addressed()(torch.zeros(1, 1, 1, 3), None, inputs).round().flatten().tolist()
    [1.0, 0.0, 0.0]
    """

    def __init__(self) -> None:
        super().__init__()
        self.content = Soft()

    def forward(self, scores: Tensor, visible: Tensor | None, inputs: AttentionInputs) -> Tensor:
        """Scores (B, H, L, S) to weights (B, H, L, S).

        Raises:
            ValueError: where a part of the record is missing, or its shape is not the queries'.
        """
        previous, gate, shift, sharpness = _parts(inputs, scores)
        gate = gate.unsqueeze(-1)
        gated = torch.lerp(previous, self.content(scores, visible, inputs), gate)
        if visible is None and inputs.key_positions is None:
            moved = _shifted(gated, shift)
        else:
            moved = _shifted_among(gated, shift, visible, inputs.key_positions)
        # The softmax of gamma log w is w^gamma over its sum, and no power of a small number is lost in it.
        return self.content(sharpness.unsqueeze(-1) * (moved + LEAST).log(), visible, inputs)


def _parts(inputs: AttentionInputs, scores: Tensor) -> list[Tensor]:
    """The record's parts in the dtype of the scores, in the order of `PARTS`."""
    queries, slots = tuple(scores.shape[:3]), scores.shape[3]
    found = []
    for name in PARTS:
        part = inputs.record.get(name)
        if part is None:
            raise ValueError(f"addressing wants record[{name!r}]; give {', '.join(PARTS)}")
        after = {"previous": (slots,), "shift": tuple(part.shape[3:])}.get(name, ())
        if tuple(part.shape) != (*queries, *after) or (name == "shift" and (len(after) != 1 or not after[0] % 2)):
            wanted = {"previous": "(B, H, L, S)", "shift": "(B, H, L, an odd number)"}.get(name, "(B, H, L)")
            raise ValueError(
                f"the record's {name} has shape {tuple(part.shape)}; scores {tuple(scores.shape)} want {wanted}"
            )
        found.append(part.to(scores.dtype))
    return found


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


def _shifted_among(weights: Tensor, shift: Tensor, visible: Tensor | None, positions: Tensor | None) -> Tensor:
    """The same round the ring of the visible slots alone, in the order of their places."""
    slots = weights.shape[-1]
    places = torch.arange(slots, device=weights.device).expand(weights.shape)
    if positions is not None:
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
