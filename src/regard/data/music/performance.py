"""A piece as events of a performance: notes struck and let go, time going by, how hard (Oore et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from regard.data.music.events import Note, Piece
from regard.errors import InputError
from regard.text.events import VELOCITIES, WAIT, WAITS, note_name, pitch_of

LONGEST_SILENCE = 10.0
"""Seconds; where nothing is struck or let go for longer, that much passes."""

_LEVEL = 128 // VELOCITIES


def to_events(piece: Piece) -> list[str]:
    """The words of a piece whose times are seconds, rounded to hundredths.

    At one moment notes are let go before others are struck, low ones first; how hard is said where it changes. Voices are lost,
    and a note that is struck while it sounds is let go before.

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
    """The piece that words say, its times in seconds.

    What a model may write and no player would is understood: a note let go that does not sound is nothing, one struck again ends
    before, and what still sounds in the end ends then.

    Raises:
        InputError: for a word that is no event.

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
        if kind == "wait" and value.isdecimal():
            steps += int(value)
        elif kind == "velocity" and value.isdecimal():
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
    """How much time goes by in them."""
    return sum(int(event.partition(":")[2]) for event in events if event.startswith("wait:")) * WAIT


def _moments(piece: Piece) -> Iterator[tuple[int, bool, Note]]:
    """(hundredths, whether struck, note) in the order of time; a note of no length is made one hundredth long."""
    moments: list[tuple[int, bool, int, Note]] = []
    until: dict[int, int] = {}
    for note in sorted(piece.notes, reverse=True):  # from the back, so that each knows when its key is struck next
        at = round(note.start / WAIT)
        if until.get(note.pitch) == at:
            continue  # two voices strike one key
        end = min(max(round(note.end / WAIT), at + 1), until.get(note.pitch, 1 << 62))
        until[note.pitch] = at
        moments += [(at, True, note.pitch, note), (end, False, note.pitch, note)]
    for at, struck, _, note in sorted(moments, key=lambda moment: moment[:3]):
        yield at, struck, note
