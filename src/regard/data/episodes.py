"""Episodes: a few classes, a few pictures of each with labels that hold for this episode alone, and others to be told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One problem of learning from a few examples, as places in a store of pictures.

    Arguments:
        pictures: (N K + Q,) int64, which pictures, the Q that are asked about last.
        turns: (N K + Q,) int64, by how many quarters each is turned; all pictures of a class alike.
        labels: (N K + Q,) int64, the last Q of them what is to be told.
    """

    pictures: np.ndarray
    turns: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, slots=True, eq=False)
class Episodes:
    """Draws episodes of pictures whose classes stand next to one another.

    Arguments:
        classes: (M,) int64, which never falls: the number of each picture's class.
        ways: N, classes of an episode.
        shots: K, labelled pictures of each.
        turned: whether a class turned by a quarter, a half or three quarters is another class.
        asked: Q, pictures asked about, of each class as many as of the others, give or take one.

    >>> episodes = Episodes(np.repeat(np.arange(6), 4), ways=3, shots=1, turned=False)
    >>> episode = episodes.about(5, draw=0)
    >>> int(episode.pictures[-1]), len(set(episode.labels[:-1].tolist())), int(episode.labels[-1]) in episode.labels[:-1]
    (5, 3, True)
    """

    classes: np.ndarray
    ways: int
    shots: int
    turned: bool
    asked: int = 1

    @property
    def too_few(self) -> str:
        """What keeps episodes from being drawn, as half a sentence; empty where nothing does."""
        counts = np.bincount(self.classes)
        kinds = len(counts) * (4 if self.turned else 1)
        if kinds < self.ways:
            return f"{kinds} classes are too few for episodes of {self.ways}"
        asked = -(-self.asked // self.ways)  # of the class of the picture an episode is about, that picture among them
        if self.turned and self.ways > 1:  # the same class turned stands beside it, and leaves that picture out
            asked = max(asked, 1 + -(-(self.asked - 1) // self.ways))
        if counts.min() < self.shots + asked:
            return f"a class has {counts.min()} pictures, and {self.shots} to show and {asked} to ask about are wanted"
        return ""

    def about(self, picture: int, draw: int) -> Episode:
        """The episode that asks about a picture, and about others where `asked` is above 1: a pure function of it and of `draw`.

        The other classes are drawn from all, the pictures shown and asked about from those of each class, and labels and order
        anew.
        """
        random = np.random.Generator(np.random.Philox(key=[picture, draw]))
        turns = 4 if self.turned else 1
        counts = np.bincount(self.classes)
        first = np.cumsum(counts) - counts
        own = int(self.classes[picture]) * turns + int(random.integers(turns))
        others = random.choice(len(counts) * turns - 1, size=self.ways - 1, replace=False)
        kinds = np.concatenate(([own], others + (others >= own)))
        of = np.arange(self.asked) % self.ways  # which of the kinds each picture that is asked about is of
        shown, asked = [], np.full(self.asked, picture)
        for place, kind in enumerate(kinds.tolist()):
            there = first[kind // turns] + np.arange(int(counts[kind // turns]))
            further = np.flatnonzero(of == place)[place == 0 :]  # the first of all is `picture`
            drawn = random.choice(there[there != picture], size=self.shots + len(further), replace=False)
            shown.append(drawn[: self.shots])
            asked[further] = drawn[self.shots :]
        labels = random.permutation(self.ways)
        order = random.permutation(self.ways * self.shots)
        return Episode(
            pictures=np.concatenate((np.concatenate(shown)[order], asked)),
            turns=np.concatenate((np.repeat(kinds % turns, self.shots)[order], kinds[of] % turns)),
            labels=np.concatenate((np.repeat(labels, self.shots)[order], labels[of])),
        )
