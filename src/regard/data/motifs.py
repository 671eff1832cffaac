"""Builtin music: a motif and its answer in another key, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import ClassVar

from regard.data.drawn import Drawn, below, split_of
from regard.errors import InputError
from regard.text.events import note_name

__all__ = ["Motifs"]


SCALE = (0, 2, 4, 5, 7, 9, 11, 12, 14, 16, 17, 19, 21, 23, 24)
"""Semitones above the tonic that a motif's notes may have: a major scale of two octaves."""
LOWEST, HIGHEST = 52, 63
"""Between them lies the tonic: the keys there are."""


class Motifs(Drawn[str]):
    """`size` melodies of one split, as words of a grid with one voice.

    Melody i is a pure function of the numbers, seed, split and i.

    A melody is a motif m of a few different notes in some key, then its answer, the same motif moved by t semitones, then both
    again to the end:

        m, m + t, m, m + t, ...

    So after the motif and the first note of the answer, all that follows can be told: the answer from the motif, later notes from
    those that stood there before, always the same number of notes back. With t = 0 it is one motif again and again.

    A motif belongs to "train" (eight tenths), "validation" or "test" (a tenth each) by a hash of its shape: none of one split is
    ever in another, in whatever key.

    Arguments:
        split: "train", "validation" or "test".
        shortest, longest: how many notes a motif has; 15 at most.
        farthest: the largest t, up and down; 0 for no answer but the motif itself.
        notes: of the whole melody.
        size: number of melodies; they are made when read, so any number costs nothing.
        seed: another seed gives other ones.

    Raises:
        InputError: for an unknown split, or numbers out of range.

    >>> melody = Motifs(shortest=3, longest=3, notes=9, size=1)[0].split()
    >>> melody[6:] == melody[:3]
    True
    """

    called: ClassVar[str] = "motifs"
    noun: ClassVar[str] = "melody"

    def __init__(
        self,
        split: str = "train",
        *,
        shortest: int = 3,
        longest: int = 9,
        farthest: int = 5,
        notes: int = 255,
        size: int = 5_000,
        seed: int = 0,
    ) -> None:
        super().__init__(split, size=size, seed=seed)
        if not 2 <= shortest <= longest <= len(SCALE):
            raise InputError(
                f"motifs: shortest is {shortest} and longest {longest}; give 2 to {len(SCALE)}, the lesser first"
            )
        if not 0 <= farthest <= 24:
            raise InputError(f"motifs: farthest is {farthest}; give 0 to 24 semitones")
        if notes < 1:
            raise InputError(f"motifs: notes is {notes}; give at least 1")
        self.shortest = shortest
        self.longest = longest
        self.farthest = farthest
        self.notes = notes

    def draw(self, rng: Random) -> str:
        """A melody."""
        motif, moved = self._motif(rng)
        both = [*motif, *(pitch + moved for pitch in motif)]
        return " ".join(note_name(both[place % len(both)]) for place in range(self.notes))

    def motif_of(self, index: int) -> tuple[list[int], int]:
        """The motif of melody `index`, as MIDI pitches, and by how many semitones its answer is moved.

        >>> len(Motifs(shortest=4, longest=4, size=1).motif_of(0)[0])
        4
        """
        return self._motif(self.chance(index))

    def _motif(self, rng: Random) -> tuple[list[int], int]:
        shape = self._shape(rng)
        while _split_of(shape) != self.split:
            shape = self._shape(rng)
        tonic = _between(rng, LOWEST, HIGHEST)
        return [tonic + semitones for semitones in shape], _between(rng, -self.farthest, self.farthest)

    def _shape(self, rng: Random) -> list[int]:
        """Semitones above the tonic."""
        left = list(SCALE)
        count = _between(rng, self.shortest, self.longest)
        return [left.pop(_between(rng, 0, len(left) - 1)) for _ in range(count)]


def _between(rng: Random, low: int, high: int) -> int:
    return low + below(rng, high - low + 1)


def _split_of(shape: Sequence[int]) -> str:
    apart = [semitones - shape[0] for semitones in shape]  # the same in every key
    return split_of(f"regard motifs {' '.join(map(str, apart))}")
