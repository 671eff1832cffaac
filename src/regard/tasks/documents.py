"""The documents that pre-training reads: of files, of what comes with Python, or given in memory; as text and as token ids."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from regard.data.malformed import MalformedRows
from regard.data.rows import listed, parts_of
from regard.data.running_text import (
    UNKNOWN,
    Boundary,
    Cleaning,
    Document,
    SentenceUnit,
    python_docs,
    read_documents,
    sentences_of,
)
from regard.errors import InputError
from regard.tasks.examples import Place
from regard.text import Tokenizer

Given = Sequence[str] | Sequence[Sequence[str]] | Sequence[Mapping[str, object]]

WANTED = 'a text, a list of sentences, or a mapping with "text"'
"""Documents in memory: each a text, whose paragraphs have empty lines between them, or the list of its sentences."""

Reader = Callable[[MalformedRows], Iterator[Document]]

AT_ONCE = 1 << 20
"""Characters that are turned into tokens together."""


class ReadAs(Protocol):
    """What a recipe says of how text is read."""

    @property
    def builtin(self) -> str | None:
        """`python_docs`, or None."""
        ...

    @property
    def documents(self) -> Boundary:
        """Where a document ends."""
        ...

    @property
    def sentences(self) -> SentenceUnit:
        """What a sentence is."""
        ...

    @property
    def cleaning(self) -> Cleaning:
        """What is undone before."""
        ...


def in_memory(documents: Given) -> Iterator[Document]:
    """Documents as lists of sentences.

    Raises:
        InputError: for what is neither a text nor a list of sentences.
    """
    for number, document in enumerate(listed(documents, "documents", WANTED), start=1):
        if isinstance(document, Mapping):
            document = parts_of(document, f"document {number}", [["text"]], WANTED)[0]
        sentences = sentences_of(document) if isinstance(document, str) else document
        if not isinstance(sentences, list | tuple) or not all(isinstance(each, str) for each in sentences):
            raise InputError(f"document {number} is {document!r:.60}; give a text, or a list of sentences")
        yield list(sentences)


def reader(data: ReadAs, place: Place | None, given: Given | None, split: str) -> Reader | None:
    """What reads documents: those given in memory, else those of files; None where there are none.

    Raises:
        InputError: for an empty list of documents.
    """
    if given is not None:
        found = listed(given, f"{split} documents", WANTED)
        return lambda _: in_memory(found)
    if place is None:
        return None
    path = place if isinstance(place, str) else list(place)
    return lambda malformed: read_documents(
        path,
        documents=data.documents,
        sentences=data.sentences,
        cleaning=data.cleaning,
        malformed=malformed,
    )


def builtin(data: ReadAs, split: str) -> Reader | None:
    """What reads the builtin documents of a split; None where the recipe names none."""
    return None if data.builtin is None else lambda _: (sentences_of(text) for text in python_docs(split))


def texts_of(parts: Iterable[Iterable[Document]]) -> Iterator[str]:
    """The sentences to learn a vocabulary from."""
    for sentence in itertools.chain.from_iterable(itertools.chain.from_iterable(parts)):
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
