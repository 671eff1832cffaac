"""The preparation of language modelling: the readers of builtin texts and of music, and texts as stretches of tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from regard.data.music import own_split, read_pieces
from regard.data.running_text import python_docs
from regard.errors import InputError
from regard.tasks.examples import Place, Reader
from regard.tasks.language_task import TextData
from regard.tasks.preparation import TRAIN, VALIDATION
from regard.text import Tokenizer

ONE_TEXT = (
    "the training text is one document, so none can be held out for validation; name data.validation, or split it with "
    "data.unit=line"
)


def builtin_texts(data: TextData, seed: int) -> tuple[Reader[str], Reader[str] | None] | None:
    """The readers of builtin texts, or of music, for training and validation; None for text files.

    The second is None if files of music have no validation split.
    """
    if data.builtin is not None:
        return (lambda _: python_docs(TRAIN)), (lambda _: python_docs(VALIDATION))
    sampled = data.maps or data.repeats
    if sampled is not None:
        texts = sampled.texts(TRAIN, sampled.size, seed), sampled.texts(VALIDATION, sampled.validation_size, seed)
        return (lambda _: texts[0]), (lambda _: texts[1])
    if data.motifs is not None:
        motifs = data.motifs
        sets = motifs.melodies(TRAIN, motifs.size, seed), motifs.melodies(VALIDATION, motifs.validation_size, seed)
        return (lambda _: sets[0]), (lambda _: sets[1])
    writing = data.writing
    if writing is None:
        return None
    if data.train is None:
        raise InputError("data.train is missing; name a folder of MIDI files, or data.music=null data.motifs={}")

    def pieces(places: Place, split: str) -> Reader[str]:
        # A file of chorales can have both splits.
        own = split if split == VALIDATION and own_split(places, split) else TRAIN
        return lambda malformed: read_pieces(places, writing, split=own, malformed=malformed)

    validation = data.validation or (data.train if own_split(data.train, VALIDATION) else None)
    return pieces(data.train, TRAIN), None if validation is None else pieces(validation, VALIDATION)


def check_words(data: TextData, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that does not have the words of the music."""
    writing = data.writing
    if writing is not None and tokenizer.kind != writing.events:
        where = "data.motifs" if data.music is None else f"data.music.events={writing.events}"
        raise InputError(
            f"the tokenizer is of kind {tokenizer.kind}, and {where} needs another one; give tokenizer.kind={writing.events}"
        )


def stretches_of(texts: Iterable[str], tokenizer: Tokenizer, length: int) -> Iterator[list[int]]:
    """All texts as one stream, with an end token before, between and after them, cut into parts of `length` predicted tokens.

    Adjacent parts share a token: the last predicted one is the first input of the next part. The last part can be shorter.
    """
    end = tokenizer.end_id
    waiting = [end]
    iterator = iter(texts)
    while chunk := list(itertools.islice(iterator, 1024)):
        for ids in tokenizer.encode_batch(chunk):
            waiting += [*ids, end]
            whole = (len(waiting) - 1) // length * length
            yield from (waiting[start : start + length + 1] for start in range(0, whole, length))
            waiting = waiting[whole:]
    if len(waiting) > 1:
        yield waiting
