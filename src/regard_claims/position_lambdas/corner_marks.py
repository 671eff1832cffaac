"""Digits with a mark in one of four corners: what the position lambdas and the content lambdas of a lambda layer contribute."""

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
"""In pixels: the sides of an image and of the square mark, and the distance from the mark to the nearest edges."""

CORNERS = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True, kw_only=True, slots=True)
class CornerMarks:
    """One lambda layer over the 8 x 8 output positions of two convolution blocks.

    An image has a digit in the middle and a white square in one corner. Its class is both, such as `7 top left`. The four squares
    are identical and the output of the model is a mean over positions, so the corner can be predicted only from position: by
    position lambdas, or by the convolutions, whose zero padding also depends on position.

    Arguments:
        path: a folder with MNIST's files. None: scikit-learn's digits, enlarged.
        lambdas: which lambdas the layer has.
        size: the number of training images, sampled by the seed; at most all.
        test_size: the number of test images, sampled by the seed; at most all.
        steps: the number of updates.
        batch: the number of images in an update.
        learning_rate: the peak learning rate of AdamW.
        width, key_width, heads: sizes of the lambda layer.
        convolutions: the numbers of channels of the two convolution blocks.

    Raises:
        InputError: for a number below its minimum.
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
        """Accuracies in per cent: of digit and corner together, of the digit, and of the corner."""
        return ("accuracy", "digit", "corner")

    def run(self, seed: int) -> dict[str, float]:
        """Train the network, and measure it on the test images.

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
    """An image (32, 32) uint8: a digit (Y, X) in the middle on black, and a white square in a corner, an index of `CORNERS`.

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
    """Sample `size` digits, each with a mark in a randomly chosen corner."""
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
