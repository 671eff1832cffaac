"""The documents of pre-training, from files, from Python's own documentation or in memory, as text and as token ids."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from regard.data.malformed import MalformedRows
from regard.data.rows import parts_of
from regard.data.running_text import UNKNOWN, Document, python_docs, read_documents, sentences_of
from regard.errors import InputError
from regard.tasks.examples import Examples, Reader, Splits, amount_of
from regard.tasks.preparation import TRAIN, VALIDATION
from regard.text import Tokenizer

AT_ONCE = 1 << 20
"""The number of characters that are tokenized at once."""


def _row(row: Any, called: str, number: int, data: Any) -> Document:
    del number, data
    if isinstance(row, Mapping):
        row = parts_of(row, called, [["text"]], DOCUMENTS.wanted)[0]
    sentences = sentences_of(row) if isinstance(row, str) else row
    if not isinstance(sentences, list | tuple) or not all(isinstance(each, str) for each in sentences):
        raise InputError(f"{called} is {row!r:.60}; give a text, or a list of sentences")
    return list(sentences)


def _read(data: Any, path: str | list[str], malformed: MalformedRows) -> Iterator[Document]:
    return read_documents(
        path, documents=data.documents, sentences=data.sentences, cleaning=data.cleaning, malformed=malformed
    )


DOCUMENTS: Examples[Document] = Examples(
    type=None,
    rows="documents",
    wanted='a text, a list of sentences, or a mapping with "text"',
    file="file of text",
    formats=", or data.builtin=python_docs",
    row=_row,
    read=_read,
)
"""Documents; in memory each one is a text, with empty lines between paragraphs, or a list of sentences."""


def builtin_documents(split: str) -> Reader[Document]:
    """A reader of one split of the documents that come with Python."""
    return lambda _: (sentences_of(text) for text in python_docs(split))


class DocumentReaders(NamedTuple):
    """The readers of a recipe's documents, from files and builtin; None for each kind that is absent.

    Arguments:
        train, validation: readers of files, or of documents in memory.
        builtin_train, builtin_validation: readers of the documents that come with Python.
    """

    train: Reader[Document] | None
    validation: Reader[Document] | None
    builtin_train: Reader[Document] | None
    builtin_validation: Reader[Document] | None

    @classmethod
    def of(cls, data: Any, given: Any, given_validation: Any) -> DocumentReaders:
        """The readers of the documents that a `data` section names, or that the caller gives.

        Raises:
            InputError: if there are no training documents.
        """
        builtin = data.builtin is not None and given is None
        found = cls(
            DOCUMENTS.reader(data, data.train, given),
            DOCUMENTS.reader(data, data.validation, given_validation),
            builtin_documents(TRAIN) if builtin else None,
            builtin_documents(VALIDATION) if builtin else None,
        )
        if found.train is None and not builtin:
            raise InputError(f"data.train is missing; name a {DOCUMENTS.file}{DOCUMENTS.formats}")
        return found


class DocumentSplits(Splits[Document]):
    """Training and validation documents: first those of files, of which some may be held out, then the builtin ones.

    Arguments:
        data: the `data` section.
        readers: the readers of its documents.
        held_out: arguments of `Splits` about the choice of held-out documents.
    """

    def __init__(self, data: Any, readers: DocumentReaders, **held_out: Any) -> None:
        validation = readers.validation or (None if readers.train is not None else _none)
        super().__init__(readers.train or _none, validation, **amount_of(data), **held_out)
        self._builtin = {TRAIN: readers.builtin_train or _none, VALIDATION: readers.builtin_validation or _none}

    def everything(self) -> Iterator[Document]:
        """All training documents, also those that are held out."""
        return itertools.chain(super().everything(), self._builtin[TRAIN](self.malformed))

    def train(self) -> Iterator[Document]:
        """The training documents without those that are held out."""
        return itertools.chain(super().train(), self._builtin[TRAIN](self.malformed))

    def validation(self) -> Iterator[Document]:
        """The validation documents."""
        return itertools.chain(super().validation(), self._builtin[VALIDATION](self.malformed))


def _none(malformed: MalformedRows) -> tuple[()]:
    """A reader of no documents."""
    del malformed
    return ()


def texts_of(documents: Iterable[Document]) -> Iterator[str]:
    """The sentences of documents, to train a tokenizer on."""
    for sentence in itertools.chain.from_iterable(documents):
        yield sentence.replace(UNKNOWN, " ")


def encoded_documents(
    documents: Iterable[Document], tokenizer: Tokenizer, *, unknown: bool
) -> Iterator[list[list[int]]]:
    """Documents as token ids, sentence by sentence.

    Arguments:
        unknown: whether `UNKNOWN` in a sentence is the unknown token.
    """
    gap = [] if tokenizer.unknown_id is None else [tokenizer.unknown_id]
    for group in _grouped(documents):
        split = [[s.split(UNKNOWN) if unknown else [s] for s in document] for document in group]
        ids = iter(tokenizer.encode_batch([piece for document in split for pieces in document for piece in pieces]))
        for document in split:
            sentences = []
            for pieces in document:
                tokens = next(ids)
                for _ in pieces[1:]:
                    tokens += [*gap, *next(ids)]
                sentences.append(tokens)
            yield sentences


def _grouped(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Documents in groups of about `AT_ONCE` characters."""
    group: list[Document] = []
    characters = 0
    for document in documents:
        group.append(document)
        characters += sum(map(len, document))
        if characters >= AT_ONCE:
            yield group
            group, characters = [], 0
    if group:
        yield group
