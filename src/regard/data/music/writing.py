"""How pieces of music become the words that a language model reads, and its words pieces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from regard.data.music import performance
from regard.data.music.grid import Grid
from regard.data.music.midi import TEMPO, read_midi
from regard.data.music.piece import Piece
from regard.errors import InputError
from regard.text.events import Events

AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing:
    """How pieces become words, and words pieces.

    Arguments:
        events: which words.
        grid: of `grid`; of `performance` for pieces that come on a grid.
        tempo: quarters a minute, for what has no tempo of its own.
    """

    events: Events = "performance"
    grid: Grid = field(default_factory=Grid)
    tempo: float = TEMPO

    def of_file(self, path: AnyPath) -> list[str]:
        """The words of a MIDI file.

        Raises:
            InputError: naming the file and what is wrong with it.
        """
        if self.events == "performance":
            return performance.to_events(read_midi(path))
        try:
            return self.grid.to_events(self.grid.steps_of(read_midi(path, times="quarters")))
        except InputError as error:
            named = str(error).startswith(str(path))
            raise error if named else InputError(f"{path}: {error}") from None

    def of_steps(self, steps: Sequence[Sequence[int | None]]) -> list[str]:
        """The words of a piece on the grid."""
        words = self.grid.to_events(steps)
        return words if self.events == "grid" else performance.to_events(self._in_seconds(self.grid.from_events(words)))

    def piece(self, words: Sequence[str]) -> Piece:
        """The piece that words say, its times in seconds.

        Raises:
            InputError: for a word that is none of them.
        """
        if self.events == "performance":
            return performance.from_events(words)
        return self._in_seconds(self.grid.from_events(words))

    def seconds(self, words: Sequence[str]) -> float:
        """How much time goes by in some words."""
        if self.events == "performance":
            return performance.seconds_of(words)
        return len(words) // self.grid.voices / self.grid.steps_per_quarter * 60 / self.tempo

    def whole(self, count: int) -> int:
        """So many words or somewhat fewer, that no step is cut in two."""
        return count if self.events == "performance" else count - count % self.grid.voices

    def _in_seconds(self, piece: Piece) -> Piece:
        quarter = 60 / self.tempo
        notes = [replace(note, start=note.start * quarter, end=note.end * quarter) for note in piece.notes]
        return Piece.of(notes, name=piece.name)
