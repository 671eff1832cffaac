"""Pieces of music in files: MIDI and chorales, and the words that a language model reads them as."""

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
"""Quarters a minute where nothing says otherwise, in MIDI and here."""


def read_pieces(
    places: AnyPath | Sequence[AnyPath],
    writing: Writing,
    *,
    split: Split = "train",
    malformed: MalformedRows | None = None,
) -> Iterator[str]:
    """The pieces at some places, the words of each with spaces between; no more than one file is held in memory.

    Arguments:
        places: MIDI files, folders in which all of them are taken, files of chorales (.json) with their splits.
        split: of files of chorales.
        malformed: where files of a folder are recorded that cannot be used, and left out.

    Raises:
        InputError: for a place that is missing, a file named by itself that cannot be used, a folder without a usable one.
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
    """Whether the places are files of chorales with pieces of that split in each.

    Raises:
        InputError: for a file of chorales that is none.
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
            said = str(error).removeprefix(f"{path}: ").split(";")[0]
            malformed.record(MalformedRow(file=str(path), line=1, unit="piece", reason="unusable piece", detail=said))
            continue
        used += 1
        yield " ".join(words)
    if not used:
        raise InputError(f"{folder}: none of its {len(files)} MIDI files can be used; the first: {reason}")


# Writing: how pieces become words, and words pieces.


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
            return to_events(read_midi(path))
        try:
            return self.grid.to_events(self.grid.steps_of(read_midi(path, times="quarters")))
        except InputError as error:
            named = str(error).startswith(str(path))
            raise error if named else InputError(f"{path}: {error}") from None

    def of_steps(self, steps: Sequence[Sequence[int | None]]) -> list[str]:
        """The words of a piece on the grid."""
        words = self.grid.to_events(steps)
        return words if self.events == "grid" else to_events(self._in_seconds(self.grid.from_events(words)))

    def piece(self, words: Sequence[str]) -> Piece:
        """The piece that words say, its times in seconds.

        Raises:
            InputError: for a word that is none of them.
        """
        if self.events == "performance":
            return from_events(words)
        return self._in_seconds(self.grid.from_events(words))

    def seconds(self, words: Sequence[str]) -> float:
        """How much time goes by in some words."""
        if self.events == "performance":
            return seconds_of(words)
        return len(words) // self.grid.voices / self.grid.steps_per_quarter * 60 / self.tempo

    def whole(self, count: int) -> int:
        """So many words or somewhat fewer, that no step is cut in two."""
        return count if self.events == "performance" else count - count % self.grid.voices

    def _in_seconds(self, piece: Piece) -> Piece:
        quarter = 60 / self.tempo
        notes = [replace(note, start=note.start * quarter, end=note.end * quarter) for note in piece.notes]
        return Piece.of(notes, name=piece.name)


# MIDI files in and out, by mido.

SUFFIXES = (".mid", ".midi")
Times = Literal["seconds", "quarters"]

LARGEST = 1 << 23
"""Bytes; hours of playing fit in less."""

TICKS = 480
"""Of a quarter, in files that are written."""
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


# Files of chorales: JSON of splits, in each of them pieces, in each of these the pitches of every step.

Split = Literal["train", "validation", "test"]
_NAMES = {"train": ("train",), "validation": ("valid", "validation", "val"), "test": ("test",)}

SILENT = -1


def read_chorales(path: str | os.PathLike[str], split: Split = "train", *, voices: int = 4) -> list[Steps]:
    """The pieces of one split of a file such as the JSB chorales' (Boulanger-Lewandowski et al. 2012).

    Where every step of a piece has as many numbers as there are voices, each is of its own voice, -1 for a rest; otherwise what
    sounds is dealt out from the top.

    Raises:
        InputError: for what is missing or no such file, and for a step of more pitches than voices.

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
        raise InputError(f"{path}: {_NAMES[split][0]} is no list of pieces; give a file of chorales")
    return [_piece(piece, voices, f"{path}, {split} piece {number}") for number, piece in enumerate(found, start=1)]


def has_split(path: str | os.PathLike[str], split: Split) -> bool:
    """Whether a file has pieces of that split.

    Raises:
        InputError: as `read_chorales`.
    """
    values = _values(path)
    return any(values.get(name) for name in _NAMES[split])


def _values(path: str | os.PathLike[str]) -> dict[str, Any]:
    values = read_json(path, "give a file of chorales, or MIDI files")
    if not isinstance(values, dict):
        raise InputError(
            f'{path}: holds no chorales; they are an object {{"train": [...], "valid": [...], "test": [...]}}'
        )
    return values


def _piece(piece: Any, voices: int, where: str) -> Steps:
    if not isinstance(piece, list) or not piece:
        raise InputError(f"{where}: is no list of steps; each step is a list of MIDI pitches")
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
        raise InputError(f"{where}: {step!r} is no list of MIDI pitches, 0 to 127 or -1 for a rest")
    return [int(pitch) for pitch in step]
