"""A piece on a grid: at each step the pitch of each voice, or its rest, voice by voice (Huang et al. 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.music.piece import Note, Piece
from regard.errors import InputError
from regard.text.events import PITCHES, REST, note_name, pitch_of

LONGEST = 20_000
"""Steps of a piece: an hour and more of sixteenths."""

Steps = list[tuple[int | None, ...]]
"""At each step a pitch for each voice, None for a rest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """How a piece is laid on a grid, and read from it.

    A note that lasts is its pitch at every step at which it sounds; so a pitch struck twice and one that lasts are the same here.

    Arguments:
        voices: V, how many; at each step there are so many words, the highest voice first.
        steps_per_quarter: steps of a quarter note; 4 for sixteenths.

    >>> grid = Grid(voices=2, steps_per_quarter=1)
    >>> words = grid.to_events([(67, 60), (67, None)])
    >>> words
    ['G4', 'C4', 'G4', 'rest']
    >>> [(note.pitch, note.start, note.end) for note in grid.from_events(words).notes]
    [(60, 0.0, 1.0), (67, 0.0, 2.0)]
    """

    voices: int = 4
    steps_per_quarter: int = 4

    def to_events(self, steps: Sequence[Sequence[int | None]]) -> list[str]:
        """The words of a piece already on the grid.

        Raises:
            InputError: for a step of another number of voices, or a pitch that MIDI does not have.
        """
        found: list[str] = []
        for number, step in enumerate(steps, start=1):
            if len(step) != self.voices:
                raise InputError(
                    f"step {number} has {len(step)} voices and not {self.voices}; set the number of voices"
                )
            for pitch in step:
                if pitch is not None and not 0 <= pitch < PITCHES:
                    raise InputError(f"step {number} has the pitch {pitch}; MIDI's are 0 to 127")
                found.append(REST if pitch is None else note_name(pitch))
        return found

    def from_events(self, events: Sequence[str]) -> Piece:
        """The piece that words say, its times in quarters; a last step that is not whole is left out.

        Raises:
            InputError: for a word that is no note and no rest.
        """
        pitches = [None if event == REST else pitch_of(event) for event in events]
        whole = len(pitches) // self.voices
        notes: list[Note] = []
        for voice in range(self.voices):
            line = pitches[voice : whole * self.voices : self.voices]
            began = 0
            for step in range(1, whole + 1):
                if step < whole and line[step] == line[began]:
                    continue
                pitch = line[began]
                if pitch is not None:
                    times = (began / self.steps_per_quarter, step / self.steps_per_quarter)
                    notes.append(Note(*times, pitch=pitch, voice=voice))
                began = step
        return Piece.of(notes)

    def steps_of(self, piece: Piece) -> Steps:
        """A piece whose times are quarters, laid on the grid: at each step what sounds in its middle.

        Where the piece has as many voices as the grid or fewer, and none of them sounds twice at once, each keeps its own;
        otherwise what sounds is dealt out from the top.

        Raises:
            InputError: for a piece without notes or of more than `LONGEST` steps, or with more notes at once than voices.
        """
        count = round(piece.length * self.steps_per_quarter)
        if not piece.notes or count > LONGEST:
            raise InputError(f"has {count:,} steps; a piece has 1 to {LONGEST:,}")
        sounding: list[list[Note]] = [[] for _ in range(max(count, 1))]
        for note in piece.notes:
            first = round(note.start * self.steps_per_quarter)
            last = max(round(note.end * self.steps_per_quarter), first + 1)
            for step in sounding[first:last]:
                step.append(note)
        parts = sorted({note.voice for note in piece.notes})
        apart = len(parts) <= self.voices and all(len({note.voice for note in step}) == len(step) for step in sounding)
        return [self._dealt(step, parts if apart else (), number) for number, step in enumerate(sounding, start=1)]

    def _dealt(self, notes: Sequence[Note], parts: Sequence[int], number: int) -> tuple[int | None, ...]:
        if parts:
            by_part = {note.voice: note.pitch for note in notes}
            found: Sequence[int | None] = [by_part.get(part) for part in parts]
        else:
            found = sorted({note.pitch for note in notes}, reverse=True)
        if len(found) > self.voices:
            raise InputError(
                f"{len(found)} notes sound at once at step {number} and the grid has room for {self.voices}; events of a "
                "performance (data.music.events) have no such limit"
            )
        return (*found, *[None] * (self.voices - len(found)))
