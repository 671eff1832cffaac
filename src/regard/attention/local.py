"""Local alignment: a softmax inside a window around one place in the source."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.attention.alignments import Alignment, Soft
from regard.attention.inputs import AttentionInputs


class Local(Alignment):
    """The softmax inside a window around a centre p (Luong et al. 2015, section 3.2).

        weights(s) = softmax(score)(s),                                    s in [p - D, p + D] and visible
        weights(s) = softmax(score)(s) * exp(-(s - p)^2 / (2 (D/2)^2))     with `gaussian`

    The centre of each query is `inputs.record["centre"]` (B, H, L), real numbers (*local-p*), or where there is none
    `inputs.query_places`, so that query t looks around place t (*local-m*). Places count from 0 at the first real token.

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
        distance = inputs.key_places[:, None, None, :].to(scores.dtype) - self._centres(inputs, scores)
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
        centre = inputs.record.get("centre")
        if centre is None:
            return inputs.query_places[:, None, :, None].to(scores.dtype)
        if centre.shape != scores.shape[:3]:
            raise ValueError(
                f"the record's centre has shape {tuple(centre.shape)}; queries want {tuple(scores.shape[:3])}"
            )
        return centre.unsqueeze(-1).to(scores.dtype)
