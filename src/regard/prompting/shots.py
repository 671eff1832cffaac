"""The examples that are shown before a question, drawn from training examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.errors import InputError
from regard.models.config import check
from regard.prompting.examples import Example

Draw = Literal["once", "each"]
DRAWS: tuple[Draw, ...] = ("once", "each")

_TAG = 0x5407


@dataclass(frozen=True, kw_only=True, slots=True)
class Shots:
    """Draws K examples without repeats; never the one that is tested.

    Arguments:
        train: what is drawn from; may be the tested examples themselves.
        count: K; 0 shows none.
        seed: of the draw.
        draw: `once`, the same for every question, so that what they have in common is read once; `each`, anew for each question
            (Brown et al. 2020, section 2.4).

    Raises:
        InputError: for a negative count or seed, or one above the number of examples there are.

    >>> numbers = [Example({"n": n}) for n in range(9)]
    >>> len({shown.fields["n"] for shown in Shots(train=numbers, count=8, seed=1).of(0, numbers[4])} - {4})
    8
    """

    train: Sequence[Example]
    count: int
    seed: int = 0
    draw: Draw = "once"

    def __post_init__(self) -> None:
        check(self.count >= 0, "shots", self.count, "0 or more", "0 shows no example")
        check(self.seed >= 0, "seed", self.seed, "0 or more", "any whole number will do")
        if self.count > len(self.train):
            raise InputError(f"{self.count} shots are asked for, and there are {len(self.train)} examples to draw from")

    def of(self, place: int, tested: Example) -> list[Example]:
        """The examples shown before a question, in the order they are shown.

        Arguments:
            place: of the question among all, from 0; with `each` the draw depends on it.
            tested: the question's own example, which is passed over wherever it stands among the training examples.

        Raises:
            InputError: where too few others are left.
        """
        if not self.count:
            return []
        key = [self.seed, _TAG if self.draw == "once" else _TAG + 1 + place]
        order = np.random.Generator(np.random.Philox(key=key)).permutation(len(self.train)).tolist()
        others = (self.train[i] for i in order if self.train[i].fields != tested.fields)
        found = [example for example, _ in zip(others, range(self.count), strict=False)]
        if len(found) < self.count:
            raise InputError(
                f"{tested.where}: {self.count} shots are asked for, and {len(found)} training examples are others than this one"
            )
        return found
