"""Whether a captioner looks where the things are that it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.scenes import Named
from regard.models.captioning import PictureDecoder
from regard.tasks.captioning.objective import uncovered
from regard.tasks.captioning.task import CaptionBatch


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointing:
    """Counts over captions, which add up.

    Arguments:
        inside, tokens: of the tokens that name something, those whose largest weight is on a place in it; and all of them.
        uncovered: the sum over captions of (1 - sum_t alpha_ti)^2, as a mean over places i.
        captions: how many.
    """

    inside: int = 0
    tokens: int = 0
    uncovered: float = 0.0
    captions: int = 0

    def __add__(self, other: Pointing) -> Pointing:
        return Pointing(
            inside=self.inside + other.inside,
            tokens=self.tokens + other.tokens,
            uncovered=self.uncovered + other.uncovered,
            captions=self.captions + other.captions,
        )

    def metrics(self) -> dict[str, float]:
        """`pointing`, the share of the tokens, where any name something; `uncovered`, the mean over captions."""
        found = {"pointing": self.inside / self.tokens} if self.tokens else {}
        return found | ({"uncovered": self.uncovered / self.captions} if self.captions else {})


@torch.no_grad()
def pointed(model: PictureDecoder, batch: CaptionBatch, named: Sequence[Sequence[Named]]) -> Pointing:
    """Count on a batch of captions that the model is given, and does not write itself.

    A token's place is the one with the largest weight; it is inside a thing if its middle is inside the box, in the right frame.
    The weights are those before hard attention draws. Nothing is counted of a model without attention.

    Arguments:
        model: in evaluation mode.
        batch: right captions.
        named: of each, what its tokens name.
    """
    told = model(batch.pictures, batch.target, attended=True)
    if told.weights is None or told.places is None:
        return Pointing()
    best = told.weights.argmax(dim=-1).cpu().numpy()
    middles = middles_of(model, batch.pictures.valid.shape[1])
    hits = [
        _inside(middles[best[row, token]], thing)
        for row, things in enumerate(named)
        for thing in things
        for token in range(*thing.words)
    ]
    left = uncovered(told.weights, batch.target.valid, told.places) / told.places.sum(dim=1)
    return Pointing(inside=sum(hits), tokens=len(hits), uncovered=float(left.sum()), captions=len(left))


def middles_of(model: PictureDecoder, frames: int) -> np.ndarray:
    """The frame and the middle of each place, down and to the right in pixels of that frame: (S, 3) float."""
    rows, columns = model.grid
    _, height, width = model.encoder.size
    row, frame, column = np.meshgrid(np.arange(rows), np.arange(frames), np.arange(columns), indexing="ij")
    middles = (frame, (row + 0.5) * height / rows, (column + 0.5) * width / columns)
    return np.stack([axis.reshape(-1) for axis in middles], axis=1)


def _inside(middle: np.ndarray, thing: Named) -> bool:
    frame, down, right = middle.tolist()
    top, left, bottom, after = thing.box
    return frame == thing.frame and top <= down < bottom and left <= right < after


def in_batches(count: int, size: int = 64) -> Iterator[range]:
    """Rows 0 to `count`, so many at a time."""
    return (range(start, min(start + size, count)) for start in range(0, count, size))
