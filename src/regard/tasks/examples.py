"""The examples of a task: rows in memory or files; which are learned from, and which are held out to validate on."""

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
"""Reads examples again at each call, and counts malformed rows."""

Place = str | tuple[str, ...]
"""A file, or several, as `data.train` names them."""

STREAM = 0x56A1
"""Sets the choice of held-out examples apart from other samples of the same seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Examples(Generic[T]):
    """Where the examples of a task come from: rows in memory, or the files that a recipe's `data` section names.

    Rows in memory are whatever `listed` takes: a list, a generator, a table of pandas, a `datasets.Dataset`; each row an example,
    a tuple, or a mapping by the names of columns. Both ways end in the same type, which says where it was read.

    Arguments:
        type: of an example. Rows in memory that are of it are taken as they are; where None, none is.
        rows: what messages call the rows, such as `sentences`.
        one: and one of them; the first is `sentence 1`. Empty: `rows` without its last letter.
        wanted: what a row in memory has to be, such as `(words, tags), two lists`.
        file: what messages call a file of them, such as `file of tagged words`.
        formats: what they add where no file is named, such as `, in SQuAD's JSON or JSONL`.
        row: of a row in memory, what messages call it, its number from 1 and the `data` section (None without one): an example.
        read: of a `data` section, a file or a list of files, and a tally of malformed rows: the examples, in a stream.
        check: of an example in memory and what messages call it; refuses one that cannot be used.
        empty: whether an example in memory is left out of what is learned from, as empty lines of a file are.
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
        """Rows in memory as examples.

        Arguments:
            data: the `data` section, where it says under which keys of a mapping the parts of a row are.

        Raises:
            InputError: where there is no row, or naming the first that is no example.
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
        """The same, to measure a model on.

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
        """What reads the examples in memory where there are any, else those of a place; None where there is neither."""
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
        """The examples that `data.train` names, as `regard evaluate` reads them.

        Raises:
            InputError: where it names none.
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
        """Training and validation examples, as `data` or the caller gives them.

        Arguments:
            data: names `train` and `validation`, and says how much is held out.
            given, given_validation: rows in memory instead.
            where: messages call the section.
            builtin: readers of builtin training and validation examples, used instead of files; None to hold some out.
            held_out: as `Splits`.

        Raises:
            InputError: where there is nothing to learn from.
        """
        instead = (None, None) if builtin is None or given is not None else builtin
        train = instead[0] or self.reader(data, data.train, given)
        if train is None:
            formats = self.formats.replace("data.", f"{where}.")
            raise InputError(f"{where}.train is missing; name a {self.file}{formats}")
        validation = self.reader(data, data.validation, given_validation) or instead[1]
        return Splits(train, validation, seed=seed, where=where, **amount_of(data), **held_out)


class Splits(Generic[T]):
    """Training and validation examples: the latter from a place of their own, or held out of the former by chance.

    Arguments:
        train: reads the training examples again, and counts malformed rows.
        validation: likewise; None to hold some out.
        share, size: how much is held out, as `hold_out` takes it.
        seed: of the choice.
        together: what an example has in common with those that it must not be parted from, such as its article; None where each
            stands by itself.
        class_of: the class of an example: the same share of each class is held out, at least one of a class that has two; None to
            sample from all alike.
        least: examples to hold out at least, as a correlation needs two.
        words: what else `hold_out` takes, such as what messages call the examples.
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
        """All training examples, those to be held out among them; whoever reads them to their end has counted them."""
        count = 0
        for count, example in enumerate(self._train(self.malformed), start=1):  # noqa: B007  # the last is how many
            yield example
        self._count = count

    @property
    def count(self) -> int:
        """How many training examples there are, those to be held out among them."""
        if self._count is None:
            for _ in Splits.everything(self):
                pass
        return self._count or 0

    @property
    def held_out(self) -> int:
        """How many of them are held out."""
        return len(self._chosen())

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

    @property
    def notes(self) -> list[str]:
        """What the user ought to know of what was read."""
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
        """The same share of each class; of a class with one example none, because there it is learned from."""
        classes: dict[Hashable, list[int]] = {}
        for number, example in enumerate(self._train(self.malformed)):
            classes.setdefault(class_of(example), []).append(number)
        chosen, generator = list[int](), generator_of(self._seed)
        for members in classes.values():
            size = min(len(members) - 1, max(1, round(share * len(members))))
            chosen += generator.choice(members, size=size, replace=False).tolist()
        return chosen

    def _groups_of(self, size: int, together: Callable[[T], Hashable]) -> list[int]:
        """The examples of whole groups, sampled until there are `size` examples, or one group is left."""
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
    """Which of `count` examples are held out to validate on: a function of the seed, and of nothing else that is random.

    Arguments:
        seed, stream: of the choice.
        share, size, least, left, what, where, too_few: as `amount_held_out`.

    Raises:
        InputError: where there are too few.

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
    """How many of `count` examples are held out.

    Arguments:
        share: of all of them; or
        size: so many, at most a tenth of all.
        least: hold so many out at least.
        left: and leave so many to learn from, where a share is asked for.
        what: the examples are called in messages.
        where: the section of the recipe that may name examples to validate on.
        too_few: the message where there are too few for a share, instead of the usual one.

    Raises:
        InputError: where there are too few.
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
    """What samples the held-out examples of a seed."""
    return np.random.Generator(np.random.Philox(key=[seed, stream]))


# Every `data` section says how much is held out in one of two ways: `validation_share` or `validation_size`. One has a default,
# and the other is None until it is given and takes its place.


def amount_of(data: Any) -> dict[str, Any]:
    """The `share` or the `size` that a `data` section asks for."""
    share, size = data.validation_share, data.validation_size
    if share is not None and size is not None:
        usual = {part.name: part.default for part in dataclasses.fields(data)}
        share, size = (None, size) if usual["validation_size"] is None else (share, None)
    return {"share": share, "size": size}


def check_amount(data: Any) -> None:
    """Refuse a share or a size that is none, and both at once.

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
