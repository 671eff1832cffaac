"""MIDI files in and out, by mido."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from regard.data.music.piece import Note, Piece
from regard.errors import InputError
from regard.files import write_file
from regard.reading import read_bytes

SUFFIXES = (".mid", ".midi")
Times = Literal["seconds", "quarters"]

LARGEST = 1 << 23
"""Bytes; hours of playing fit in less."""

TICKS = 480
"""Of a quarter, in files that are written."""
TEMPO = 120.0
"""Quarters a minute where nothing says otherwise, in MIDI and here."""
DRUMS = 9
"""The channel whose pitches are no pitches."""
PEDAL, DOWN = 64, 64


def read_midi(path: str | os.PathLike[str], *, times: Times = "seconds") -> Piece:
    """The notes of a MIDI file; drums are left out, and every track and channel with notes is a voice.

    Arguments:
        times: `seconds`, by the tempo as it changes, a note sounding on while the sustain pedal is down (as in Oore et al. 2018);
            or `quarters`, by the score, without tempo and pedal.

    Raises:
        InputError: for what is missing, no MIDI file, damaged, or without notes.
    """
    file = _opened(path)
    played = sorted(_messages(file), key=lambda each: each[0])  # of one tick, the tracks in their order
    at = _seconds(played, file.ticks_per_beat) if times == "seconds" else _quarters(file.ticks_per_beat)
    notes = [
        Note(at(began), at(ended), pitch, velocity, voice)
        for began, ended, pitch, velocity, voice in _struck(played, pedal=times == "seconds")
        if ended > began
    ]
    if not notes:
        raise InputError(f"{path}: has no notes beside drums; give another file")
    return Piece.of(notes, name=Path(path).stem)


def write_midi(
    piece: Piece,
    path: str | os.PathLike[str],
    *,
    times: Times = "seconds",
    tempo: float = TEMPO,
    border: float | None = None,
) -> None:
    """Write a piece as a MIDI file, a track for each voice.

    Arguments:
        times: what the piece's times are.
        tempo: quarters a minute, where times are quarters.
        border: where in time a marker is to say that the continuation begins; none where None.

    Raises:
        InputError: mido is not installed, or the place cannot be written to; a file that was there before is then as it was.
    """
    mido = _mido()
    rate = TICKS if times == "quarters" else TICKS * TEMPO / 60
    file = mido.MidiFile(type=1, ticks_per_beat=TICKS)
    head = [(0, 0, mido.MetaMessage("set_tempo", tempo=round(6e7 / (tempo if times == "quarters" else TEMPO))))]
    if border is not None:
        head.append((round(border * rate), 1, mido.MetaMessage("marker", text="continuation")))
    file.tracks.append(_track(mido, head))
    for voice in sorted({note.voice for note in piece.notes}):
        channel = voice % DRUMS  # before that of the drums
        events = []
        for note in piece.notes:
            if note.voice == voice:
                say = {"channel": channel, "note": note.pitch}
                began, ended = round(note.start * rate), round(note.end * rate)
                events.append((began, 1, mido.Message("note_on", velocity=note.velocity, **say)))
                events.append((max(ended, began + 1), 0, mido.Message("note_off", velocity=0, **say)))
        file.tracks.append(_track(mido, events))
    buffer = io.BytesIO()
    file.save(file=buffer)
    write_file(path, buffer.getvalue())


def _track(mido: ModuleType, events: list[tuple[int, int, Any]]) -> Any:
    """Messages at their ticks, those that end notes first, as a track of differences."""
    ordered = sorted(events, key=lambda event: event[:2])
    before = [0, *(tick for tick, _, _ in ordered)]
    told = (message.copy(time=tick - past) for (tick, _, message), past in zip(ordered, before, strict=False))
    return mido.MidiTrack([*told, mido.MetaMessage("end_of_track")])


def _mido() -> ModuleType:
    try:
        import mido
    except ImportError:
        raise InputError("MIDI files need mido: pip install 'regard[midi]'") from None
    return mido


def _opened(path: str | os.PathLike[str]) -> Any:
    mido = _mido()
    content = read_bytes(path, "give a MIDI file of music", largest=LARGEST)
    if content[:4] != b"MThd":
        raise InputError(f"{path}: is no MIDI file (it does not begin with MThd); export it as standard MIDI")
    try:
        found = mido.MidiFile(file=io.BytesIO(content), clip=True)
    except Exception as error:  # the library raises whatever a read beyond the end, or a wrong byte, comes to
        what = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: is a damaged MIDI file ({what}); copy or export it again") from None
    if found.type == 2 or found.ticks_per_beat < 1:
        raise InputError(
            f"{path}: has several pieces, or times in film frames, which are not read; export it as MIDI of type 0 or 1"
        )
    return found


def _messages(file: Any) -> Iterator[tuple[int, int, Any]]:
    """(tick, track, message) of every track, its ticks counted from the beginning."""
    for number, track in enumerate(file.tracks):
        ticks = accumulate(message.time for message in track)
        yield from ((tick, number, message) for tick, message in zip(ticks, track, strict=True))


def _quarters(ticks: int) -> Any:
    return lambda tick: tick / ticks


def _seconds(played: list[tuple[int, int, Any]], ticks: int) -> Any:
    """From a tick to seconds, by every change of tempo before it."""
    changes = [(tick, message.tempo) for tick, _, message in played if message.type == "set_tempo"]
    changes = [(0, round(6e7 / TEMPO)), *changes]
    passed = (tempo * (after - tick) for (tick, tempo), (after, _) in pairwise(changes))
    until = list(accumulate(passed, initial=0))
    places = [tick for tick, _ in changes]

    def at(tick: int) -> float:
        last = bisect_right(places, tick) - 1
        return (until[last] + changes[last][1] * (tick - places[last])) / ticks / 1e6

    return at


def _struck(played: list[tuple[int, int, Any]], *, pedal: bool) -> Iterator[tuple[int, int, int, int, int]]:
    """(first tick, last tick, pitch, velocity, voice) of every note."""
    # By track, channel and pitch: two tracks that play one pitch on one channel are two notes. Pedals belong to a channel.
    sounding: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    let_go: set[tuple[int, int, int]] = set()  # keys that are up and sound on
    down: set[int] = set()  # channels whose pedal is
    voices: dict[tuple[int, int], int] = {}
    tick = 0

    def ended(key: tuple[int, int, int]) -> Iterator[tuple[int, int, int, int, int]]:
        let_go.discard(key)
        if key in sounding:
            began, velocity, voice = sounding.pop(key)
            yield began, tick, key[2], velocity, voice

    for tick, track, message in played:
        channel = getattr(message, "channel", DRUMS)
        if channel == DRUMS:
            continue
        if message.type == "note_on" and message.velocity > 0:
            key = (track, channel, message.note)
            yield from ended(key)
            voice = voices.setdefault((track, channel), len(voices))
            sounding[key] = (tick, message.velocity, voice)
        elif message.type in ("note_on", "note_off"):
            key = (track, channel, message.note)
            if channel in down:
                let_go.add(key)
            else:
                yield from ended(key)
        elif pedal and message.type == "control_change" and message.control == PEDAL:
            if message.value >= DOWN:
                down.add(channel)
            else:
                down.discard(channel)
                for key in [key for key in let_go if key[1] == channel]:
                    yield from ended(key)
    for key in list(sounding):
        yield from ended(key)
