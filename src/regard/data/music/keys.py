"""The same music in other keys."""

from __future__ import annotations

from collections.abc import Iterator

from regard.text.events import PITCHES, note_name, pitch_of


def in_keys(text: str, farthest: int) -> Iterator[str]:
    """The words of a piece, then those of the same moved by 1 to so many semitones, down and up, where MIDI can say it.

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
    """A word so many semitones higher; one without a pitch as it is; None for a pitch that MIDI does not have."""
    before, _, name = word.rpartition(":")
    if before in ("wait", "velocity") or not name[:1].isupper():
        return word
    pitch = pitch_of(name) + semitones
    return f"{before}:{note_name(pitch)}".removeprefix(":") if 0 <= pitch < PITCHES else None
