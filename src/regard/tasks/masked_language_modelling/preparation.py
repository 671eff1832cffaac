"""From texts to a token store that a masked language model is trained on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from regard.data.malformed import MalformedRows
from regard.data.sentence_pairs import SENTENCES, Cutting, write_documents
from regard.data.token_store import TokenStore
from regard.errors import InputError
from regard.tasks.masked_language_modelling.data import MaskedTextData
from regard.tasks.masked_language_modelling.documents import Given, Reader, builtin, encoded, reader, texts_of
from regard.tasks.masked_language_modelling.stores import write_inputs
from regard.tasks.masked_language_modelling.task import MaskedLanguageModellingTask
from regard.tasks.masked_language_modelling.teacher import Teacher, teacher_folder
from regard.tasks.preparation import (
    TRAIN,
    VALIDATION,
    EncoderTokenizerSettings,
    Prepared,
    cleared,
    encoder_tokenizer,
    finish,
    is_prepared,
    opened,
)
from regard.text import Tokenizer

DOCUMENTS = "documents"
"""Where in the folder the documents are while inputs are cut from them."""


def prepare(
    data: MaskedTextData,
    tokenizer: EncoderTokenizerSettings,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[MaskedLanguageModellingTask]:
    """Read the texts once for the tokenizer and once for the tokens, cut inputs from these, and leave both in `folder`.

    Texts may be larger than memory: documents are read, and inputs written, one after another. In memory are what the tokenizer
    counts while it is trained, some tens of bytes for each document, and a few documents at a time.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of held-out documents, of how inputs are cut, and of what is hidden in them.
        given, given_validation: documents in memory instead of what `data` names: each a text, whose paragraphs have empty lines
            between them, or the list of its sentences.

    Raises:
        InputError: for data that cannot be read or too little of it, or a tokenizer without a mask token.
    """
    teacher = Teacher.read(data.teacher) if data.teacher is not None else None
    if not is_prepared(folder):
        finish(folder, _prepared(data, tokenizer, folder, seed, given, given_validation))
    task = MaskedLanguageModellingTask(
        tokenizer=Tokenizer.load(folder),
        maximum_length=data.maximum_length,
        next_sentence=data.next_sentence,
        masking=data.hiding(seed),
        teacher=teacher,
    )
    return opened(task, folder)


def _prepared(
    data: MaskedTextData,
    settings: EncoderTokenizerSettings,
    folder: Path,
    seed: int,
    given: Given | None,
    given_validation: Given | None,
) -> list[str]:
    cleared(folder)
    shutil.rmtree(folder / DOCUMENTS, ignore_errors=True)
    own = reader(data, data.train, given, "training")
    others = reader(data, data.validation, given_validation, "validation")
    train = _there(own, builtin(data, TRAIN) if given is None else None)
    validation = _there(others, builtin(data, VALIDATION) if given is None else None)
    if not train:
        raise InputError("data.train is missing; name a file of text, or data.builtin=python_docs")
    malformed = MalformedRows()
    if not any(document for part in train for document in part(malformed)):
        left_out = f" ({malformed.summary()})" if malformed.total else ""
        raise InputError(f"there is no training text{left_out}; give some")
    tokenizer = _tokenizer(data, settings, lambda: texts_of(part(malformed) for part in train))
    tokenizer.save(folder)
    parts = [*train, *validation]
    counts = [0] * len(parts)

    def documents() -> Iterator[list[list[int]]]:
        for number, part in enumerate(parts):
            for document in encoded(part(malformed), tokenizer, unknown=data.cleaning == "wikitext"):
                if any(document):
                    counts[number] += 1
                    yield document

    store = write_documents(folder / DOCUMENTS, documents(), vocabulary=tokenizer.size)
    rows, learnt = np.arange(len(store)), sum(counts[: len(train)])
    held_out = _held_out(counts[0], data, seed) if own is not None and others is None else rows[:0]
    splits = {TRAIN: np.setdiff1d(rows[:learnt], held_out), VALIDATION: np.concatenate([held_out, rows[learnt:]])}
    notes = malformed.notes
    notes += [_cut(folder, split, store, chosen, data, tokenizer, seed) for split, chosen in splits.items()]
    shutil.rmtree(folder / DOCUMENTS)
    return notes


def _cut(
    folder: Path, split: str, store: TokenStore, rows: np.ndarray, data: MaskedTextData, tokenizer: Tokenizer, seed: int
) -> str:
    """Cut some of the documents into the inputs of one split; returns a sentence about them."""
    count = f"{len(rows):,} document{'s' if len(rows) != 1 else ''}"
    if data.paired and len(rows) < 2:
        raise InputError(
            f"the {split} text has {count}, and half of the next sentences are taken from another; cut it into documents with "
            "data.documents, or leave pairs out with data.next_sentence=false"
        )
    cutting = Cutting(
        documents=store,
        rows=rows,
        room=data.maximum_length - (3 if data.paired else 2),
        short_share=data.short_share,
        random_share=data.random_next,
        seed=seed,
    )
    times = data.duplicates if split == TRAIN else 1  # validation sees each document once
    inputs = cutting.pairs(times) if data.paired else cutting.stretches(times)
    found = write_inputs(folder, split, tokenizer, inputs, next_sentence=data.next_sentence)
    sentences = int(store.lengths(SENTENCES)[rows].sum())
    return f"{split}: {count} of {sentences:,} sentences, cut into {found.sentence(data.maximum_length, paired=data.paired)}."


def _there(*readers: Reader | None) -> list[Reader]:
    return [each for each in readers if each is not None]


def _held_out(count: int, data: MaskedTextData, seed: int) -> np.ndarray:
    """Which of the files' documents are held out: the share asked for, and enough for pairs."""
    least = 2 if data.paired else 1
    if count < 2 * least:
        raise InputError(
            f"the training text has {count} document{'s' if count != 1 else ''}, too few to hold out {least} for validation; "
            "name data.validation, or cut the text into documents with data.documents"
        )
    generator = np.random.Generator(np.random.Philox(key=[seed, 0x56A1]))
    size = min(count - least, max(least, round(data.validation_share * count)))
    return np.sort(generator.choice(count, size=size, replace=False))


def _tokenizer(
    data: MaskedTextData, settings: EncoderTokenizerSettings, texts: Callable[[], Iterator[str]]
) -> Tokenizer:
    if settings.path is None and data.teacher is not None:
        tokenizer = Tokenizer.load(teacher_folder(data.teacher))
    else:
        tokenizer = encoder_tokenizer(settings, texts)
    if tokenizer.mask_id is None:
        raise InputError(
            f"the tokenizer (kind {tokenizer.kind}) has no mask token, so nothing can be hidden; set tokenizer.kind=bert"
        )
    return tokenizer
