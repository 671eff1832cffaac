"""Composition: a language model of music continues a piece, or writes a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from regard.data.music import Writing
from regard.data.notes import Piece
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.structure import from_mapping
from regard.tasks.language_task import TextData
from regard.text.events import EVENTS

if TYPE_CHECKING:
    from regard.tasks.language_modelling import LanguageModel

COMPOSING = GenerationSettings(maximum_length=256, sample=True)
"""The default decoding settings for music: sampling, because greedy search soon repeats itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Composition:
    """A prompt and its continuation.

    Arguments:
        prompt, continuation: the words of both.
        log_probabilities: of each word of the continuation, natural log; one more if the piece ended before the limit.
        finished: whether the piece ended with the end token, and not at the limit.
        piece: both together, with times in seconds.
        border: the time at which the continuation begins, in seconds.
    """

    prompt: tuple[str, ...]
    continuation: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    finished: bool
    piece: Piece
    border: float


def writing_of(model: LanguageModel, *, tempo: float | None = None) -> Writing:
    """The encoding of a music model's words, from its recipe, or else from its tokenizer.

    Arguments:
        tempo: quarter notes per minute, for encodings without a tempo; None = 120.

    Raises:
        InputError: for a model that reads texts.
    """
    kind = model.task.tokenizer.kind
    if kind not in EVENTS:
        raise InputError(f"this model has a tokenizer of kind {kind}, for texts and not for music; use regard generate")
    section = model.recipe.get("data")
    writing = from_mapping(TextData, section, "the recipe's data").writing if section else None
    if writing is None or writing.events != kind:
        writing = replace(Writing(), events=kind)
    return writing if tempo is None else replace(writing, tempo=tempo)


def compose(
    model: LanguageModel,
    prompt: Sequence[str] = (),
    settings: GenerationSettings | None = None,
    *,
    writing: Writing | None = None,
) -> Composition:
    """Continue a piece of music, or compose a new one.

    Arguments:
        model: a language model of music.
        prompt: the words to continue; empty = a new piece.
        settings: how to decode; None = `COMPOSING`.
        writing: the encoding of words; None = that of `writing_of`.

    Raises:
        InputError: for a model that reads texts, a prompt that is longer than the model's positions, or an unknown word in it.
    """
    found = writing_of(model) if writing is None else writing
    begun = found.piece(prompt)  # raises an error with the position of a wrong word
    written = model.generate(" ".join(prompt), COMPOSING if settings is None else settings)
    words = written.text.split()
    return Composition(
        prompt=tuple(prompt),
        continuation=tuple(words),
        log_probabilities=written.log_probabilities,
        finished=written.finished,
        piece=replace(found.piece([*prompt, *words]), name=begun.name),
        border=found.seconds(prompt),
    )
