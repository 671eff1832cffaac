"""From texts to a token store that a language model is trained on."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.data.malformed import MalformedRows
from regard.data.music.events import in_keys
from regard.data.music.files import own_split, read_pieces
from regard.data.python_docs import python_docs
from regard.data.rows import texts_of_rows
from regard.data.running_text import read_texts
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.language_modelling.data import Place, TextData
from regard.tasks.language_modelling.task import COLUMN, LanguageModellingTask
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, TokenizerSettings, finish, is_prepared, opened
from regard.text import Tokenizer

Texts = Sequence[str] | Sequence[Mapping[str, object]]
Reader = Callable[[MalformedRows], Iterable[str]]


def prepare(
    data: TextData,
    tokenizer: TokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Texts | None = None,
    given_validation: Texts | None = None,
) -> Prepared[LanguageModellingTask]:
    """Read the data once for the tokenizer and once for the tokens, and leave both in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of the choice of held-out documents.
        given, given_validation: texts in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read, or too little of it.
    """
    if not is_prepared(folder):
        finish(folder, _prepared(data, tokenizer, folder, seed, given, given_validation))
    task = LanguageModellingTask.load(folder, {})
    return opened(replace(task, document_masks=data.document_masks), folder)


def _prepared(
    data: TextData,
    settings: TokenizerSettings,
    folder: Path,
    seed: int,
    given: Texts | None,
    given_validation: Texts | None,
) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in (TRAIN, VALIDATION, ".*.partial"):  # of a preparation that was killed
        for path in folder.glob(name):
            shutil.rmtree(path, ignore_errors=True)
    train = _reader(data, data.train, "train", given, seed)
    validation = (
        _reader(data, data.validation, "validation", given_validation, seed)
        if given_validation is not None or data.validation is not None or (given is None and _brings_validation(data))
        else None
    )
    malformed, counted = MalformedRows(), 0

    def texts() -> Iterator[str]:
        nonlocal counted
        for text in train(malformed):
            counted += 1
            yield text

    if settings.path is not None:
        tokenizer = Tokenizer.load(settings.path)
    else:
        tokenizer = Tokenizer.train(
            texts(),
            kind=settings.kind,
            size=settings.size,
            lowercase=settings.lowercase,
            sentinels=settings.sentinels,
        )
    _check_words(data, tokenizer)
    tokenizer.save(folder)
    if not counted:  # where nothing had to be learnt of them
        counted = sum(1 for _ in train(malformed))
    held_out: frozenset[int] = frozenset()
    if validation is None:
        held_out = _held_out(counted, data.validation_share, seed)
    farthest = 0 if data.music is None else data.music.transpose
    kept = (
        moved
        for i, text in enumerate(train(MalformedRows()))
        if i not in held_out
        for moved in (in_keys(text, farthest) if farthest else (text,))
    )
    others = (
        validation(malformed)
        if validation is not None
        else (text for i, text in enumerate(train(MalformedRows())) if i in held_out)
    )
    for name, chosen, tokens in ((TRAIN, kept, data.tokens), (VALIDATION, others, None)):
        whole = None if tokens is None else tokens // data.length
        rows = ((stretch,) for stretch in itertools.islice(_stretches(chosen, tokenizer, data.length), whole))
        if len(TokenStore.write(folder / name, {COLUMN: tokenizer.size}, rows)) == 0:
            raise InputError(f"the {name} texts are empty; give some")
    return malformed.notes


def _held_out(count: int, share: float, seed: int) -> frozenset[int]:
    """Which documents are held out: the share asked for, one at least."""
    if count < 2:
        raise InputError(
            "the training text is one document, and none can be held out for validation; name data.validation, or cut it "
            "with data.unit=line"
        )
    generator = np.random.Generator(np.random.Philox(key=[seed, 0x56A1]))
    size = min(count - 1, max(1, round(share * count)))
    return frozenset(generator.choice(count, size=size, replace=False).tolist())


def _reader(data: TextData, place: Place | None, split: str, given: Texts | None, seed: int) -> Reader:
    if given is not None:
        found = list(texts_of_rows(given, f"{split} texts"))
        return lambda _: found
    if data.builtin is not None:
        return lambda _: python_docs(split)
    drawn = data.maps or data.repeats
    if drawn is not None:
        texts = drawn.texts(split, drawn.size if split == "train" else drawn.validation_size, seed)
        return lambda _: texts
    if data.motifs is not None:
        size = data.motifs.size if split == "train" else data.motifs.validation_size
        melodies = data.motifs.melodies(split, size, seed)
        return lambda _: melodies
    writing = data.writing
    if writing is not None:
        places = data.train if place is None else place  # a file of chorales may have both splits
        if places is None:
            raise InputError("data.train is missing; name a folder of MIDI files, or data.music=null data.motifs={}")
        own = "validation" if split == "validation" and own_split(places, "validation") else "train"
        return lambda malformed: read_pieces(places, writing, split=own, malformed=malformed)
    if place is None:
        raise InputError("data.train is missing; name a file of text, or data.builtin=python_docs, or data.maps={}")
    return lambda malformed: read_texts(place, unit=data.unit, malformed=malformed)


def _brings_validation(data: TextData) -> bool:
    """Whether the data has a validation split of its own."""
    if data.music is not None:
        return data.train is not None and own_split(data.train, "validation")
    return data.builtin is not None or data.maps is not None or data.repeats is not None or data.motifs is not None


def _check_words(data: TextData, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that does not know the words of the music that is to be read."""
    writing = data.writing
    if writing is not None and tokenizer.kind != writing.events:
        where = "data.motifs" if data.music is None else f"data.music.events={writing.events}"
        raise InputError(
            f"the tokenizer is of kind {tokenizer.kind} beside {where}; give tokenizer.kind={writing.events}"
        )


def _stretches(texts: Iterable[str], tokenizer: Tokenizer, length: int) -> Iterator[list[int]]:
    """The stream of all texts, an end token before, between and after, cut where `length` tokens were told.

    Neighbours share a token: the last one that was told is the first one to be read. A last stretch may be shorter.
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
