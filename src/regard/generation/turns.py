"""A fair queue for the requests of several clients."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A fair queue: clients take turns, however many items each has in the queue.

    A client is a path of names, such as (address, user). The names of one level take turns, and so do the names below one of
    them; so a client gets no larger share by using many names below its own. Items of a name itself come before items of the
    names below it. Items of one path keep their order.

    >>> turns: Turns[int] = Turns()
    >>> for thing, whose in enumerate([("a", "x"), ("a", "y"), ("a", "z"), ("a", "x"), ("b", "x"), ("b", "x")]):
    ...     turns.add(thing, whose)
    >>> [turns.take() for _ in range(len(turns))]
    [0, 4, 1, 5, 2, 3]
    """

    def __init__(self) -> None:
        self._own: deque[T] = deque()
        self._below: OrderedDict[str, Turns[T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._own) + sum(map(len, self._below.values()))

    def __bool__(self) -> bool:
        return bool(self._own or self._below)

    def add(self, thing: T, whose: Sequence[str] = ()) -> None:
        """Append an item to the queue of its client."""
        if not whose:
            self._own.append(thing)
            return
        if whose[0] not in self._below:
            self._below[whose[0]] = Turns()
        self._below[whose[0]].add(thing, whose[1:])

    def first(self) -> T:
        """The next item, which `take` would return.

        Raises:
            IndexError: if the queue is empty.
        """
        if self._own or not self._below:
            return self._own[0]
        return next(iter(self._below.values())).first()

    def take(self) -> T:
        """Remove and return the next item; then it is another client's turn, if another one has items.

        Raises:
            IndexError: if the queue is empty.
        """
        if self._own or not self._below:
            return self._own.popleft()
        name, part = next(iter(self._below.items()))
        thing = part.take()
        if part:
            self._below.move_to_end(name)
        else:
            del self._below[name]
        return thing

    def remove(self, wanted: Callable[[T], bool]) -> None:
        """Remove all items for which `wanted` is true; a client with other items keeps its turn."""
        self._own = deque(thing for thing in self._own if not wanted(thing))
        for name, part in list(self._below.items()):
            part.remove(wanted)
            if not part:
                del self._below[name]
