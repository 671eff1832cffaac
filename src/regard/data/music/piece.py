"""A piece of music: its notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """One note.

    Arguments:
        start, end: in the piece's unit of time; the end is later.
        pitch: MIDI's, 60 for the middle C.
        velocity: MIDI's, how hard it is struck, 1 to 127.
        voice: which part it is of, from 0.
    """

    start: float
    end: float
    pitch: int
    velocity: int = 80
    voice: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """Notes in the order in which they begin.

    Arguments:
        notes: in that order.
        name: for people.
    """

    notes: tuple[Note, ...]
    name: str = ""

    @classmethod
    def of(cls, notes: Sequence[Note], name: str = "") -> Piece:
        """The notes brought into their order."""
        return cls(notes=tuple(sorted(notes)), name=name)

    @property
    def length(self) -> float:
        """When the last note ends; 0 where there is none."""
        return max((note.end for note in self.notes), default=0.0)
