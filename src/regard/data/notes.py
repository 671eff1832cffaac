"""Notes and pieces of music, and their event tokens: the steps of a grid, or the events of a performance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regard.errors import InputError
from regard.text.events import PITCHES, REST, VELOCITIES, WAIT, WAITS, note_name, pitch_of


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """One note.

    Arguments:
        start, end: in the piece's unit of time; `end` is later than `start`.
        pitch: MIDI pitch; 60 is middle C.
        velocity: MIDI velocity (how hard the key is pressed), 1 to 127.
        voice: the index of its voice, from 0.
    """

    start: float
    end: float
    pitch: int
    velocity: int = 80
    voice: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A piece of music: notes in order of their start.

    Arguments:
        notes: the sorted notes. `Piece.of` sorts them.
        name: the title shown to the user.
    """

    notes: tuple[Note, ...]
    name: str = ""

    @classmethod
    def of(cls, notes: Sequence[Note], name: str = "") -> Piece:
        """A piece with these notes, sorted."""
        return cls(notes=tuple(sorted(notes)), name=name)

    @property
    def length(self) -> float:
        """The end time of the last note; 0 without notes."""
        return max((note.end for note in self.notes), default=0.0)


# A grid: for each step the pitch or rest of each voice, serialised voice by voice (Huang et al. 2019).


LONGEST = 20_000
"""The most steps of a piece: more than an hour of sixteenth notes."""

Steps = list[tuple[int | None, ...]]
"""For each step the MIDI pitch of each voice, None for a rest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Conversion between pieces and event tokens on a grid of equal steps.

    A note is written as its pitch at every step where it sounds, so a repeated note and a sustained note are the same here.

    Arguments:
        voices: V, the number of voices; each step has V event tokens, the highest voice first.
        steps_per_quarter: steps per quarter note; 4 for sixteenth notes.

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
        """The event tokens of a piece that is already on the grid.

        Arguments:
            steps: for each step the MIDI pitch of each voice, None for a rest.

        Raises:
            InputError: for a step with another number of voices, or a pitch outside 0 to 127.
        """
        found: list[str] = []
        for number, step in enumerate(steps, start=1):
            if len(step) != self.voices:
                raise InputError(
                    f"step {number} has {len(step)} voices instead of {self.voices}; set the number of voices"
                )
            for pitch in step:
                if pitch is not None and not 0 <= pitch < PITCHES:
                    raise InputError(f"step {number} has the pitch {pitch}; MIDI pitches are 0 to 127")
                found.append(REST if pitch is None else note_name(pitch))
        return found

    def from_events(self, events: Sequence[str]) -> Piece:
        """The piece that event tokens encode, with times in quarter notes; an incomplete last step is left out.

        Raises:
            InputError: for a word that is neither a note nor a rest.
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
        """The steps of a piece whose times are in quarter notes; note times are rounded to steps.

        If the piece has at most as many voices as the grid, and no voice has two notes at once, each voice of the piece is
        kept. Otherwise the pitches of each step are assigned to voices from the highest to the lowest.

        Raises:
            InputError: if the piece has no notes, has more than `LONGEST` steps, or has more notes at once than voices.
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
                f"{len(found)} notes sound at once at step {number}, and the grid has {self.voices} voices; raise "
                "data.music.voices, or use data.music.events=performance, which has no such limit"
            )
        return (*found, *[None] * (self.voices - len(found)))


# Transposition.


def in_keys(text: str, farthest: int) -> Iterator[str]:
    """The event tokens of a piece, then those of its transpositions by 1 to `farthest` semitones, down and up.

    Transpositions with pitches outside MIDI's range are left out.

    >>> list(in_keys("on:C4 wait:9 off:C4", 1))
    ['on:C4 wait:9 off:C4', 'on:B3 wait:9 off:B3', 'on:C#4 wait:9 off:C#4']
    """
    yield text
    for apart in range(1, farthest + 1):
        for semitones in (-apart, apart):
            words = [_moved(word, semitones) for word in text.split()]
            if None not in words:
                yield " ".join(filter(None, words))


def _moved(word: str, semitones: int) -> str | None:
    """A transposed event token; unchanged if it has no pitch; None if the pitch leaves MIDI's range."""
    before, _, name = word.rpartition(":")
    if before in ("wait", "velocity") or not name[:1].isupper():
        return word
    pitch = pitch_of(name) + semitones
    return f"{before}:{note_name(pitch)}".removeprefix(":") if 0 <= pitch < PITCHES else None


LONGEST_SILENCE = 10.0
"""Seconds; longer times between events are shortened to this."""

_LEVEL = 128 // VELOCITIES


def to_events(piece: Piece) -> list[str]:
    """The event tokens of a piece whose times are in seconds, rounded to hundredths.

    At the same time, notes end before others begin, low pitches first. A velocity event is written when the velocity changes.
    Voices are lost, and a note that begins while the same pitch sounds ends the earlier note.

    >>> to_events(Piece.of([Note(0.0, 0.5, 60), Note(0.5, 2.0, 64)]))
    ['velocity:21', 'on:C4', 'wait:50', 'off:C4', 'on:E4', 'wait:100', 'wait:50', 'off:E4']
    """
    found: list[str] = []
    now, level = 0, 0
    for at, struck, note in _moments(piece):
        passed = min(at - now, round(LONGEST_SILENCE / WAIT))
        found += [f"wait:{WAITS}"] * (passed // WAITS) + ([f"wait:{passed % WAITS}"] if passed % WAITS else [])
        now = at
        if struck and level != note.velocity // _LEVEL + 1:
            level = note.velocity // _LEVEL + 1
            found.append(f"velocity:{level}")
        found.append(f"{'on' if struck else 'off'}:{note_name(note.pitch)}")
    return found


def from_events(events: Sequence[str]) -> Piece:
    """The piece that event tokens encode, with times in seconds.

    Inconsistent events, which a model may generate, are accepted: the end of a note that does not sound is ignored, a note
    that begins again ends the earlier one, and notes still sounding at the end of the sequence end there.

    Raises:
        InputError: for a word that is not an event token.

    >>> from_events(["on:C4", "wait:25", "off:C4"]).notes[0].end
    0.25
    """
    notes: list[Note] = []
    sounding: dict[int, tuple[float, int]] = {}
    steps, velocity = 0, 80

    def let_go(pitch: int) -> None:
        began, how_hard = sounding.pop(pitch, (steps, 0))
        if began < steps:
            notes.append(Note(began * WAIT, steps * WAIT, pitch, how_hard))

    for place, event in enumerate(events):
        kind, _, value = event.partition(":")
        if kind == "wait" and value.isdecimal() and len(value) < 10:
            steps += int(value)
        elif kind == "velocity" and value.isdecimal() and len(value) < 10:
            velocity = max(1, min(127, (int(value) - 1) * _LEVEL + _LEVEL // 2))
        elif kind in ("on", "off"):
            pitch = pitch_of(value)
            let_go(pitch)
            if kind == "on":
                sounding[pitch] = (steps, velocity)
        else:
            raise InputError(f"event {place + 1} is {event!r}; write on:C4, off:C4, wait:1 to 100 or velocity:1 to 32")
    for pitch in list(sounding):
        let_go(pitch)
    return Piece.of(notes)


def seconds_of(events: Sequence[str]) -> float:
    """The duration of a sequence of performance events, in seconds."""
    return sum(int(event.partition(":")[2]) for event in events if event.startswith("wait:")) * WAIT


def _moments(piece: Piece) -> Iterator[tuple[int, bool, Note]]:
    """(time in hundredths, whether the note begins, note) in time order; a note of zero length becomes one hundredth long."""
    moments: list[tuple[int, bool, int, Note]] = []
    until: dict[int, int] = {}
    for note in sorted(piece.notes, reverse=True):  # in reverse, so that the next start of the same pitch is known
        at = round(note.start / WAIT)
        if until.get(note.pitch) == at:
            continue  # two voices begin the same pitch
        end = min(max(round(note.end / WAIT), at + 1), until.get(note.pitch, 1 << 62))
        until[note.pitch] = at
        moments += [(at, True, note.pitch, note), (end, False, note.pitch, note)]
    for at, struck, _, note in sorted(moments, key=lambda moment: moment[:3]):
        yield at, struck, note
