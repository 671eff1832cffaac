"""Reading and writing pieces of music: MIDI files, chorales in JSON, and the event tokens of a language model."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from regard.data.malformed import MalformedRow, MalformedRows
from regard.data.notes import Grid, Note, Piece, Steps, from_events, seconds_of, to_events
from regard.errors import InputError
from regard.files import write_file
from regard.reading import AnyPath, read_bytes, read_json
from regard.text.events import Events

TEMPO = 120.0
"""The default tempo of MIDI, in quarter notes per minute."""


def read_pieces(
    places: AnyPath | Sequence[AnyPath],
    writing: Writing,
    *,
    split: Split = "train",
    malformed: MalformedRows | None = None,
) -> Iterator[str]:
    """Read pieces as texts of event tokens separated by spaces; at most one file is held in memory.

    Arguments:
        places: paths of MIDI files, of folders (all their MIDI files are read), or of chorales in JSON (.json).
        writing: how pieces are converted to event tokens.
        split: the split that is read from files of chorales.
        malformed: where unusable files in folders are recorded; they are left out.

    Raises:
        InputError: for a missing path, an unusable file that is given directly, or a folder without a usable file.
    """
    for place in [places] if isinstance(places, str | os.PathLike) else places:
        path = Path(place)
        if path.is_dir():
            yield from _in_folder(path, writing, MalformedRows() if malformed is None else malformed)
        elif path.suffix.lower() == ".json":
            pieces = read_chorales(path, split, voices=writing.grid.voices)
            yield from (" ".join(writing.of_steps(piece)) for piece in pieces)
        else:
            yield " ".join(writing.of_file(path))


def own_split(places: AnyPath | Sequence[AnyPath], split: Split) -> bool:
    """Whether all paths are files of chorales that contain pieces of this split.

    Raises:
        InputError: for a .json file that is not a file of chorales.
    """
    each = [Path(place) for place in ([places] if isinstance(places, str | os.PathLike) else places)]
    return all(path.suffix.lower() == ".json" and has_split(path, split) for path in each)


def _in_folder(folder: Path, writing: Writing, malformed: MalformedRows) -> Iterator[str]:
    files = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not files:
        others = sorted(path.name for path in folder.glob("*.json"))
        hint = f"name the file of chorales itself, {folder / others[0]}" if others else "give one with .mid files in it"
        raise InputError(f"{folder}: has no MIDI files in it; {hint}")
    used, reason = 0, ""
    for path in files:
        try:
            words = writing.of_file(path)
        except InputError as error:
            reason = reason or str(error)
            detail = str(error).removeprefix(f"{path}: ").split(";")[0]
            malformed.record(MalformedRow(file=str(path), line=1, unit="piece", reason="unusable piece", detail=detail))
            continue
        used += 1
        yield " ".join(words)
    if not used:
        raise InputError(f"{folder}: none of its {len(files)} MIDI files can be used; the first: {reason}")


# Conversion between pieces and event tokens.


@dataclass(frozen=True, kw_only=True, slots=True)
class Writing:
    """Conversion between pieces and event tokens.

    Arguments:
        events: the kind of event tokens: `grid` (a pitch per voice and step) or `performance` (notes on and off, waits).
        grid: the grid, used if `events` is `grid` and for pieces that are given on a grid.
        tempo: quarter notes per minute, for pieces without a tempo of their own.
    """

    events: Events = "performance"
    grid: Grid = field(default_factory=Grid)
    tempo: float = TEMPO

    def of_file(self, path: AnyPath) -> list[str]:
        """The event tokens of a MIDI file.

        Raises:
            InputError: if the file cannot be used; the message names the file.
        """
        if self.events == "performance":
            return to_events(read_midi(path))
        try:
            return self.grid.to_events(self.grid.steps_of(read_midi(path, times="quarters")))
        except InputError as error:
            named = str(error).startswith(str(path))
            raise error if named else InputError(f"{path}: {error}") from None

    def of_steps(self, steps: Sequence[Sequence[int | None]]) -> list[str]:
        """The event tokens of a piece on the grid.

        Arguments:
            steps: for each step the MIDI pitch of each voice, None for a rest.
        """
        words = self.grid.to_events(steps)
        return words if self.events == "grid" else to_events(self._in_seconds(self.grid.from_events(words)))

    def piece(self, words: Sequence[str]) -> Piece:
        """The piece that event tokens encode, with times in seconds.

        Raises:
            InputError: for a word that is not an event token.
        """
        if self.events == "performance":
            return from_events(words)
        return self._in_seconds(self.grid.from_events(words))

    def seconds(self, words: Sequence[str]) -> float:
        """The duration of a sequence of event tokens, in seconds."""
        if self.events == "performance":
            return seconds_of(words)
        return len(words) // self.grid.voices / self.grid.steps_per_quarter * 60 / self.tempo

    def whole(self, count: int) -> int:
        """The largest number of event tokens up to `count` that does not split a step."""
        return count if self.events == "performance" else count - count % self.grid.voices

    def _in_seconds(self, piece: Piece) -> Piece:
        quarter = 60 / self.tempo
        notes = [replace(note, start=note.start * quarter, end=note.end * quarter) for note in piece.notes]
        return Piece.of(notes, name=piece.name)


# Reading and writing MIDI files with mido.

SUFFIXES = (".mid", ".midi")
Times = Literal["seconds", "quarters"]

LARGEST = 1 << 23
"""The most bytes of a MIDI file; hours of music fit in less."""

TICKS = 480
"""Ticks per quarter note in files that are written."""
DRUMS = 9
"""The percussion channel, where note numbers are instruments and not pitches."""
PEDAL, DOWN = 64, 64
"""The controller number of the sustain pedal, and the smallest value that means pressed."""


def read_midi(path: str | os.PathLike[str], *, times: Times = "seconds") -> Piece:
    """Read the notes of a MIDI file. Drums are left out; each (track, channel) with notes is a voice.

    Arguments:
        path: the path of the file.
        times: the unit of note times. `seconds` follows tempo changes, and a note lasts while the sustain pedal is pressed
            (as in Oore et al. 2018). `quarters` are quarter notes of the score; tempo and pedal are ignored.

    Raises:
        InputError: if the file is missing, is not a MIDI file, is damaged, or has no notes.
    """
    file = _opened(path)
    played = sorted(_messages(file), key=lambda each: each[0])  # a stable sort: tracks stay in order within a tick
    at = _seconds(played, file.ticks_per_beat) if times == "seconds" else _quarters(file.ticks_per_beat)
    notes = [
        Note(at(began), at(ended), pitch, velocity, voice)
        for began, ended, pitch, velocity, voice in _struck(played, pedal=times == "seconds")
        if ended > began
    ]
    if not notes:
        raise InputError(f"{path}: has no notes besides drums; give another file")
    return Piece.of(notes, name=Path(path).stem)


def write_midi(
    piece: Piece,
    path: str | os.PathLike[str],
    *,
    times: Times = "seconds",
    tempo: float = TEMPO,
    border: float | None = None,
) -> None:
    """Write a piece as a MIDI file with a track for each voice.

    Arguments:
        piece: the piece.
        path: the path of the file. If writing fails, a previous file stays unchanged.
        times: the unit of the piece's times.
        tempo: quarter notes per minute, used if `times` is `quarters`.
        border: the time of a marker "continuation"; None for no marker.

    Raises:
        InputError: if mido is not installed or the file cannot be written.
    """
    mido = _mido()
    rate = TICKS if times == "quarters" else TICKS * TEMPO / 60
    file = mido.MidiFile(type=1, ticks_per_beat=TICKS)
    head = [(0, 0, mido.MetaMessage("set_tempo", tempo=round(6e7 / (tempo if times == "quarters" else TEMPO))))]
    if border is not None:
        head.append((round(border * rate), 1, mido.MetaMessage("marker", text="continuation")))
    file.tracks.append(_track(mido, head))
    for voice in sorted({note.voice for note in piece.notes}):
        channel = voice % DRUMS  # channels 0 to 8, below the drums
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
    """A track of messages sorted by tick, with relative times; at the same tick, notes end before others begin."""
    ordered = sorted(events, key=lambda event: event[:2])
    before = [0, *(tick for tick, _, _ in ordered)]
    relative = (message.copy(time=tick - past) for (tick, _, message), past in zip(ordered, before, strict=False))
    return mido.MidiTrack([*relative, mido.MetaMessage("end_of_track")])


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
        raise InputError(f"{path}: is not a MIDI file (it does not begin with MThd); export it as standard MIDI")
    try:
        found = mido.MidiFile(file=io.BytesIO(content), clip=True)
    except Exception as error:  # mido raises many kinds of errors for truncated files and wrong bytes
        what = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path}: is a damaged MIDI file ({what}); copy or export it again") from None
    if found.type == 2 or found.ticks_per_beat < 1:
        raise InputError(
            f"{path}: contains several pieces, or times in film frames, which is not supported; export it as MIDI type 0 or 1"
        )
    return found


def _messages(file: Any) -> Iterator[tuple[int, int, Any]]:
    """(tick, track, message) for all tracks, with ticks counted from the beginning."""
    for number, track in enumerate(file.tracks):
        ticks = accumulate(message.time for message in track)
        yield from ((tick, number, message) for tick, message in zip(ticks, track, strict=True))


def _quarters(ticks: int) -> Any:
    return lambda tick: tick / ticks


def _seconds(played: list[tuple[int, int, Any]], ticks: int) -> Any:
    """A function that converts a tick to seconds, following all tempo changes before it."""
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
    # Keys are (track, channel, pitch): two tracks that play the same pitch on the same channel are two notes. A pedal belongs to
    # a channel.
    sounding: dict[tuple[int, int, int], tuple[int, int, int]] = {}
    let_go: set[tuple[int, int, int]] = set()  # keys that are released but sustained by the pedal
    down: set[int] = set()  # channels whose pedal is pressed
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


# Files of chorales: a JSON object of splits; a split is a list of pieces, a piece a list of steps, a step a list of pitches.

Split = Literal["train", "validation", "test"]
_NAMES = {"train": ("train",), "validation": ("valid", "validation", "val"), "test": ("test",)}

SILENT = -1
"""The number that means a rest."""


def read_chorales(path: str | os.PathLike[str], split: Split = "train", *, voices: int = 4) -> list[Steps]:
    """The pieces in one split of a file of chorales, such as the JSB chorales (Boulanger-Lewandowski et al. 2012).

    If every step of a piece has `voices` numbers, number v belongs to voice v, and -1 is a rest. Otherwise the pitches of
    each step are assigned to voices from the highest to the lowest.

    Arguments:
        path: the path of the JSON file.
        split: the split to read.
        voices: the number of voices.

    Returns:
        For each piece, a list of steps; a step is a tuple with the MIDI pitch of each voice, None for a rest.

    Raises:
        InputError: if the file is missing, is not a file of chorales, or has a step with more pitches than voices.

    >>> import tempfile
    >>> from pathlib import Path
    >>> file = Path(tempfile.mkdtemp()) / "chorales.json"
    >>> _ = file.write_text('{"train": [[[60, 67], [62]]], "valid": [], "test": []}')
    >>> read_chorales(file, voices=3)
    [[(67, 60, None), (62, None, None)]]
    """
    values = _values(path)
    found = next((values[name] for name in _NAMES[split] if name in values), None)
    if found is None:
        raise InputError(f"{path}: has no {_NAMES[split][0]} pieces; it has {', '.join(map(str, values)) or 'nothing'}")
    if not isinstance(found, list):
        raise InputError(f"{path}: {_NAMES[split][0]} is not a list of pieces; give a file of chorales")
    return [_piece(piece, voices, f"{path}, {split} piece {number}") for number, piece in enumerate(found, start=1)]


def has_split(path: str | os.PathLike[str], split: Split) -> bool:
    """Whether a file of chorales has pieces in this split.

    Raises:
        InputError: as `read_chorales`.
    """
    values = _values(path)
    return any(values.get(name) for name in _NAMES[split])


def _values(path: str | os.PathLike[str]) -> dict[str, Any]:
    values = read_json(path, "give a file of chorales, or MIDI files")
    if not isinstance(values, dict):
        raise InputError(
            f'{path}: is not a file of chorales, which is an object {{"train": [...], "valid": [...], "test": [...]}}'
        )
    return values


def _piece(piece: Any, voices: int, where: str) -> Steps:
    if not isinstance(piece, list) or not piece:
        raise InputError(f"{where}: is not a list of steps; each step is a list of MIDI pitches")
    steps = [_pitches(step, f"{where}, step {number}") for number, step in enumerate(piece, start=1)]
    apart = all(len(step) == voices for step in steps)
    found: Steps = []
    for number, step in enumerate(steps, start=1):
        pitches: Sequence[int | None] = [None if pitch == SILENT else pitch for pitch in step]
        if not apart:
            pitches = sorted({pitch for pitch in step if pitch != SILENT}, reverse=True)
        if len(pitches) > voices:
            raise InputError(
                f"{where}, step {number}: {len(pitches)} pitches for {voices} voices; raise data.music.voices"
            )
        found.append((*pitches, *[None] * (voices - len(pitches))))
    return found


def _pitches(step: Any, where: str) -> list[int]:
    right = isinstance(step, list) and all(
        isinstance(pitch, int | float) and pitch == int(pitch) and SILENT <= pitch < 128 for pitch in step
    )
    if not right:
        raise InputError(f"{where}: {step!r} is not a list of MIDI pitches, 0 to 127 or -1 for a rest")
    return [int(pitch) for pitch in step]
