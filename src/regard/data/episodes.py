"""Episodes: a few classes, a few pictures of each with labels that hold for this episode alone, and one more to be told."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True, eq=False)
class Episode:
    """One problem of learning from a few examples, as places in a store of pictures.

    Arguments:
        pictures: (T,) int64, which pictures, the one that is asked about last.
        turns: (T,) int64, by how many quarters each is turned; all pictures of a class alike.
        labels: (T,) int64, the last of them what is to be told.
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

    >>> episodes = Episodes(np.repeat(np.arange(6), 4), ways=3, shots=1, turned=False)
    >>> episode = episodes.about(5, draw=0)
    >>> int(episode.pictures[-1]), len(set(episode.labels[:-1].tolist())), int(episode.labels[-1]) in episode.labels[:-1]
    (5, 3, True)
    """

    classes: np.ndarray
    ways: int
    shots: int
    turned: bool

    @property
    def too_few(self) -> str:
        """What keeps episodes from being drawn, as half a sentence; empty where nothing does."""
        counts = np.bincount(self.classes)
        kinds = len(counts) * (4 if self.turned else 1)
        if kinds < self.ways:
            return f"{kinds} classes are too few for episodes of {self.ways}"
        if counts.min() <= self.shots:
            return f"a class has {counts.min()} pictures, and {self.shots} to show and one to ask about are wanted"
        return ""

    def about(self, picture: int, draw: int) -> Episode:
        """The episode that asks about a picture: a pure function of it and of `draw`.

        The other classes are drawn from all, the pictures shown from those of each class but the one asked about, and labels and
        order anew.
        """
        random = np.random.Generator(np.random.Philox(key=[picture, draw]))
        turns = 4 if self.turned else 1
        counts = np.bincount(self.classes)
        first = np.cumsum(counts) - counts
        own = int(self.classes[picture]) * turns + int(random.integers(turns))
        others = random.choice(len(counts) * turns - 1, size=self.ways - 1, replace=False)
        kinds = np.concatenate(([own], others + (others >= own)))
        shown = []
        for kind in kinds.tolist():
            there = first[kind // turns] + np.arange(int(counts[kind // turns]))
            shown.append(random.choice(there[there != picture], size=self.shots, replace=False))
        labels = random.permutation(self.ways)
        order = random.permutation(self.ways * self.shots)
        return Episode(
            pictures=np.append(np.concatenate(shown)[order], picture),
            turns=np.append(np.repeat(kinds % turns, self.shots)[order], kinds[0] % turns),
            labels=np.append(np.repeat(labels, self.shots)[order], labels[0]),
        )
