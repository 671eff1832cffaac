"""Whose turn it is where several clients ask for work."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """A queue in which clients take turns.

    Whose a thing is, is a path of names, such as of an address and of a user there. Names of one place take turns, and so do
    those below one name; so nobody gets a larger share by going under many names below their own. What belongs to a name itself
    comes before what belongs to those below it. Things of one path keep their order.

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
        """Put a thing behind what its client has in the queue."""
        if not whose:
            self._own.append(thing)
            return
        if whose[0] not in self._below:
            self._below[whose[0]] = Turns()
        self._below[whose[0]].add(thing, whose[1:])

    def first(self) -> T:
        """What `take` would return.

        Raises:
            IndexError: where there is nothing.
        """
        if self._own or not self._below:
            return self._own[0]
        return next(iter(self._below.values())).first()

    def take(self) -> T:
        """Take the thing whose turn it is; the next one is somebody else's, where anybody else has any.

        Raises:
            IndexError: where there is nothing.
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
        """Take out all things that are wanted; who has others keeps the place in the order."""
        self._own = deque(thing for thing in self._own if not wanted(thing))
        for name, part in list(self._below.items()):
            part.remove(wanted)
            if not part:
                del self._below[name]
