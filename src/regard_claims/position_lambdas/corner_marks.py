"""Digits with a mark in one of four corners: how much of a lambda layer is told by position, and how much by content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from regard.attention import Lambdas
from regard.data.images import fitted
from regard.data.labelled_images import LabelledImage, read_labelled_images
from regard.models.config import check
from regard.tasks.image_classification import evaluate_images
from regard.tasks.loading import load
from regard_claims.shared import check_counts, learning, trained

SIDE, MARK, EDGE = 32, 4, 4
"""Of a picture, of the square mark, and pixels between the mark and the nearest edges."""

CORNERS = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True, kw_only=True, slots=True)
class CornerMarks:
    """One lambda layer over the 8 x 8 places that two convolutions leave of a picture.

    A picture is a digit in the middle and a white square in one corner; its class is both, as `7 top left`. The four marks are
    the same and the model's output is a mean over places, so which corner it is can be told only from where things are: by
    lambdas of position, or by the convolutions, whose borders of zeros tell it, too.

    Arguments:
        path: a folder with MNIST's files; scikit-learn's digits, enlarged, where null.
        lambdas: which there are.
        size, test_size: pictures to learn from and to test on, drawn with the seed; at most all.
        steps, batch: updates, and pictures of each.
        learning_rate: of AdamW, at its peak.
        width, key_width, heads: of the lambda layer.
        convolutions: channels of the two blocks in front.

    Raises:
        InputError: for numbers that are too small.
    """

    precision: ClassVar[str] = "float32"
    path: str | None = None
    lambdas: Lambdas = "both"
    size: int = 60_000
    test_size: int = 10_000
    steps: int = 2_000
    batch: int = 64
    learning_rate: float = 2e-3
    width: int = 64
    key_width: int = 16
    heads: int = 4
    convolutions: tuple[int, int] = (16, 32)

    def __post_init__(self) -> None:
        check(self.size >= 200, "experiment.size", self.size, "at least 200", "raise it")
        check_counts(self, "test_size", "steps", "batch")

    @property
    def measures(self) -> tuple[str, ...]:
        """In per cent: digit and corner right, and each by itself."""
        return ("accuracy", "digit", "corner")

    def run(self, seed: int) -> dict[str, float]:
        """Train the network, and measure it.

        Raises:
            InputError: for a folder without MNIST's files.
        """
        generator = np.random.Generator(np.random.Philox(key=[seed, 0xC0E7]))
        learnt = _drawn(read_labelled_images(self.path, "train", colour=False), self.size, generator)
        test = _drawn(read_labelled_images(self.path, "test", colour=False), self.test_size, generator)
        with trained(
            "image_classification",
            {
                "name": "lambda_network",
                "lambdas": self.lambdas,
                "width": self.width,
                "key_width": self.key_width,
                "heads": self.heads,
                "convolutions": list(self.convolutions),
            },
            learnt,
            seed=seed,
            training={
                **learning(self, self.batch),
                "betas": [0.9, 0.999],
                "epsilon": 1e-8,
                "warmup": min(100, self.steps),
            },
        ) as folder:
            found = evaluate_images(load(folder, task="image_classification"), test).predictions
        pairs = [(told.label, each.label) for told, each in zip(found, test, strict=True)]
        parts = [(told.split(" ", 1), right.split(" ", 1)) for told, right in pairs]
        return {
            "accuracy": _share([told == right for told, right in pairs]),
            "digit": _share([told[0] == right[0] for told, right in parts]),
            "corner": _share([told[1] == right[1] for told, right in parts]),
        }


def marked(digit: np.ndarray, corner: int) -> np.ndarray:
    """A digit (Y, X) in the middle of a black picture (32, 32), with a white square in a corner, uint8.

    >>> marked(np.zeros((28, 28), np.uint8), 1)[EDGE, -EDGE - MARK :].tolist()
    [255, 255, 255, 255, 0, 0, 0, 0]
    """
    picture = np.zeros((SIDE, SIDE), np.uint8)
    inner = digit if digit.shape == (28, 28) else fitted(digit[..., None], 20, 20, "pad")[..., 0]
    start = (SIDE - len(inner)) // 2
    picture[start : start + len(inner), start : start + len(inner)] = inner
    far = SIDE - EDGE - MARK
    top, left = (far if corner >= 2 else EDGE), (far if corner % 2 else EDGE)
    picture[top : top + MARK, left : left + MARK] = 255
    return picture


def _drawn(digits: Sequence[LabelledImage], size: int, generator: np.random.Generator) -> list[LabelledImage]:
    """So many digits, each with a mark in a corner of its own."""
    rows = generator.permutation(len(digits))[:size]
    corners = generator.integers(0, len(CORNERS), size=len(rows))
    return [
        LabelledImage(
            image=marked(np.asarray(digits[row].image), int(corner)),
            label=f"{digits[row].label} {CORNERS[corner]}",
            name=f"{digits[row].name}, marked {CORNERS[corner]}",
        )
        for row, corner in zip(rows.tolist(), corners, strict=True)
    ]


def _share(right: Sequence[bool]) -> float:
    return 100 * sum(right) / len(right)
