"""A walk as data: steps, what each shows, and the lines of source each stands beside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from regard.errors import InputError

Kind = Literal["step", "aside"]


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A statement of the code, as it stands in its file.

    Arguments:
        file: the file inside its package, such as `regard/attention/scores.py`.
        line: the number of its first line, counted from 1.
        symbol: the function or method it is part of, such as `ScaledDot.forward`.
        text: the statement, its lines without the indentation they share.
    """

    file: str
    line: int
    symbol: str
    text: str


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Shown:
    """Numbers of the model that a step shows.

    Arguments:
        name: what they are, such as `q` or `scores`.
        letters: the axes by their letters, such as `S, E`; empty for a single number.
        values: no, one or two axes, in the precision they were computed in; read-only.
        labels: a token or name for each entry of the first axis; None where that axis has no names.
        of: the whole tensor in the model that they are a part of, with its shape; empty where they are all of it.
        note: a few words about them.
        scale: the number that has the full colour, where it is not the largest of these.

    Raises:
        ValueError: where values, letters and labels do not fit together.
    """

    name: str
    letters: str
    values: np.ndarray
    labels: tuple[str, ...] | None = None
    of: str = ""
    note: str = ""
    scale: float | None = None

    def __post_init__(self) -> None:
        axes = len(self.letters.split(",")) if self.letters else 0
        if axes != self.values.ndim or axes > 2:
            raise ValueError(f"{self.name}: letters {self.letters!r} for values of shape {self.values.shape}")
        if self.labels is not None and (not axes or len(self.labels) != self.values.shape[0]):
            raise ValueError(f"{self.name}: {len(self.labels)} labels for values of shape {self.values.shape}")
        values = np.array(self.values, order="C")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @property
    def largest(self) -> float:
        """What has the full colour; never zero."""
        return self.scale or float(np.abs(self.values).max(initial=0.0)) or 1.0

    @property
    def shape(self) -> str:
        """Letters and sizes together.

        >>> Shown(name="k", letters="S, E", values=np.zeros((3, 4))).shape
        '(S, E) = (3, 4)'
        """
        if not self.letters:
            return "a number"
        return f"({self.letters}) = ({', '.join(map(str, self.values.shape))})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of the equation.

    Arguments:
        title: its name in the lectures.
        sentence: what happens, in a sentence or two.
        equation: the same in symbols.
        lines: the statements of the code that compute it; none where the code is not the package's to read.
        shown: the numbers.
        notes: what these numbers say.
        kind: `step` for a part of the equation, `aside` for what explains or checks one.
    """

    title: str
    sentence: str
    equation: str = ""
    lines: tuple[SourceLine, ...] = ()
    shown: tuple[Shown, ...] = ()
    notes: tuple[str, ...] = ()
    kind: Kind = "step"

    def __getitem__(self, name: str) -> np.ndarray:
        """The numbers called `name`.

        Raises:
            InputError: where the step shows nothing called so.
        """
        for item in self.shown:
            if item.name == name:
                return item.values
        raise InputError(
            f"step {self.title!r} shows no {name!r}; it shows {', '.join(item.name for item in self.shown) or 'no numbers'}"
        )
