"""From texts to a token store that a model is pre-trained on by span corruption."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np

from regard.data.malformed import MalformedRows
from regard.data.running_text import UNKNOWN, Document
from regard.errors import InputError
from regard.tasks.masked_language_modelling.documents import Given, Reader, builtin, encoded, reader
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    Prepared,
    cleared,
    encoder_tokenizer,
    finish,
    is_prepared,
    opened,
    write_store,
)
from regard.tasks.span_corruption.data import SentinelTokenizerSettings, SpanTextData
from regard.tasks.span_corruption.task import STRETCH, SpanCorruptionTask, with_sentinels
from regard.text import Tokenizer


def prepare(
    data: SpanTextData,
    tokenizer: SentinelTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[SpanCorruptionTask]:
    """Read the texts once for the tokenizer and once for the tokens, and leave both in `folder`.

    Texts may be larger than memory: documents are read, and stretches written, one after another.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of held-out documents and of the spans that are taken out.
        given, given_validation: documents in memory instead of what `data` names.

    Raises:
        InputError: for data that cannot be read or too little of it, or a tokenizer without sentinels.
    """
    if not is_prepared(folder):
        finish(folder, _prepared(data, tokenizer, folder, seed, given, given_validation))
    return opened(SpanCorruptionTask(Tokenizer.load(folder), data.taking_out(seed)), folder)


def _prepared(
    data: SpanTextData,
    settings: SentinelTokenizerSettings,
    folder: Path,
    seed: int,
    given: Given | None,
    given_validation: Given | None,
) -> list[str]:
    cleared(folder)
    own = reader(data, data.train, given, "training")
    others = reader(data, data.validation, given_validation, "validation")
    more = builtin(data, TRAIN) if given is None else None
    more_others = builtin(data, VALIDATION) if given is None else None
    if own is None and more is None:
        raise InputError("data.train is missing; name a file of text, or data.builtin=python_docs")
    malformed, count = MalformedRows(), 0

    def texts() -> Iterator[str]:
        nonlocal count
        for document in own(malformed) if own is not None else ():
            count += 1
            yield from (line.replace(UNKNOWN, " ") for line in document)
        for document in more(malformed) if more is not None else ():
            yield from document

    tokenizer = encoder_tokenizer(settings, texts)
    if settings.path is not None:
        count = sum(1 for _ in own(malformed)) if own is not None else 0
    with_sentinels(tokenizer, settings.path or "tokenizer.sentinels")
    length = data.taking_out(seed).stretch(data.length)
    data.taking_out(seed).check_sentinels(length, tokenizer.sentinels)
    tokenizer.save(folder)
    held_out = _held_out(count, data.validation_share, seed) if own is not None and others is None else frozenset()
    notes = malformed.notes
    for split, read in (
        (TRAIN, [*_some(own, held_out, False), *_some(more)]),
        (VALIDATION, [*(_some(own, held_out, True) if held_out else _some(others)), *_some(more_others)]),
    ):
        counted = MalformedRows() if split == TRAIN or held_out else malformed
        documents = chain.from_iterable(each(counted) for each in read)
        notes.append(_write(folder, split, documents, data, tokenizer, length))
    return notes


def _some(read: Reader | None, held_out: frozenset[int] = frozenset(), wanted: bool = False) -> list[Reader]:
    """A reader of the documents that are held out, or that are not; none where there is none."""
    if read is None:
        return []
    return [lambda malformed: (each for i, each in enumerate(read(malformed)) if (i in held_out) == wanted)]


def _write(
    folder: Path, split: str, documents: Iterable[Document], data: SpanTextData, tokenizer: Tokenizer, length: int
) -> str:
    """Write the stretches of one split; returns a sentence about them."""
    counts: list[int] = []

    def rows() -> Iterator[tuple[np.ndarray]]:
        for stretch in stretches(encoded(documents, tokenizer, unknown=data.cleaning == "wikitext"), length):
            counts.append(len(stretch))
            yield (stretch,)

    write_store(folder, split, {STRETCH: tokenizer.size}, rows())
    lengths = np.array(counts)
    corruption = data.taking_out(0)
    noise, spans = corruption.counts(lengths)
    read, written = corruption.lengths(lengths).mean(axis=0).tolist()
    return (
        f"{split}: {len(counts):,} stretches of {lengths.mean():.1f} tokens on average ({lengths.sum():,} in all), of which "
        f"{noise.sum() / lengths.sum():.1%} are taken out in {spans.sum():,} spans: inputs of {read:.1f} tokens, targets of "
        f"{written:.1f}."
    )


def stretches(documents: Iterable[list[list[int]]], length: int) -> Iterator[np.ndarray]:
    """The stream of all documents, cut after every `length` tokens; what is left at the end, if 2 tokens or more.

    Nothing stands between two documents, as in the authors' code.
    """
    waiting = np.zeros(0, dtype=np.int64)
    for document in documents:
        waiting = np.concatenate([waiting, *(np.asarray(ids, dtype=np.int64) for ids in document)])
        whole = len(waiting) // length * length
        yield from np.split(waiting[:whole], whole // length) if whole else ()
        waiting = waiting[whole:]
    if len(waiting) > 1:
        yield waiting


def _held_out(count: int, share: float, seed: int) -> frozenset[int]:
    """Which of the files' documents are held out: the share asked for, one at least."""
    if count < 2:
        raise InputError(
            "the training text is one document, and none can be held out for validation; name data.validation, or cut the text "
            "into documents with data.documents"
        )
    generator = np.random.Generator(np.random.Philox(key=[seed, 0x56A1]))
    size = min(count - 1, max(1, round(share * count)))
    return frozenset(generator.choice(count, size=size, replace=False).tolist())
