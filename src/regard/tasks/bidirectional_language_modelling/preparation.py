"""From texts to token stores that a bidirectional language model is trained on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.checkpoints import located
from regard.data.malformed import MalformedRows
from regard.data.running_text import Document
from regard.errors import InputError
from regard.tasks.bidirectional_language_modelling.data import BidirectionalTextData
from regard.tasks.bidirectional_language_modelling.sentences import of_documents, spelt
from regard.tasks.bidirectional_language_modelling.task import TEXT, WORDS, BidirectionalLanguageModellingTask
from regard.tasks.examples import Splits
from regard.tasks.masked_language_modelling.documents import Given, Reader, builtin, reader
from regard.tasks.preparation import TRAIN, VALIDATION, Prepared, cleared, finish, is_prepared, opened, write_store
from regard.text import Tokenizer
from regard.text.spelling import SIZE
from regard.text.word_list import WordList


def prepare(
    data: BidirectionalTextData,
    folder: Path,
    *,
    seed: int,
    given: Given | None = None,
    given_validation: Given | None = None,
) -> Prepared[BidirectionalLanguageModellingTask]:
    """Read the texts once for the list of words and once for the tokens, and leave both in `folder`.

    Arguments:
        folder: where to put them; taken as they are if they are there already (a resumed run).
        seed: of held-out documents.
        given, given_validation: documents in memory instead of what `data` names: each a text, whose paragraphs have empty lines
            between them, or the list of its sentences.

    Raises:
        InputError: for data that cannot be read or too little of it.
    """
    if not is_prepared(folder):
        finish(folder, _prepared(data, folder, seed, given, given_validation))
    task = BidirectionalLanguageModellingTask.load(folder, {"length": data.length})
    return opened(dataclasses.replace(task, sampled=data.sampled), folder)


def _prepared(
    data: BidirectionalTextData, folder: Path, seed: int, given: Given | None, given_validation: Given | None
) -> list[str]:
    cleared(folder)
    splits = _splits(data, seed, given, given_validation)
    tokenizer = Tokenizer.train([], kind="spelling", size=SIZE)
    tokenizer.save(folder)
    wikitext = data.cleaning == "wikitext"
    if data.words is not None:
        words = WordList.load(located(data.words))
    else:
        learnt = spelt(tokenizer, of_documents(splits.train(), wikitext=wikitext))
        words = WordList.counted((each.words for each in learnt), size=data.vocabulary)
    words.save(folder)

    def rows(documents: Iterator[Document]) -> Iterator[Sequence[Sequence[int]]]:
        for each in spelt(tokenizer, of_documents(documents, wikitext=wikitext), length=data.length):
            yield each.read(tokenizer), each.told(words)

    columns = {TEXT: tokenizer.size, WORDS: len(words)}
    write_store(folder, TRAIN, columns, rows(splits.train()))
    write_store(folder, VALIDATION, columns, rows(splits.validation()))
    return splits.notes


def _splits(
    data: BidirectionalTextData, seed: int, given: Given | None, given_validation: Given | None
) -> Splits[Document]:
    train = _reader(data, TRAIN, data.train, given)
    validation = _reader(data, VALIDATION, data.validation, given_validation)
    if data.builtin is not None and given is None:
        if data.train is not None:
            raise InputError(f"data.train is given beside data.builtin={data.builtin}; choose one of the two")
        train, validation = builtin(_as_is(data), TRAIN), validation or builtin(_as_is(data), VALIDATION)
    if train is None:
        raise InputError("data.train is missing; name a file of text, or data.builtin=python_docs")
    return Splits(train, validation, share=data.validation_share, seed=seed)


def _reader(
    data: BidirectionalTextData, split: str, place: str | tuple[str, ...] | None, given: Given | None
) -> Reader | None:
    return reader(_as_is(data), place, given, "training" if split == TRAIN else split)


def _as_is(data: BidirectionalTextData) -> BidirectionalTextData:
    """What is read of a file before parts of words are joined."""
    return dataclasses.replace(data, cleaning="none")


def read_documents_of(data: BidirectionalTextData, malformed: MalformedRows) -> Iterator[Document]:
    """The documents that `data.train` names, each as its sentences.

    Raises:
        InputError: where it names none.
    """
    read = _reader(data, TRAIN, data.train, None)
    if read is None:
        raise InputError("no file of text is named; name one")
    for document in read(malformed):
        yield list(of_documents([document], wikitext=data.cleaning == "wikitext"))
