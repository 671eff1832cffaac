"""Music as tokens: the fixed vocabularies of event tokens.

A piece is written as event tokens separated by spaces, so it can be read, written and displayed like any text.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, get_args

import tokenizers
from tokenizers import models, pre_tokenizers

from regard.errors import InputError

Events = Literal["performance", "grid"]
"""`performance`: notes on, notes off, waiting times and velocities (Oore et al. 2018). `grid`: for each step the pitch or rest of
each voice, voice by voice (Huang et al. 2019)."""
EVENTS: tuple[str, ...] = get_args(Events)

PITCHES = 128
WAITS, VELOCITIES = 100, 32
WAIT = 0.01
"""The shortest waiting time in seconds; the longest is a hundred times that."""
REST = "rest"

UNKNOWN, END, PADDING = "<unk>", "</s>", "<pad>"

NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
_PITCH_OF: Mapping[str, int] = MappingProxyType(
    {f"{NAMES[pitch % 12]}{pitch // 12 - 1}": pitch for pitch in range(PITCHES)}
)


def note_name(pitch: int) -> str:
    """The name and octave of a MIDI pitch; 60 is middle C.

    >>> note_name(60), note_name(61), note_name(0)
    ('C4', 'C#4', 'C-1')
    """
    return f"{NAMES[pitch % 12]}{pitch // 12 - 1}"


def pitch_of(name: str) -> int:
    """The MIDI pitch of a name.

    Raises:
        InputError: for an unknown name.

    >>> pitch_of("A4")
    69
    """
    try:
        return _PITCH_OF[name]
    except KeyError:
        raise InputError(f"{name!r} is not a note; write C4 for middle C, C#4 for the key above it") from None


def words(events: Events | str) -> list[str]:
    """All event tokens of a vocabulary, in the order of their ids.

    >>> len(words("performance")), len(words("grid"))
    (388, 129)
    """
    notes = list(_PITCH_OF)
    if events == "grid":
        return [REST, *notes]
    return [
        *(f"on:{name}" for name in notes),
        *(f"off:{name}" for name in notes),
        *(f"wait:{count}" for count in range(1, WAITS + 1)),
        *(f"velocity:{level}" for level in range(1, VELOCITIES + 1)),
    ]


def backend(events: Events | str) -> tokenizers.Tokenizer:
    """The tokenizer: `</s>`, `<unk>`, the event tokens, and `<pad>`.

    >>> backend("grid").encode("C4 rest").tokens
    ['C4', 'rest']
    """
    vocabulary = {word: index for index, word in enumerate([END, UNKNOWN, *words(events)])}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([END, UNKNOWN, PADDING])
    return tokenizer


def events_in(layout: Mapping[str, object]) -> str | None:
    """The kind of event tokens in the content of a tokenizer.json, one of `EVENTS`; None for other tokenizers."""
    model, splitter = layout.get("model"), layout.get("pre_tokenizer")
    if not isinstance(model, dict) or not isinstance(splitter, dict) or splitter.get("type") != "WhitespaceSplit":
        return None
    known = set(model.get("vocab", ()))
    return next((events for events in EVENTS if {END, UNKNOWN, *words(events)} == known), None)
