"""A language model of music goes on with a piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.data.music import Piece, Writing
from regard.errors import InputError
from regard.generation import GenerationSettings
from regard.structure import from_mapping
from regard.tasks.language_modelling.data import TextData
from regard.tasks.language_modelling.language_model import LanguageModel
from regard.text.events import EVENTS

COMPOSING = GenerationSettings(maximum_length=256, sample=True)
"""How music is written unless told otherwise: drawn, because the most probable event each time soon goes round in circles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Composition:
    """A prompt and what a model wrote after it.

    Arguments:
        prompt, continuation: the words of both.
        log_probabilities: of each word of the continuation, natural log, the model's own; one more where it ended by itself.
        finished: whether it ended by itself, and not at the limit.
        piece: both together, its times in seconds.
        border: where in time the continuation begins.
    """

    prompt: tuple[str, ...]
    continuation: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    finished: bool
    piece: Piece
    border: float


def writing_of(model: LanguageModel, *, tempo: float | None = None) -> Writing:
    """How the words of a model of music are read: as its recipe has it, and its tokenizer where that says nothing.

    Arguments:
        tempo: quarters a minute, for what has no tempo of its own; 120 where None.

    Raises:
        InputError: for a model that reads texts.
    """
    kind = model.task.tokenizer.kind
    if kind not in EVENTS:
        raise InputError(f"this model reads texts by a tokenizer of kind {kind}, and no music; use regard generate")
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
    """Go on with a piece, or begin one.

    Arguments:
        model: of music.
        prompt: the words that stand before; none to begin a piece.
        settings: how to decode; `COMPOSING` where None.
        writing: how words are read; that of `writing_of` where None.

    Raises:
        InputError: for a model that reads texts, a prompt that is longer than the model has positions for, or a word in it that
            the model does not have.
    """
    found = writing_of(model) if writing is None else writing
    begun = found.piece(prompt)  # so that a wrong word is told by its place
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
