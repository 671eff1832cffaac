"""The labelled texts of an evaluation, and what is refused among them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from regard.data.labelled import LabelledText
from regard.errors import InputError

Parting = Callable[[str], Sequence[str]]
"""From a text to its words, such as `words_of`, or `str.split` for text that is parted already."""


def classes(examples: Sequence[LabelledText], where: str) -> list[str]:
    """The labels, as names of classes.

    Raises:
        InputError: for no examples, and one without a label.
    """
    _check(examples, where)
    return [str(each.label) for each in examples]


def numbers(examples: Sequence[LabelledText], where: str) -> np.ndarray:
    """The labels, as numbers (N,).

    Raises:
        InputError: for no examples, and one whose label is none.
    """
    _check(examples, where)
    wrong = next((each for each in examples if not isinstance(each.label, int | float)), None)
    if wrong is not None:
        raise InputError(f"{wrong.file}, line {wrong.line}: the label is {wrong.label!r}, not a number; read it as one")
    return np.array([each.label for each in examples], dtype=np.float64)


def usual(train: Sequence[str]) -> str:
    """The commonest class; of those alike the first by name.

    Raises:
        InputError: where there is but one.
    """
    counts = Counter(train)
    if len(counts) < 2:
        raise InputError(f"train: all examples are of the class {next(iter(counts))!r}; give two classes at least")
    return min(counts, key=lambda name: (-counts[name], name))


def both(examples: Sequence[LabelledText], words: Parting) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """The words of the first texts and of the second.

    Raises:
        InputError: for an example with one text.
    """
    single = next((each for each in examples if each.pair is None), None)
    if single is not None:
        raise InputError(f"{single.file}, line {single.line}: has one text only; give pairs of texts")
    return [words(each.text) for each in examples], [words(each.pair or "") for each in examples]


def _check(examples: Sequence[LabelledText], where: str) -> None:
    if not examples:
        raise InputError(f"{where}: holds no examples; give one at least")
    without = next((each for each in examples if each.label is None), None)
    if without is not None:
        raise InputError(f"{without.file}, line {without.line}: has no label; read the file with labels")
