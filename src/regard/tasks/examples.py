"""The examples of a task, from rows in memory or from files, divided into training and validation examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from regard.data.malformed import MalformedRows
from regard.data.rows import listed
from regard.errors import InputError
from regard.models.config import check

T = TypeVar("T")
Reader = Callable[[MalformedRows], Iterable[T]]
"""A function that reads examples from their beginning at each call, and counts malformed rows in its argument."""

Place = str | tuple[str, ...]
"""A path, or several, as in `data.train`."""

STREAM = 0x56A1
"""Makes the choice of held-out examples independent of other samples with the same seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Examples(Generic[T]):
    """The sources of a task's examples: rows in memory, or the files in a recipe's `data` section.

    Rows in memory are anything that `listed` accepts: a list, a generator, a table of pandas, a `datasets.Dataset`. Each row is
    an example, a tuple, or a mapping from the names of columns. Both sources give the same type, which records where it was read.

    Arguments:
        type: the type of an example. Rows in memory of this type are used unchanged; None if there is no such type.
        rows: the name of the rows in messages, such as `sentences`.
        one: the name of one row, such as `sentence`; if empty, `rows` without its last letter.
        wanted: the form of a row in memory, such as `(words, tags), two lists`.
        file: the name of a file of rows in messages, such as `file of tagged words`.
        formats: an addition to messages about a missing file, such as `, in SQuAD's JSON or JSONL`.
        row: converts (a row in memory, its name in messages, its number from 1, the `data` section or None) to an example.
        read: reads examples lazily from (the `data` section, a file or a list of files, a counter of malformed rows).
        check: refuses an example in memory that cannot be used, given the example and its name in messages.
        empty: whether an example in memory is empty, and left out of training like empty lines of a file.
    """

    type: type[T] | None
    rows: str
    one: str = ""
    wanted: str
    file: str
    formats: str = ""
    row: Callable[[Any, str, int, Any], T]
    read: Callable[[Any, str | list[str], MalformedRows], Iterable[T]]
    check: Callable[[T, str], None] = lambda example, called: None
    empty: Callable[[T], bool] = lambda example: False

    def in_memory(self, given: Any, data: Any = None) -> list[T]:
        """Convert rows in memory to examples.

        Arguments:
            data: the `data` section, which may set the keys of a mapping for the parts of a row.

        Raises:
            InputError: if there are no rows, or naming the first row that is not an example.
        """
        found = []
        for number, row in enumerate(listed(given, self.rows, self.wanted), start=1):
            called = f"{self._one} {number}"
            ready = self.type is not None and isinstance(row, self.type)
            example = row if ready else self.row(row, called, number, data)
            self.check(example, called)
            found.append(example)
        return found

    def to_measure(self, given: Any) -> list[T]:
        """Convert rows in memory to examples for an evaluation, in which empty ones are kept.

        Raises:
            InputError: as `in_memory`.
        """
        if isinstance(given, str) or (hasattr(given, "__len__") and not len(given)):
            raise InputError(f"there is nothing to evaluate; give a list with at least one {self._one}")
        return self.in_memory(given)

    @property
    def _one(self) -> str:
        return self.one or self.rows.removesuffix("s")

    def reader(self, data: Any, place: Place | None, given: Any = None) -> Reader[T] | None:
        """A reader of the examples in memory if there are any, else of the files of `place`; None if there is neither."""
        if given is not None:
            found = [example for example in self.in_memory(given, data) if not self.empty(example)]
            if not found:
                raise InputError(f"the {self.rows} are all empty; give some")
            return lambda _: found
        if place is None:
            return None
        path = place if isinstance(place, str) else list(place)
        return lambda malformed: self.read(data, path, malformed)

    def named(self, data: Any, malformed: MalformedRows) -> Iterator[T]:
        """The examples of the files in `data.train`, as `regard evaluate` reads them.

        Raises:
            InputError: if `data.train` names no file.
        """
        read = self.reader(data, data.train)
        if read is None:
            raise InputError(f"no {self.file} is named; name one")
        return iter(read(malformed))

    def splits(
        self,
        data: Any,
        seed: int,
        given: Any,
        given_validation: Any,
        *,
        where: str = "data",
        builtin: tuple[Reader[T], Reader[T] | None] | None = None,
        **held_out: Any,
    ) -> Splits[T]:
        """The training and validation examples of `data`, or of the caller.

        Arguments:
            data: a section with `train`, `validation` and the amount to hold out.
            given, given_validation: rows in memory, which replace those of `data`.
            where: the name of the section in messages.
            builtin: readers of builtin training and validation examples, used instead of files. If the second one is None,
                validation examples are held out.
            held_out: further arguments of `Splits`.

        Raises:
            InputError: if there are no training examples.
        """
        instead = (None, None) if builtin is None or given is not None else builtin
        train = instead[0] or self.reader(data, data.train, given)
        if train is None:
            formats = self.formats.replace("data.", f"{where}.")
            raise InputError(f"{where}.train is missing; name a {self.file}{formats}")
        validation = self.reader(data, data.validation, given_validation) or instead[1]
        return Splits(train, validation, seed=seed, where=where, **amount_of(data), **held_out)


class Splits(Generic[T]):
    """Training and validation examples; the latter have a source of their own, or are sampled from the training examples.

    Arguments:
        train: a reader of the training examples.
        validation: a reader of the validation examples; None to hold some out from the training examples.
        share, size: the amount to hold out, as for `hold_out`.
        seed: the seed of the choice.
        together: returns the group of an example, such as its article; examples of a group are not separated. None if there are
            no groups.
        class_of: returns the class of an example; the same share of each class is held out, at least one of a class with two
            examples. None to sample regardless of classes.
        least: the minimum number of examples to hold out, such as two for a correlation.
        words: further arguments of `hold_out`, such as the name of the examples in messages.
    """

    def __init__(
        self,
        train: Reader[T],
        validation: Reader[T] | None,
        *,
        seed: int,
        share: float | None = None,
        size: int | None = None,
        together: Callable[[T], Hashable] | None = None,
        class_of: Callable[[T], Hashable] | None = None,
        least: int = 1,
        **words: Any,
    ) -> None:
        self._train = train
        self._validation = validation
        self._amount: dict[str, Any] = {"share": share, "size": size, "least": least}
        self._words = words
        self._seed = seed
        self._together = together
        self._class_of = class_of
        self._count: int | None = None
        self._held_out: frozenset[int] | None = None
        self.malformed = MalformedRows()

    def everything(self) -> Iterator[T]:
        """All training examples, also those that are held out; reading them to the end also counts them."""
        count = 0
        for count, example in enumerate(self._train(self.malformed), start=1):  # noqa: B007  # the last value is the count
            yield example
        self._count = count

    @property
    def count(self) -> int:
        """The number of training examples, also those that are held out."""
        if self._count is None:
            for _ in Splits.everything(self):
                pass
        return self._count or 0

    @property
    def held_out(self) -> int:
        """The number of training examples that are held out."""
        return len(self._chosen())

    def train(self) -> Iterator[T]:
        """The training examples without those that are held out."""
        held_out = self._chosen()
        return (example for number, example in enumerate(self._train(self.malformed)) if number not in held_out)

    def validation(self) -> Iterator[T]:
        """The validation examples."""
        if self._validation is not None:
            return iter(self._validation(self.malformed))
        held_out = self._chosen()
        return (example for number, example in enumerate(self._train(self.malformed)) if number in held_out)

    @property
    def notes(self) -> list[str]:
        """Messages for the user about the data that was read, such as malformed rows."""
        return self.malformed.notes

    def _chosen(self) -> frozenset[int]:
        """The numbers of the training examples that are held out."""
        if self._validation is not None:
            return frozenset()
        if self._held_out is None:
            count = self.count
            words = {name: word for name, word in self._words.items() if name != "stream"}
            size = amount_held_out(count, **self._amount, **words)
            if self._together is not None:
                self._held_out = frozenset(self._groups_of(size, self._together))
            else:
                share = self._amount["share"] or size / count
                of_classes = [] if self._class_of is None else self._of_each_class(share, self._class_of)
                self._held_out = frozenset(of_classes) or hold_out(
                    count, seed=self._seed, **self._amount, **self._words
                )
        return self._held_out

    def _of_each_class(self, share: float, class_of: Callable[[T], Hashable]) -> list[int]:
        """The same share of each class; a class with a single example is used for training only."""
        classes: dict[Hashable, list[int]] = {}
        for number, example in enumerate(self._train(self.malformed)):
            classes.setdefault(class_of(example), []).append(number)
        chosen, generator = list[int](), generator_of(self._seed)
        for members in classes.values():
            size = min(len(members) - 1, max(1, round(share * len(members))))
            chosen += generator.choice(members, size=size, replace=False).tolist()
        return chosen

    def _groups_of(self, size: int, together: Callable[[T], Hashable]) -> list[int]:
        """Examples of whole groups, which are sampled until there are `size` examples or only one group is left."""
        groups: dict[Hashable, list[int]] = {}
        for number, example in enumerate(self._train(self.malformed)):
            groups.setdefault(together(example), []).append(number)
        if len(groups) < 2:
            raise InputError(
                "all training examples belong together, such as those of one article, and none can be held out; name "
                "data.validation"
            )
        chosen: list[int] = []
        for place in generator_of(self._seed).permutation(len(groups))[:-1]:
            chosen += list(groups.values())[place]
            if len(chosen) >= size:
                break
        return chosen


def hold_out(
    count: int,
    *,
    seed: int,
    share: float | None = None,
    size: int | None = None,
    least: int = 1,
    left: int = 1,
    what: str = "training examples",
    where: str = "data",
    too_few: str = "",
    stream: int = STREAM,
) -> frozenset[int]:
    """Choose which of `count` examples are held out for validation; depends only on the arguments.

    Arguments:
        seed, stream: the seed of the choice, and a number that makes it independent of other samples with this seed.
        share, size, least, left, what, where, too_few: as for `amount_held_out`.

    Raises:
        InputError: if there are too few examples.

    >>> sorted(hold_out(20, share=0.2, seed=0)), sorted(hold_out(20, size=1000, seed=0))
    ([6, 7, 10, 18], [7, 12])
    """
    size = amount_held_out(
        count, share=share, size=size, least=least, left=left, what=what, where=where, too_few=too_few
    )
    return frozenset(generator_of(seed, stream).choice(count, size=size, replace=False).tolist())


def amount_held_out(
    count: int,
    *,
    share: float | None = None,
    size: int | None = None,
    least: int = 1,
    left: int = 1,
    what: str = "training examples",
    where: str = "data",
    too_few: str = "",
) -> int:
    """The number of examples to hold out of `count`.

    Arguments:
        share: the share of all examples to hold out; or
        size: the number to hold out, at most a tenth of all.
        least: the minimum number to hold out.
        left: the minimum number of training examples, if a share is given.
        what: the name of the examples in messages.
        where: the section of the recipe that may name validation examples.
        too_few: the message if there are too few examples for a share, instead of the usual one.

    Raises:
        InputError: if there are too few examples.
    """
    if share is not None:
        if count < least + left:
            raise InputError(
                too_few
                or f"{count} {what.removesuffix('s') + ' is' if count == 1 else what + ' are'} too few to hold "
                f"{'one' if least == 1 else least} out; give more, or name {where}.validation"
            )
        return min(count - left, max(least, round(share * count)))
    found = min(size or 0, count // 10)
    if found < least:
        raise InputError(
            f"{count} {what} are too few to hold some out for validation; give at least {10 * least}, or {where}.validation"
        )
    return found


def generator_of(seed: int, stream: int = STREAM) -> np.random.Generator:
    """The random generator that samples the held-out examples of a seed."""
    return np.random.Generator(np.random.Philox(key=[seed, stream]))


# Every `data` section has two settings for the amount to hold out, `validation_share` and `validation_size`. One has a default;
# the other is None, and replaces it if it is given.


def amount_of(data: Any) -> dict[str, Any]:
    """The `share` or the `size` of a `data` section, for `hold_out`."""
    share, size = data.validation_share, data.validation_size
    if share is not None and size is not None:
        usual = {part.name: part.default for part in dataclasses.fields(data)}
        share, size = (None, size) if usual["validation_size"] is None else (share, None)
    return {"share": share, "size": size}


def check_amount(data: Any) -> None:
    """Refuse a share or a size that is out of range, and both at once.

    Raises:
        InputError: naming the setting.
    """
    share, size = data.validation_share, data.validation_size
    usual = {part.name: part.default for part in dataclasses.fields(data)}
    if share is not None:
        advice = f"{usual['validation_share'] or 0.1:g} is usual"
        check(0 < share < 1, "data.validation_share", share, "above 0 and below 1", advice)
    check(size is None or size > 0, "data.validation_size", size, "above 0", "raise it")
    if None not in (share, size) and usual["validation_share"] != share and usual["validation_size"] != size:
        raise InputError(
            f"data.validation_share is {share:g} and data.validation_size {size}; give the one or the other"
        )
