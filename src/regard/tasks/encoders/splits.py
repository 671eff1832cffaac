"""Examples to learn from and examples to validate on, read from files in a stream or given in memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from regard.data.malformed import MalformedRows
from regard.errors import InputError

T = TypeVar("T")
Reader = Callable[[MalformedRows], Iterable[T]]


class Splits(Generic[T]):
    """Training and validation examples: the latter from a place of their own, or held out of the former by chance.

    Arguments:
        train: reads the training examples anew, and counts malformed rows.
        validation: likewise; None to hold some out.
        share: of the training examples, to be held out.
        seed: of the choice.
        together: what an example has in common with those that it must not be parted from, such as its article; None where each
            stands by itself.
        class_of: the class of an example: the same share of each class is held out, at least one of a class that has two; None to
            draw from all alike.
        least: examples to hold out at least, as a correlation needs two.
    """

    def __init__(
        self,
        train: Reader[T],
        validation: Reader[T] | None,
        *,
        share: float,
        seed: int,
        together: Callable[[T], Hashable] | None = None,
        class_of: Callable[[T], Hashable] | None = None,
        least: int = 1,
    ) -> None:
        self._train = train
        self._validation = validation
        self._share = share
        self._seed = seed
        self._together = together
        self._class_of = class_of
        self._least = least
        self._held_out: frozenset[int] | None = None
        self.malformed = MalformedRows()

    def everything(self) -> Iterator[T]:
        """All training examples, those to be held out among them."""
        return iter(self._train(self.malformed))

    def train(self) -> Iterator[T]:
        """The examples to learn from."""
        held_out = self._chosen()
        return (example for number, example in enumerate(self._train(self.malformed)) if number not in held_out)

    def validation(self) -> Iterator[T]:
        """The examples to validate on."""
        if self._validation is not None:
            return iter(self._validation(self.malformed))
        held_out = self._chosen()
        return (example for number, example in enumerate(self._train(self.malformed)) if number in held_out)

    def _chosen(self) -> frozenset[int]:
        if self._validation is not None:
            return frozenset()
        if self._held_out is None:
            count = sum(1 for _ in self._train(self.malformed))
            if count <= self._least:
                held = "one" if self._least == 1 else str(self._least)
                raise InputError(
                    f"{count} training example{'s are' if count != 1 else ' is'} too few to hold {held} out; give more, or name "
                    "data.validation"
                )
            generator = np.random.Generator(np.random.Philox(key=[self._seed, 0x56A1]))
            size = min(count - 1, max(self._least, round(self._share * count)))
            if self._together is not None:
                self._held_out = frozenset(self._groups_of(size, generator, self._together))
            else:
                of_classes = [] if self._class_of is None else self._of_each_class(generator, self._class_of)
                chosen = of_classes or generator.choice(count, size=size, replace=False).tolist()
                self._held_out = frozenset(chosen)
        return self._held_out

    def _of_each_class(self, generator: np.random.Generator, class_of: Callable[[T], Hashable]) -> list[int]:
        """The same share of each class; of a class with one example none, because there it is learnt from."""
        classes: dict[Hashable, list[int]] = {}
        for number, example in enumerate(self._train(self.malformed)):
            classes.setdefault(class_of(example), []).append(number)
        chosen: list[int] = []
        for members in classes.values():
            size = min(len(members) - 1, max(1, round(self._share * len(members))))
            chosen += generator.choice(members, size=size, replace=False).tolist()
        return chosen

    def _groups_of(self, size: int, generator: np.random.Generator, together: Callable[[T], Hashable]) -> list[int]:
        """The examples of whole groups, drawn until there are `size` examples, or one group is left."""
        groups: dict[Hashable, list[int]] = {}
        for number, example in enumerate(self._train(self.malformed)):
            groups.setdefault(together(example), []).append(number)
        if len(groups) < 2:
            raise InputError(
                "all training examples belong together, such as those of one article, and none can be held out; name "
                "data.validation"
            )
        chosen: list[int] = []
        drawn = [list(groups.values())[place] for place in generator.permutation(len(groups))[:-1]]
        for group in drawn:
            chosen += group
            if len(chosen) >= size:
                break
        return chosen

    @property
    def notes(self) -> list[str]:
        """What the user ought to know of what was read."""
        return self.malformed.notes


def given_or(given: Sequence[T] | None, read: Reader[T] | None, split: str) -> Reader[T] | None:
    """Examples in memory where there are any, else what reads them from a file.

    Raises:
        InputError: for an empty list.
    """
    if given is None:
        return read
    if isinstance(given, str) or not given:
        raise InputError(f"the {split} examples are {given!r}; give a list of examples")
    return lambda _: given
